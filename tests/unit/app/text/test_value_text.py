"""Values as text survive JSON without loss."""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.app.text.value_text import json_lines, json_texts, plain_texts, row_values_texts
from stream_app.model.schema.data_type import parse_columns

INT64 = st.integers(-(2**63), 2**63 - 1)


def parsed_texts(column: pa.Array) -> list[object]:
    return [json.loads(text, parse_float=Decimal) for text in json_texts(column).to_pylist()]


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_text_of_a_string_is_json(values: list[str | None]) -> None:
    assert parsed_texts(pa.array(values, pa.string())) == values


@given(st.lists(st.none() | st.binary()))
def test_a_text_of_bytes_is_base64(values: list[bytes | None]) -> None:
    texts = parsed_texts(pa.array(values, pa.binary()))
    assert [None if text is None else base64.b64decode(str(text)) for text in texts] == values


@given(st.lists(st.none() | st.integers(1 - 10**38, 10**38 - 1)), st.integers(0, 38))
@settings(max_examples=200)
def test_a_text_of_a_decimal_keeps_each_digit(
    unscaled_values: list[int | None], scale: int
) -> None:
    """The text keeps trailing zeros, and has no exponent where Arrow writes one."""
    values = [
        None if v is None else Decimal((int(v < 0), tuple(map(int, str(abs(v)))), -scale))
        for v in unscaled_values
    ]
    column = pa.array(values, pa.decimal128(38, scale))
    texts = plain_texts(column).to_pylist()
    assert [None if text is None else Decimal(text) for text in texts] == values
    for text in texts:
        assert text is None or ("E" not in text and len(text.partition(".")[2]) == scale)
    assert json_texts(column).to_pylist() == ["null" if text is None else text for text in texts]


@given(st.lists(st.none() | st.floats()))
def test_a_text_of_a_double_gives_the_same_double(values: list[float | None]) -> None:
    texts = json_texts(pa.array(values, pa.float64())).to_pylist()
    for value, text in zip(values, texts, strict=True):
        read = json.loads(text)
        if value is None:
            assert read is None
        elif math.isfinite(value):
            assert isinstance(read, float)
            assert math.copysign(1, read) == math.copysign(1, value)
            assert read == value
        else:
            assert read in ("NaN", "Infinity", "-Infinity")
            assert float(read) == value or math.isnan(value)


@given(st.lists(st.none() | INT64))
def test_a_text_of_an_integer_gives_the_same_integer(values: list[int | None]) -> None:
    assert parsed_texts(pa.array(values, pa.int64())) == values


def test_a_line_has_its_columns_in_order_and_its_names_escaped() -> None:
    columns = [pa.array([1, None], pa.int32()), pa.array(["a", 'b"'])]
    lines = json_lines(['b"c', "a"], columns).to_pylist()
    assert lines == ['{"b\\"c":1,"a":"a"}', '{"b\\"c":null,"a":"b\\""}']


def test_of_a_slice_only_its_own_values_are_printed() -> None:
    column = pa.array(["x", "a\n", None, "b"]).slice(1, 2)
    assert json_texts(column).to_pylist() == ['"a\\n"', "null"]


def test_values_of_keys() -> None:
    columns = parse_columns(
        "a INT, b STRING, c DECIMAL(20,2), d DATE, e TIME(3), f TIMESTAMP(9), g TIMESTAMP_LTZ(3)"
    )
    values = (1, None, Decimal("1.50"), -1, 1, 1, 1_000_000)
    assert row_values_texts(values, columns.types) == [
        "1", None, "1.50", "1969-12-31", "00:00:00.001", "1970-01-01T00:00:00.000000001",
        "1970-01-01T00:00:00.001Z",
    ]  # fmt: skip
