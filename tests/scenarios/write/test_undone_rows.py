"""Readers and compactions accept all rows that a writer commits, of any kinds in any order.

Each key has one sequence of kinds, and the writer flushes each row by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.errors import MergeError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.mergetree.write.mergeable_rows import check_mergeable
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.merge.aggregate_function import AGGREGATE_FUNCTIONS
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import CompactInCaller, read_rows
from tests.support.tables.function_columns import FUNCTION_COLUMNS, NEEDED_OPTIONS
from tests.support.tables.small_table import KINDS, Change, SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")
AGGREGATION = {"merge-engine": "aggregation"}
GROUP = {"merge-engine": "partial-update", "fields.g.sequence-group": "v"}
REMOVES = "partial-update.remove-record-on-sequence-group"
ENGINES: Mapping[str, Mapping[str, str]] = {
    "aggregation": AGGREGATION,
    "aggregation, -U left out": {**AGGREGATION, "ignore-update-before": "true"},
    "aggregation, deletes left out": {**AGGREGATION, "ignore-delete": "true"},
    "aggregation, column keeps": {**AGGREGATION, "fields.v.ignore-retract": "true"},
    "aggregation, deletes remove": {
        **AGGREGATION,
        "aggregation.remove-record-on-delete": "true",
    },
    "aggregation by lookups": {**AGGREGATION, "changelog-producer": "lookup"},
    "group": GROUP,
    "group, column keeps": {**GROUP, "fields.v.ignore-retract": "true"},
    "group removes": {**GROUP, REMOVES: "g"},
    "group removes, column keeps": {**GROUP, REMOVES: "g", "fields.v.ignore-retract": "true"},
}
WITHOUT_FUNCTION: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "first-row": {"merge-engine": "first-row"},
    "first-row, deletes left out": {"merge-engine": "first-row", "ignore-delete": "true"},
    "partial-update": {"merge-engine": "partial-update"},
    "partial-update, deletes remove": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
    "partial-update, deletes left out": {
        "merge-engine": "partial-update",
        "ignore-delete": "true",
    },
    "group": GROUP,
    "group removes": {**GROUP, REMOVES: "g"},
}


@dataclass(frozen=True)
class Case:
    engine: Mapping[str, str]
    function: str | None
    nullable: bool

    def table(self, folder: Path) -> SmallTable:
        options = dict(self.engine)
        kind = "INT" if self.function is None else FUNCTION_COLUMNS[self.function][0]
        if self.function is not None:
            options |= {"fields.v.aggregate-function": self.function}
            options |= NEEDED_OPTIONS.get(self.function, {})
        not_null = "" if self.nullable else " NOT NULL"
        columns = f"k INT, g INT, v {kind}{not_null}"
        return small_table(folder / "t", columns, ("k",), write_only="true", **options)

    def change(self, key: int, step: int, kind: str) -> Change:
        """The sequences of a key's rows rise for one half of the keys, and fall for the other."""
        values = (6, 2) if self.function is None else FUNCTION_COLUMNS[self.function][1:]
        sequence = step if key % 2 else 9 - step
        return kind, {"k": key, "g": sequence, "v": values[step % 2]}


def accepts_retracts(function: str) -> bool:
    return AGGREGATE_FUNCTIONS[function].accepts_retracts


CASES = {
    f"{function or 'no function'}: {name}{'' if nullable else ', NOT NULL'}": Case(
        options, function, nullable
    )
    for engines, functions in ((ENGINES, [*AGGREGATE_FUNCTIONS]), (WITHOUT_FUNCTION, [None]))
    for name, options in engines.items()
    for function in functions
    for nullable in ((True, False) if function is None or accepts_retracts(function) else (True,))
    if function != "primary-key"
}
HISTORIES = [
    history for length in (1, 2, 3) for history in itertools.product(KINDS, repeat=length)
] * 2
WITH_A_ROW = [history for history in HISTORIES if history[0] in ("+I", "+U")]
"""A key without a row has no value, so a delete of it may leave none in a NOT NULL column. Its
compaction's error tells the remedy, `alter --nullable`, which fixes the table."""


def is_refused(table: FileStoreTable, change: Change) -> bool:
    """Return whether the writer refuses a row that precedes one of another key."""
    schema = table.schema
    kind, row = change
    table_rows = [dict(row), {**row, "k": -1}]
    batch = pa.RecordBatch.from_pylist(table_rows, arrow_schema(schema.fields))
    kinds = pa.array([int(KINDS[kind]), int(RowKind.INSERT)], pa.int8())
    rows = batch.add_column(0, pa.field(VALUE_KIND, pa.int8(), nullable=False), kinds)
    try:
        check_mergeable(rows, schema.refusal_rules, schema.primary_keys)
    except MergeError:
        return True
    return False


@pytest.mark.parametrize("name", CASES)
def test_what_is_committed_can_be_read_and_compacted(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    small = case.table(tmp_path)
    table, refused_changes = small.table, dict[str, Change]()
    histories = HISTORIES if case.nullable else WITH_A_ROW
    for step in range(3):
        changes = []
        for key, history in enumerate(histories):
            if step < len(history):
                change = case.change(key, step, history[step])
                if is_refused(table, change):
                    refused_changes[history[step]] = change
                else:
                    changes.append(change)
        small.commit(*changes)
        read_rows(table)
    for change in refused_changes.values():
        before = table.snapshots.latest()
        with pytest.raises(MergeError):
            small.commit(change, ("+I", {**change[1], "k": -1}))
        assert table.snapshots.latest() == before
    assert not refused_changes.keys() & {"+I", "+U"}
    compacting = table.with_options({"write-only": "false"})
    expected = sorted(map(str, read_rows(table)))
    StreamTableCommit(
        compacting, "compactor", CompactInCaller(compacting), BATCH_COMMIT_IDENTIFIER
    ).compact_fully()
    live = FileStoreScan(table).live(table.snapshots.latest())
    assert all(entry.file.level > 0 for entry in live)
    if not table.options.looks_up:  # these merge a row that is alone, too
        assert sorted(map(str, read_rows(table))) == expected
    read_rows(table)


def test_each_kind_is_refused_where_it_must_be(tmp_path: Path) -> None:
    """A few by hand, so that the rule is not only consistent."""
    expected = {
        ("max", "aggregation"): {"-U", "-D"},
        ("max", "aggregation, -U left out"): {"-D"},
        ("max", "aggregation, deletes remove"): {"-U"},
        ("max", "aggregation, column keeps"): set(),
        ("sum", "aggregation"): set(),
        ("max", "group"): {"-U", "-D"},
        ("max", "group removes"): {"-U", "-D"},
        ("max", "group removes, column keeps"): set(),
    }
    for (function, engine), kinds in expected.items():
        case = Case(ENGINES[engine], function, nullable=True)
        schema = case.table(tmp_path / function / engine).table.schema
        refused_kinds = {
            RowKind(kind).short for rule in schema.refusal_rules for kind in rule.kinds
        }
        assert refused_kinds == kinds, (function, engine)
