"""Nested arrays take NOT NULL members, also where a null ROW hides nulls."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from stream_app.format.arrow_schema import arrow_type
from stream_app.format.casting.nested_arrays import cast_with_members, with_hidden_nulls
from stream_app.format.casting.rules import read_as
from stream_app.model.schema.data_type import parse_columns

INNER = pa.struct([("n", pa.int32()), ("s", pa.string())])
STRICT = pa.struct([
    pa.field("n", pa.int64(), nullable=False), pa.field("s", pa.string(), nullable=False)
])  # fmt: skip


def rows_with_hidden_nulls() -> pa.Array:
    columns = [pa.array([None, 7, 8], pa.int32()), pa.array([None, "x", "y"])]
    return pa.StructArray.from_arrays(
        columns, fields=list(INNER), mask=pa.array([True, False, False])
    )


def test_a_null_row_may_have_fields_that_are_not_null() -> None:
    rows = cast_with_members(rows_with_hidden_nulls(), STRICT)
    assert rows.to_pylist() == [None, {"n": 7, "s": "x"}, {"n": 8, "s": "y"}]
    assert [rows.field(number).null_count for number in range(2)] == [0, 0]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_slices_of_deep_values_keep_them(start: int) -> None:
    rows = rows_with_hidden_nulls()
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), rows)
    outer = pa.StructArray.from_arrays(
        [lists], fields=[pa.field("l", lists.type)], mask=pa.array([False, True, False])
    )
    kind = pa.struct([pa.field("l", pa.list_(pa.field("e", STRICT)), nullable=False)])
    expected = [{"l": [None]}, None, {"l": [{"n": 7, "s": "x"}, {"n": 8, "s": "y"}]}][start:]
    assert cast_with_members(outer.slice(start), kind).to_pylist() == expected
    compact = with_hidden_nulls(outer.slice(start))
    assert compact.to_pylist() == expected
    assert compact.offset == 0


def test_a_null_that_is_not_hidden_is_refused() -> None:
    rows = pa.array([{"n": None, "s": "x"}], INNER)
    with pytest.raises(pa.ArrowInvalid, match="'n' is NOT NULL, and has a null"):
        cast_with_members(rows, STRICT)


def test_rows_of_another_type_hide_no_nulls_from_writers() -> None:
    """Arrow's Parquet writer refuses a NOT NULL field with nulls below null ROWs."""
    was = parse_columns("r ROW<n INT NOT NULL, s STRING, gone INT>").types[0]
    now = replace(was, fields=was.fields[:2])
    rows = read_as(pa.array([{"n": 1, "s": "x", "gone": 2}, None], arrow_type(was)), was, now)
    assert rows.to_pylist() == [{"n": 1, "s": "x"}, None]
    assert rows.field(0).null_count == 0
