"""Random histories in random batches have the versions of Spark's AUTO CDC."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from stream_app.mergetree.key_value_batch import KeyValueLayout, merge_order, rows_at
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys, rows_with_keys
from stream_app.mergetree.merge_window import sorted_window
from stream_app.mergetree.write.history_versions import HistoryRule, history_windows
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.history_columns import HistoryColumns
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from tests.support.histories.auto_cdc import Event, Version, versions_of
from tests.support.histories.hidden_in_memory import HiddenInMemory

COLUMNS = HistoryColumns(
    sequence="offset",
    valid_from="since",
    valid_to="until",
    is_current="current",
    untracked_columns=frozenset(),
)
SCHEMA = pa.schema(
    [
        pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False),
        pa.field(VALUE_KIND, pa.int8(), nullable=False),
        pa.field("a", pa.int64(), nullable=False),
        pa.field("b", pa.string(), nullable=False),
        pa.field("since", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("until", pa.timestamp("ms", "UTC")),
        pa.field("current", pa.bool_(), nullable=False),
        pa.field("v", pa.string()),
        pa.field("n", pa.int64()),
    ]
)
LAYOUT = KeyValueLayout(SCHEMA, ("a", "b", "since"))
RULE = HistoryRule(COLUMNS, LAYOUT, keeps_old_rows=False)
KEYS = st.integers(0, 3)


class TableOfVersions:
    """The rows of one bucket, in memory."""

    def __init__(self, untracked_columns: frozenset[str] = frozenset()) -> None:
        self.rule = replace(
            RULE, history_columns=replace(COLUMNS, untracked_columns=untracked_columns)
        )
        self.rows = pa.RecordBatch.from_pylist([], schema=SCHEMA)
        self.hidden = HiddenInMemory(SCHEMA, "since")
        self.number = 0

    def find(self, keys: pa.RecordBatch, _names: Sequence[str]) -> RowsOfKeys:
        key_indices, row_indices = rows_with_keys(keys, self.rows, ["a", "b"])
        order = np.argsort(key_indices, kind="stable")
        return RowsOfKeys(key_indices[order], rows_at(self.rows, row_indices[order]))

    def write(self, events: Sequence[Event]) -> int:
        """Write a batch; returns the number of written rows."""
        changes = pa.RecordBatch.from_pylist([self._row(event) for event in events], schema=SCHEMA)
        drained_windows = iter([sorted_window(changes, LAYOUT)])
        windows = history_windows(drained_windows, self.rule, self.find, self.hidden)
        written = pa.concat_batches([window.window.batch for window in windows])
        rows = pa.concat_batches([self.rows, written])
        order, last = merge_order(rows, LAYOUT)
        newest = order[last]
        is_deleted = rows.column(VALUE_KIND).to_numpy()[newest] == int(RowKind.DELETE)
        self.rows = rows_at(rows, newest[~is_deleted])
        return int(written.num_rows)

    def versions(self) -> list[Version]:
        shown = []
        for row in self.rows.to_pylist():
            ends = row["until"]
            assert row["current"] is (ends is None)
            end = None if ends is None else _millis(ends)
            shown.append(
                Version(
                    10 * row["a"] + int(row["b"]), _millis(row["since"]), end, row["v"], row["n"]
                )
            )
        return sorted(shown)

    def _row(self, event: Event) -> dict[str, Any]:
        self.number += 1
        kind = RowKind.DELETE if event.value is None else RowKind.UPDATE_AFTER
        return {
            SEQUENCE_NUMBER: self.number,
            VALUE_KIND: int(kind),
            "a": event.key // 10,
            "b": str(event.key % 10),
            "since": event.sequence,
            "current": False,
            "v": event.value,
            "n": event.untracked_value,
        }


def _millis(moment: Any) -> int:
    return round(moment.timestamp() * 1000)


def batches_of(events: Sequence[Event], cuts: Sequence[int]) -> list[Sequence[Event]]:
    ends = sorted({0, len(events), *(cut % (len(events) + 1) for cut in cuts)})
    return [events[start:end] for start, end in itertools.pairwise(ends)]


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 21]), st.integers(0, 1), st.sampled_from([None, "x", "y"]))
    ),
    st.lists(st.integers(0, 50), max_size=10),
    st.lists(st.booleans(), max_size=10),
    st.sampled_from([frozenset(), frozenset({"n"})]),
)
@example(
    [(1, 0, "x"), (1, 0, "x"), (0, 0, "y"), (21, 0, "y")],
    [1, 2, 3],
    [False, False, True],
    frozenset({"n"}),
)
def test_changes_in_order_give_the_versions_of_auto_cdc_whatever_is_dropped(
    steps: list[tuple[int, int, str | None]],
    cuts: list[int],
    drops: list[bool],
    untracked_columns: frozenset[str],
) -> None:
    moment, events = 0, []
    for step, key, value in steps:
        moment += step  # 0: at the same moment as the change before
        events.append(Event(key, moment, value))
    # With an untracked column, all hidden changes are read.
    table = TableOfVersions(untracked_columns)
    all_drops = itertools.chain(drops, itertools.repeat(False))
    for batch, is_dropped in zip(batches_of(events, cuts), all_drops, strict=False):
        table.write(batch)
        if is_dropped:
            table.hidden.drop_newest()
    assert table.versions() == versions_of(events)


@given(
    st.lists(st.tuples(KEYS, st.integers(0, 30), st.sampled_from([None, "x", "y"]))),
    st.lists(st.integers(0, 50), max_size=5),
)
def test_late_changes_give_the_versions_of_auto_cdc(
    changes: list[tuple[int, int, str | None]], cuts: list[int]
) -> None:
    events = [Event(*change) for change in changes]
    table = TableOfVersions()
    for batch in batches_of(events, cuts):
        table.write(batch)
    assert table.versions() == versions_of(events)


@given(st.lists(st.tuples(KEYS, st.sampled_from([None, "x", "y"])), min_size=1))
def test_repeated_changes_make_no_further_versions(steps: list[tuple[int, str | None]]) -> None:
    events = [Event(key, moment, value) for moment, (key, value) in enumerate(steps)]
    table = TableOfVersions()
    table.write(events)
    assert table.write(events) == 0
    assert table.versions() == versions_of(events)


@given(
    st.lists(st.tuples(KEYS, st.integers(0, 20), st.sampled_from([None, "x", "y"]))),
    st.lists(st.integers(0, 50), max_size=8),
)
def test_a_version_has_the_newest_untracked_value_of_its_own_changes(
    changes: list[tuple[int, int, str | None]], cuts: list[int]
) -> None:
    events = [
        Event(key, moment, value, None if value is None else number)
        for number, (key, moment, value) in enumerate(changes)
    ]
    table = TableOfVersions(frozenset({"n"}))
    for batch in batches_of(events, cuts):
        table.write(batch)
    assert table.versions() == versions_of(events)
