"""Windows come in key order, hold every version of their keys, and lose no row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.mergetree.key_value_batch import rows_at
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.mergetree.spilled_runs import cut_between_keys
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER
from tests.support.histories.change_streams import SHAPES, Shape, key_in, with_sequence_numbers

PLAIN = [shape for shape in SHAPES if not shape.layout.sequence_fields]
Row = dict[str, Any]


def a_row(shape: Shape, key: tuple[Any, ...], sequence: int) -> Row:
    names = dict(zip(shape.key_names, key, strict=True))
    return {"_VALUE_KIND": 0, SEQUENCE_NUMBER: sequence, **names, "v": None, "ts": None, "n": None}


def order(shape: Shape) -> Any:
    """Python's order of the keys is the table's: UTF-8 keeps the order of code points."""
    return lambda row: (key_in(shape)(row), row[SEQUENCE_NUMBER])


@st.composite
def runs_of(draw: st.DrawFn, shape: Shape) -> list[list[list[Row]]]:
    """Runs of batches of rows; keys are unique in a run, sequence numbers in all."""
    runs: list[list[list[Row]]] = []
    picks = draw(st.lists(st.lists(st.sampled_from(shape.keys), unique=True), max_size=5))
    total = sum(len(keys) for keys in picks)
    sequences = draw(st.permutations(range(total)))
    number = 0
    for keys in picks:
        rows = [a_row(shape, key, sequences[number + i]) for i, key in enumerate(sorted(keys))]
        number += len(keys)
        size = draw(st.integers(1, 5))
        batches = [rows[start : start + size] for start in range(0, len(rows), size)]
        if draw(st.booleans()):
            batches.insert(draw(st.integers(0, len(batches))), [])
        runs.append(batches)
    return runs


def as_iterators(runs: Sequence[Sequence[Sequence[Row]]], shape: Shape) -> list[Any]:
    schema = shape.layout.schema
    return [
        iter([pa.RecordBatch.from_pylist(list(batch), schema=schema) for batch in run])
        for run in runs
    ]


@pytest.mark.parametrize("shape", PLAIN, ids=lambda shape: shape.label)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
@pytest.mark.slow
def test_windows_are_all_rows_in_order(shape: Shape, data: st.DataObject) -> None:
    runs = data.draw(runs_of(shape))
    windows = [
        rows_at(window.batch, window.order).to_pylist()
        for window in merge_windows(as_iterators(runs, shape), shape.layout)
    ]
    rows = [row for run in runs for batch in run for row in batch]
    assert [key_of_row(row) for window in windows for row in window] == [
        key_of_row(row) for row in sorted(rows, key=order(shape))
    ]
    key = key_in(shape)
    for left, right in pairwise(windows):
        assert key(left[-1]) < key(right[0]), "a key is in one window only"
    assert all(windows)
    largest = [max((len(batch) for batch in run), default=0) for run in runs]
    assert all(len(window) <= sum(largest) for window in windows), "a batch of each run at most"


def key_of_row(row: Row) -> tuple[Any, ...]:
    return tuple(sorted((name, repr(value)) for name, value in row.items()))


def test_a_run_is_read_no_further_than_needed() -> None:
    shape = SHAPES[0]
    read = []

    def reading(name: str, keys: Sequence[int]) -> Any:
        for key in keys:
            read.append((name, key))
            yield pa.RecordBatch.from_pylist([a_row(shape, (key,), key)], shape.layout.schema)

    windows = merge_windows([reading("a", [1, 2, 3]), reading("b", [9])], shape.layout)
    next(windows)
    assert read == [("a", 1), ("b", 9), ("a", 2)]


@pytest.mark.parametrize("shape", PLAIN, ids=lambda shape: shape.label)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_pieces_never_part_a_key(shape: Shape, data: st.DataObject) -> None:
    keys = sorted(data.draw(st.lists(st.sampled_from(shape.keys), min_size=1)))
    rows = [a_row(shape, key, number) for number, key in enumerate(keys)]
    batch = pa.RecordBatch.from_pylist(rows, shape.layout.schema)
    pieces = [
        piece.to_pylist()
        for piece in cut_between_keys(batch, shape.layout, data.draw(st.integers(1, 400)))
    ]
    assert [row for piece in pieces for row in piece] == batch.to_pylist()
    key = key_in(shape)
    for left, right in pairwise(pieces):
        assert key(left[-1]) != key(right[0])
    assert all(pieces)


def test_pieces_keep_to_their_size() -> None:
    shape = SHAPES[0]
    rows = with_sequence_numbers([a_row(shape, (number,), 0) for number in range(1000)], 0)
    batch = pa.RecordBatch.from_pylist(rows, shape.layout.schema)
    pieces = list(cut_between_keys(batch, shape.layout, batch.nbytes // 10))
    assert 10 <= len(pieces) <= 11
    assert max(piece.nbytes for piece in pieces) <= batch.nbytes // 9
