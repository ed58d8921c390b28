"""Nested columns become flat ones in which equal cells are equal, and other ones differ."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stream_app.format.arrow_schema import arrow_type
from stream_app.model.schema.data_type import parse_data_type
from stream_app.table.check.flat_columns import flat_columns

CASES: dict[str, list[Any]] = {
    "ARRAY<INT>": [None, [], [None], [1], [1, 2], [2, 1], [1, 2, None], [0]],
    "MAP<STRING, INT>": [None, [], [("a", None)], [("a", 1)], [("b", 1)], [("a", 1), ("b", 2)]],
    "ROW<x INT, y STRING>": [
        None, {"x": None, "y": None}, {"x": 1, "y": None}, {"x": 1, "y": "a"}, {"x": 2, "y": "a"},
    ],
    "ARRAY<ARRAY<STRING>>": [None, [], [[]], [None], [["a"], []], [[], ["a"]], [["a", "b"]]],
    "MAP<INT, ROW<a ARRAY<BIGINT>>>": [
        [(1, None)], [(1, {"a": None})], [(1, {"a": []})], [(1, {"a": [7]})], [(2, {"a": [7]})],
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_each_value_has_cells_of_its_own(text: str) -> None:
    kind = parse_data_type(text)
    values = CASES[text]
    whole = pa.array([*values, *reversed(values)], arrow_type(kind))
    # A slice begins amid the elements of the whole.
    column = whole.slice(1)
    flat, types = flat_columns([column], [kind])
    assert [arrow_type(each) for each in types] == [each.type for each in flat]
    cells = list(zip(*(each.to_pylist() for each in flat), strict=True))
    first, second = cells[: len(values) - 1], cells[len(values) - 1 :]
    assert len(set(second)) == len(values)
    assert first == second[::-1][1:]


def test_flat_columns_stay() -> None:
    column = pa.array([1, None], pa.int32())
    flat, types = flat_columns([column], [parse_data_type("INT")])
    assert (flat, types) == ([column], [parse_data_type("INT")])
