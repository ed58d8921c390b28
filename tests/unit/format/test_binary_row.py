"""Serialized rows equal the bytes that Java made of the same values."""

from __future__ import annotations

import decimal
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.errors import CorruptFileError
from stream_app.format.binary_row import (
    decode_row,
    deserialize_row,
    encode_row,
    key_order,
    python_value,
    serialize_arrow_row,
    serialize_row,
    unscaled_bytes,
)
from stream_app.format.binary_row_columns import encode_columns
from stream_app.model.schema.data_type import DataType, TypeRoot, parse_data_type
from tests.unit.format.vectors import (
    arrow_column,
    hashed_rows,
    plain_rows,
    row_type,
    types_of,
    values_of,
)

_ROWS = hashed_rows() + plain_rows()
ALL_ROWS = [pytest.param(row, id=row["label"]) for row in _ROWS]
ROWS_WITH_COLUMNS = [pytest.param(row, id=row["label"]) for row in _ROWS if row["types"]]

ALL_TYPES = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(9,2)",
    "DECIMAL(18,3)", "DECIMAL(19,4)", "DECIMAL(38,10)", "CHAR(5)", "STRING", "BYTES", "DATE",
    "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)",
    "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)",
]  # fmt: skip


@pytest.mark.parametrize("row", ALL_ROWS)
def test_row_has_the_bytes_of_java(row: dict[str, Any]) -> None:
    assert encode_row(values_of(row), types_of(row)).hex() == row["row_hex"]
    assert serialize_row(values_of(row), types_of(row)).hex() == row["serialized_hex"]


@pytest.mark.parametrize("row", ALL_ROWS)
def test_bytes_of_java_become_the_row(row: dict[str, Any]) -> None:
    expected = repr(tuple(values_of(row)))  # NaN and -0.0 show in the text only
    assert repr(decode_row(bytes.fromhex(row["row_hex"]), types_of(row))) == expected
    assert repr(deserialize_row(bytes.fromhex(row["serialized_hex"]), types_of(row))) == expected


@pytest.mark.parametrize("row", ROWS_WITH_COLUMNS)
def test_columns_have_the_bytes_of_java(row: dict[str, Any]) -> None:
    types = types_of(row)
    columns = [arrow_column([value], t) for value, t in zip(values_of(row), types, strict=True)]
    flat, offsets = encode_columns(columns, types)
    assert flat.tobytes().hex() == row["row_hex"]
    assert offsets.tolist() == [0, len(flat)]
    assert serialize_arrow_row(columns, types, 0).hex() == row["serialized_hex"]


def integers_of(bits: int) -> st.SearchStrategy[Any]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


BY_ROOT: dict[TypeRoot, st.SearchStrategy[Any]] = {
    TypeRoot.BOOLEAN: st.booleans(),
    TypeRoot.TINYINT: integers_of(8),
    TypeRoot.SMALLINT: integers_of(16),
    TypeRoot.INT: integers_of(32),
    TypeRoot.DATE: integers_of(32),
    TypeRoot.BIGINT: integers_of(64),
    TypeRoot.TIME: st.integers(0, 86_399_999),
    TypeRoot.FLOAT: st.floats(width=32, allow_nan=False),
    TypeRoot.DOUBLE: st.floats(allow_nan=False),
    TypeRoot.CHAR: st.text(max_size=20),
    TypeRoot.VARCHAR: st.text(max_size=20),
    TypeRoot.BINARY: st.binary(max_size=40),
    TypeRoot.VARBINARY: st.binary(max_size=40),
}


def values_strategy(data_type: DataType) -> st.SearchStrategy[Any]:
    precision, scale = data_type.precision, data_type.scale
    if data_type.root in BY_ROOT:
        return BY_ROOT[data_type.root]
    if data_type.root is TypeRoot.DECIMAL:
        exact = decimal.Context(prec=60)
        edge = 10**precision - 1
        return st.one_of(
            st.integers(-edge, edge), st.sampled_from([0, -1, 127, -128, 128, -129, edge])
        ).map(lambda unscaled_value: decimal.Decimal(unscaled_value).scaleb(-scale, exact))
    per_tick = 10**6 if precision <= 3 else 10**3 if precision <= 6 else 1
    return integers_of(64).map(lambda ticks: ticks * per_tick)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[DataType], list[list[Any]]]:
    texts = draw(st.lists(st.sampled_from(ALL_TYPES), min_size=1, max_size=6))
    types = [parse_data_type(text) for text in texts]
    row_count = draw(st.integers(0, 8))
    columns = [
        draw(
            st.lists(
                st.one_of(st.none(), values_strategy(data_type)),
                min_size=row_count,
                max_size=row_count,
            )
        )
        for data_type in types
    ]
    return types, columns


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(tables(), st.integers(0, 3), st.integers(0, 3))
def test_columns_and_rows_give_the_same_bytes(
    table: tuple[list[DataType], list[list[Any]]], before: int, after: int
) -> None:
    types, values = table
    whole = [arrow_column(column, t) for column, t in zip(values, types, strict=True)]
    length = max(len(whole[0]) - before - after, 0)
    columns = [column.slice(before, length) for column in whole]  # a slice has its own offset
    flat, offsets = encode_columns(columns, types)
    assert len(offsets) == len(columns[0]) + 1
    for index in range(len(columns[0])):
        row = tuple(column[before + index] for column in values)
        data = flat[offsets[index] : offsets[index + 1]].tobytes()
        assert data == encode_row(row, types)
        assert decode_row(data, types) == row
        assert (
            tuple(python_value(column[index], t) for column, t in zip(columns, types, strict=True))
            == row
        )


def test_57_columns_with_nulls_take_a_second_header_word() -> None:
    types = [parse_data_type("INT")] * 57 + [parse_data_type("STRING")] * 10
    row: list[int | str | None] = [None if index % 3 == 0 else index for index in range(57)]
    row += [None if index % 2 else "a long text" for index in range(10)]
    columns = [arrow_column([value], t) for value, t in zip(row, types, strict=True)]
    assert encode_columns(columns, types)[0].tobytes() == encode_row(row, types)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array(["a", "a long text"]).dictionary_encode(), id="dictionary"),
        pytest.param(pa.array(["a", "a long text"], pa.large_string()), id="large_string"),
        pytest.param(pa.array(["a", "a long text"], pa.string_view()), id="string_view"),
    ],
)
def test_other_arrow_texts_are_encoded_alike(column: pa.Array) -> None:
    types = [parse_data_type("STRING")]
    expected = encode_row(["a"], types) + encode_row(["a long text"], types)
    assert encode_columns([column], types)[0].tobytes() == expected


@pytest.mark.parametrize(
    ("data_type", "ascending"),
    [
        pytest.param("STRING", [None, "", "A", "a", "ab", "b", "\uffff", "😀"], id="utf-8-bytes"),
        pytest.param("BYTES", [b"", b"\0", b"\x7f", b"\x80", b"\xff"], id="unsigned-bytes"),
        pytest.param("BIGINT", [None, -(2**63), -1, 0, 2**63 - 1], id="signed"),
        pytest.param("TIMESTAMP(9)", [-1, 0, 1, 10**6], id="nanos-after-millis"),
        pytest.param(
            "DECIMAL(38, 2)",
            [decimal.Decimal(text) for text in ("-100.01", "-1", "0", "0.01", "99")],
            id="numeric",
        ),
        pytest.param("BOOLEAN", [False, True], id="false-first"),
    ],
)
def test_keys_compare_as_in_paimon(data_type: str, ascending: list[object]) -> None:
    types = (parse_data_type(data_type),)
    key_of = key_order(types)
    keys = [key_of(serialize_row([value], types)) for value in ascending]
    assert all(left < right for left, right in pairwise(keys))
    assert sorted(reversed(keys)) == keys
    assert keys[0] == key_of(serialize_row([ascending[0]], types))
    sent: Callable[[bytes], object] = pickle.loads(pickle.dumps(key_of))
    assert sent(serialize_row([ascending[0]], types)) == keys[0], "a table takes it to tasks"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "cannot have 0 bytes", id="empty"),
        pytest.param(bytes(12), "0 columns instead of 1", id="arity"),
        pytest.param(b"\0\0\0\1" + bytes(8), "cannot have 8 bytes", id="no-slot"),
        pytest.param(
            b"\0\0\0\1" + bytes(8) + b"\x09\0\0\0\x10\0\0\0", "exceeds the row", id="tail-missing"
        ),
        pytest.param(b"\0\0\0\1" + bytes(15) + b"\x88", "claims to hold 8", id="inline-length"),
        pytest.param(
            b"\0\0\0\1" + bytes(8) + b"\xff" + bytes(6) + b"\x81", "cannot be decoded", id="utf-8"
        ),
    ],
)
def test_broken_rows_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message) as caught:
        deserialize_row(data, row_type(("a", "STRING")).types)
    assert "to fix" in str(caught.value)


def test_a_long_timestamp_without_its_millis_is_refused() -> None:
    data = serialize_row([5], [parse_data_type("TIMESTAMP(9)")])[:-8]
    with pytest.raises(CorruptFileError, match="cannot be decoded"):
        deserialize_row(data, [parse_data_type("TIMESTAMP(9)")])


def test_decimal_with_too_many_digits_is_not_rounded() -> None:
    with pytest.raises(decimal.Inexact):
        encode_row([decimal.Decimal("1.234")], [parse_data_type("DECIMAL(9,2)")])


@pytest.mark.parametrize(
    ("unscaled_value", "digits"),
    [(0, "00"), (127, "7f"), (128, "0080"), (-128, "80"), (-129, "ff7f"), (-32768, "8000")],
)
def test_a_decimal_has_the_fewest_bytes(unscaled_value: int, digits: str) -> None:
    """As Java's BigInteger.toByteArray, by which Paimon and Iceberg write them."""
    assert unscaled_bytes(unscaled_value).hex() == digits
