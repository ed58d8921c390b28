"""NumPy reduces segments of keys as a loop over rows does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.mergetree.merge_window import MergeWindow, sorted_window
from tests.support.tables.lsm_files import a_layout

LAYOUT = a_layout("k INT NOT NULL, v INT", "k")
TEXT_LAYOUT = a_layout("k STRING NOT NULL, v INT", "k")
Rows = Sequence[tuple[int, int | None]]


def batch_of(rows: Rows) -> pa.RecordBatch:
    """Rows (key, value) in the order of their age."""
    numbered_rows = [
        {"_SEQUENCE_NUMBER": number, "_VALUE_KIND": 0, "k": key, "v": value}
        for number, (key, value) in enumerate(rows)
    ]
    return pa.RecordBatch.from_pylist(numbered_rows, schema=LAYOUT.schema)


def by_key(rows: Rows) -> dict[int, list[int | None]]:
    values: dict[int, list[int | None]] = {}
    for key, value in rows:
        values.setdefault(key, []).append(value)
    return dict(sorted(values.items()))


def test_the_four_rows_of_the_docstring() -> None:
    window = sorted_window(batch_of([(7, 1), (5, 2), (7, 3), (5, 4)]), LAYOUT)
    assert window.order is not None
    assert window.order.tolist() == [1, 3, 0, 2]
    assert window.is_last_row(LAYOUT).tolist() == [False, True, False, True]
    starts = window.key_starts(LAYOUT)
    assert starts.dtype == np.int64
    assert starts.tolist() == [0, 2]
    values = window.batch["v"].to_numpy()[window.order]
    assert np.add.reduceat(values, starts).tolist() == [6, 4]
    assert np.maximum.reduceat(values, starts).tolist() == [4, 3]


@pytest.mark.parametrize("order", [None, np.zeros(0, np.int64)])
def test_a_window_without_rows_has_no_segments(order: np.ndarray | None) -> None:
    assert MergeWindow(batch_of([]), order).key_starts(LAYOUT).tolist() == []


def test_rows_that_the_order_leaves_out_begin_no_segment() -> None:
    batch = batch_of([(1, 0), (2, 0), (2, 1), (3, 0)])
    assert MergeWindow(batch, np.array([1, 2, 3])).key_starts(LAYOUT).tolist() == [0, 2]
    assert MergeWindow(batch).key_starts(LAYOUT).tolist() == [0, 1, 3]


def test_keys_that_are_not_integers() -> None:
    rows = [("b", 1), ("a", 2), ("b", 3), ("", 4)]
    numbered_rows = [
        {"_SEQUENCE_NUMBER": number, "_VALUE_KIND": 0, "k": key, "v": value}
        for number, (key, value) in enumerate(rows)
    ]
    batch = pa.RecordBatch.from_pylist(numbered_rows, schema=TEXT_LAYOUT.schema)
    assert sorted_window(batch, TEXT_LAYOUT).key_starts(TEXT_LAYOUT).tolist() == [0, 1, 2]


ROWS = st.lists(
    st.tuples(st.integers(-3, 3), st.none() | st.integers(-9, 9)), min_size=1, max_size=40
)


@given(ROWS)
def test_a_sum_for_each_key(rows: Rows) -> None:
    window = sorted_window(batch_of(rows), LAYOUT)
    values = window.batch["v"].fill_null(0).to_numpy()[window.order]
    sums = np.add.reduceat(values, window.key_starts(LAYOUT))
    assert sums.tolist() == [sum(v or 0 for v in values) for values in by_key(rows).values()]


@given(ROWS)
def test_the_last_value_of_each_key_that_is_not_null(rows: Rows) -> None:
    """`partial-update` merges a column in this way."""
    window = sorted_window(batch_of(rows), LAYOUT)
    order = window.order
    assert order is not None
    is_valid = window.batch["v"].is_valid().to_numpy(zero_copy_only=False)[order]
    places = np.where(is_valid, np.arange(len(order)), -1)
    last = np.maximum.reduceat(places, window.key_starts(LAYOUT))
    chosen = pa.array(order[last], mask=last < 0)
    assert window.batch["v"].take(chosen).to_pylist() == [
        next((v for v in reversed(values) if v is not None), None)
        for values in by_key(rows).values()
    ]
