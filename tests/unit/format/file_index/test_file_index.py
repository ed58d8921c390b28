"""File indexes: no row that passes is excluded, whatever the values; readers report damage."""

from __future__ import annotations

import math
import operator
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.format.arrow_schema import arrow_type
from stream_app.format.binary_row_columns import text_words
from stream_app.format.file_index.container import decode_file_index, encode_file_index
from stream_app.format.file_index.file_index_registry import FILE_INDEX_KINDS
from stream_app.format.file_index.index_kind import IndexComparison, IndexTest
from stream_app.format.file_index.index_values import ValueCodec
from stream_app.format.file_index.java_hash_order import hash_order, string_hash
from stream_app.format.file_index.xx_hash import xx_hashes
from stream_app.model.options.indexed_columns import INDEX_SETTINGS
from stream_app.model.schema.data_type import FLOAT_ROOTS, DataType, parse_data_type
from stream_app.model.schema.file_index_problems import can_index

SMALL = {
    "bloom-filter": {"items": "20", "fpp": "0.3"},
    "bitmap": {"index-block-size": "64 b"},
    "range-bitmap": {"chunk-size": "16 b"},
}
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-5, 5) | st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-5, 5) | st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-5, 5) | st.integers(1 - 2**63, 2**63 - 1),
    "FLOAT": st.floats(width=32) | st.sampled_from([-1.5, 2.0]),
    "DOUBLE": st.floats() | st.sampled_from([-1.5, 2.0]),
    "DECIMAL(9, 2)": st.decimals(-9999, 9999, places=2),
    "STRING": st.text(max_size=12) | st.sampled_from(["", "a", "ab"]),
    "VARBINARY(9)": st.binary(max_size=9),
    "DATE": st.dates(),
    "TIMESTAMP(3)": st.integers(-(2**40), 2**40),
    "TIMESTAMP(6)": st.integers(-(2**40), 2**40),
    "TIMESTAMP(9)": st.integers(-3000, 3000),
}
ORDERS = {
    IndexComparison.LESS: operator.lt,
    IndexComparison.AT_MOST: operator.le,
    IndexComparison.GREATER: operator.gt,
    IndexComparison.AT_LEAST: operator.ge,
}
NAMED = st.dictionaries(st.sampled_from(["bsi", "bitmap"]), st.none() | st.binary(max_size=9))
PAIRS = [
    (kind, name)
    for kind in INDEX_SETTINGS
    for name in TYPES
    if can_index(kind, parse_data_type(name))
]


def passes(comparison: IndexComparison, value: Any, key: Any, keys: list[Any]) -> bool:
    """SQL's answer; nothing but IS NULL passes a null."""
    if value is None:
        return comparison is IndexComparison.NULL
    if comparison in ORDERS:
        return bool(ORDERS[comparison](key, keys[0]))
    if comparison in (IndexComparison.NULL, IndexComparison.NOT_NULL):
        return comparison is IndexComparison.NOT_NULL
    return (key in keys) == (comparison is IndexComparison.ONE_OF)


def exact_keys(column: pa.Array, data_type: DataType) -> list[Any]:
    """Values that compare as SQL compares them; of TIMESTAMP(9) all digits count."""
    if pa.types.is_timestamp(column.type):
        return column.view(pa.int64()).to_pylist()
    if pa.types.is_binary(column.type):
        return column.to_pylist()
    keys = iter(ValueCodec.of_type(data_type).keys(column.drop_null()))
    return [next(keys) if cell.is_valid else None for cell in column]


@pytest.mark.parametrize(("kind", "name"), PAIRS)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_no_row_that_passes_is_excluded(kind: str, name: str, data: st.DataObject) -> None:
    data_type, column_type = parse_data_type(name), arrow_type(parse_data_type(name))
    values = data.draw(st.lists(st.none() | TYPES[name], max_size=30))
    operands = data.draw(st.lists(TYPES[name] | st.sampled_from([*values, None]), max_size=3))
    column = pa.array(values, column_type)
    literals = pa.array([value for value in operands if value is not None], column_type)
    if data_type.root in FLOAT_ROOTS and 0 in literals.to_pylist():
        return  # 0.0 and -0.0 are two values to an index: it is never asked about them
    builder = FILE_INDEX_KINDS[kind].make_builder(data_type, SMALL.get(kind, {}))
    for start in range(0, len(column), 7):
        builder.add(column.slice(start, 7))
    body = builder.body()
    if body is None:
        assert kind == "bitmap", "a long text does not fit a block"
        return
    reader = FILE_INDEX_KINDS[kind].make_reader(body, data_type)
    keys, literal_keys = exact_keys(column, data_type), exact_keys(literals, data_type)
    for comparison in IndexComparison:
        if comparison not in (IndexComparison.NULL, IndexComparison.NOT_NULL) and not literal_keys:
            continue
        rows = reader.rows(IndexTest(comparison, literals))
        expected = {
            row
            for row, (value, key) in enumerate(zip(values, keys, strict=True))
            if passes(comparison, value, key, literal_keys)
        }
        assert rows is None or expected <= set(rows)
        if rows is not None and kind != "bloom-filter" and name != "TIMESTAMP(9)":
            assert expected == set(rows)


@pytest.mark.parametrize("kind", INDEX_SETTINGS)
def test_a_column_of_nulls_has_an_index(kind: str) -> None:
    data_type = parse_data_type("INT")
    builder = FILE_INDEX_KINDS[kind].make_builder(data_type, {})
    builder.add(pa.nulls(3, pa.int32()))
    body = builder.body()
    assert body is not None
    reader = FILE_INDEX_KINDS[kind].make_reader(body, data_type)
    rows = reader.rows(IndexTest(IndexComparison.ONE_OF, pa.array([1], pa.int32())))
    assert rows is not None
    assert not rows


def test_the_least_bigint_has_no_slices() -> None:
    builder = FILE_INDEX_KINDS["bsi"].make_builder(parse_data_type("BIGINT"), {})
    builder.add(pa.array([1, -(2**63)]))
    assert builder.body() is None


def test_a_bitmap_of_version_1_is_read() -> None:
    data_type = parse_data_type("STRING")
    builder = FILE_INDEX_KINDS["bitmap"].make_builder(data_type, {"version": "1"})
    builder.add(pa.array(["b", None, "a", "b"]))
    body = builder.body()
    assert body is not None
    assert body[0] == 1
    reader = FILE_INDEX_KINDS["bitmap"].make_reader(body, data_type)
    rows = reader.rows(IndexTest(IndexComparison.ONE_OF, pa.array(["b", "c"])))
    assert rows is not None
    assert list(rows) == [0, 3]


@given(st.dictionaries(st.text(max_size=9), NAMED, max_size=4))
def test_a_container_holds_any_names(bodies: dict[str, dict[str, bytes | None]]) -> None:
    assert decode_file_index(encode_file_index(bodies)) == bodies


@pytest.mark.parametrize("cut", [0, 8, 30, 60])
def test_a_damaged_container_is_reported(cut: int) -> None:
    data = encode_file_index({"a": {"bsi": b"x" * 30}})
    with pytest.raises((ValueError, struct.error)):
        decode_file_index(data[:cut])
    with pytest.raises(ValueError, match="begins with"):
        decode_file_index(b"\1" + data[1:])


def test_hashes_are_those_that_are_published() -> None:
    expected_hashes = {
        b"": 0xEF46DB3751D8E999,
        b"a": 0xD24EC4F1A98C6E5B,
        b"abc": 0x44BC2CF5AD770999,
        b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
    }
    texts = pa.array(list(expected_hashes), pa.binary())
    assert xx_hashes(text_words(texts)).tolist() == list(expected_hashes.values())
    assert string_hash("polygenelubricants") == -(2**31)  # the word that Java's programmers know


def test_keys_of_a_map_lie_in_bins() -> None:
    assert hash_order([17, 2, 1, 0], is_computed=False).tolist() == [3, 0, 2, 1]
    assert hash_order([17, 2, 1, 0], is_computed=True).tolist() == [3, 2, 0, 1]
    many = np.arange(1000)[::-1]
    assert many[hash_order(many, is_computed=True)].tolist() == list(range(1000))


def test_nan_is_one_value_and_the_greatest() -> None:
    data_type = parse_data_type("DOUBLE")
    other_nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))
    builder = FILE_INDEX_KINDS["range-bitmap"].make_builder(data_type, {})
    builder.add(pa.array([1.0, math.nan, *other_nan, -math.inf]))
    body = builder.body()
    assert body is not None
    reader = FILE_INDEX_KINDS["range-bitmap"].make_reader(body, data_type)
    rows = reader.rows(IndexTest(IndexComparison.GREATER, pa.array([0.5])))
    assert rows is not None
    assert list(rows) == [0, 1, 2]
