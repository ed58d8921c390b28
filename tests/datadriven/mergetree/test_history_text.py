"""Runs history.txt: how changes become versions, case by case.

``key KEY [input]`` begins a table of that kind with no rows. ``write``: each line is a change, with
its operation (+ for the row after it, - for a delete), key, moment and values. The output lists the
rows that go to the files. ``table`` lists the versions that the table then has. ``?`` stands for a
value that the source has left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.mergetree.key_value_batch import KeyValueLayout, merge_order, rows_at
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys, rows_with_keys
from stream_app.mergetree.merge_window import sorted_window
from stream_app.mergetree.write.history_versions import HistoryRule, written_versions
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.history_columns import HistoryColumns
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from stream_app.model.schema.unchanged_values import MESSAGE_COLUMN, UNCHANGED
from tests.support.histories.hidden_in_memory import HiddenInMemory
from tests.support.suite.datadriven import Case, run_file

SCHEMA = pa.schema(
    [
        pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False),
        pa.field(VALUE_KIND, pa.int8(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("city", pa.string()),
        pa.field("seen", pa.int64()),
        pa.field("valid_from", pa.int64(), nullable=False),
        pa.field("valid_to", pa.int64()),
        pa.field("is_current", pa.bool_(), nullable=False),
    ]
)
LAYOUT = KeyValueLayout(SCHEMA, ("id", "valid_from"))


@dataclass
class HistoryInMemory:
    """A table of one bucket, as a batch of its versions."""

    untracked_names: frozenset[str] = frozenset()
    with_before: bool = False
    rows: pa.RecordBatch = field(
        default_factory=lambda: pa.RecordBatch.from_pylist([], schema=SCHEMA)
    )
    hidden: HiddenInMemory = field(default_factory=lambda: HiddenInMemory(SCHEMA, "valid_from"))
    number: int = 0

    @property
    def rule(self) -> HistoryRule:
        """The rule of its versions."""
        columns = HistoryColumns(
            sequence="offset",
            valid_from="valid_from",
            valid_to="valid_to",
            is_current="is_current",
            untracked_columns=self.untracked_names,
        )
        return HistoryRule(columns, LAYOUT, self.with_before)

    def find(self, keys: pa.RecordBatch, _names: Sequence[str]) -> RowsOfKeys:
        """See `mergetree.file_access.OldRowLookup`."""
        key_indices, row_indices = rows_with_keys(keys, self.rows, ["id"])
        order = np.argsort(key_indices, kind="stable")
        return RowsOfKeys(key_indices[order], rows_at(self.rows, row_indices[order]))

    def write(self, lines: Sequence[str]) -> str:
        """Write changes; returns the written rows and the refused ones."""
        changes = self._changes(lines)
        outcome = written_versions(changes, self.rule, self.find, self.hidden)
        written = outcome.window.batch
        rows = pa.concat_batches([self.rows, written])
        order, last = merge_order(rows, LAYOUT)
        newest = order[last]
        is_kept = np.isin(rows.column(VALUE_KIND).to_numpy()[newest], [0, 2])
        self.rows = rows_at(rows, newest[is_kept])
        shown = [_row_text(row) for row in written.to_pylist()]
        if outcome.refused_messages is not None:
            shown += [
                f"refused: {reason}"
                for reason in outcome.refused_messages.column("reason").to_pylist()
            ]
        return "\n".join(shown) or "nothing"

    def _changes(self, lines: Sequence[str]) -> pa.RecordBatch:
        rows = []
        for line in lines:
            sign, key, valid_from, *values = line.split()
            city, seen_word = [*values, "null", "null"][:2]
            row: dict[str, object] = {
                SEQUENCE_NUMBER: self.number,
                VALUE_KIND: int(RowKind.INSERT if sign == "+" else RowKind.DELETE),
                "id": int(key),
                "city": None if city in ("null", "?") else city,
                "seen": None if seen_word == "null" else int(seen_word),
                "valid_from": int(valid_from),
                "valid_to": None,
                "is_current": False,
            }
            if any("?" in other_line for other_line in lines):
                row |= {UNCHANGED: "city" if city == "?" else None, MESSAGE_COLUMN: b"m"}
            rows.append(row)
            self.number += 1
        schema = SCHEMA
        if UNCHANGED in rows[0]:
            schema = schema.append(pa.field(UNCHANGED, pa.string()))
            schema = schema.append(pa.field(MESSAGE_COLUMN, pa.binary()))
        batch = pa.RecordBatch.from_pylist(rows, schema=schema)
        window = sorted_window(batch, KeyValueLayout(schema, LAYOUT.key_names))
        return rows_at(window.batch, window.order)


def _row_text(row: dict[str, Any]) -> str:
    kind = RowKind(row[VALUE_KIND]).short
    valid_to = "now" if row["valid_to"] is None else row["valid_to"]
    assert row["is_current"] is (row["valid_to"] is None)
    seen_text = "" if row["seen"] is None else f" {row['seen']}"
    return f"{kind} {row['id']} [{row['valid_from']}, {valid_to}) {row['city']}{seen_text}"


def test_changes_become_versions() -> None:
    table = HistoryInMemory()

    def handle(case: Case) -> str:
        nonlocal table
        match case.command:
            case "key":
                untracked_names = frozenset({"seen"} if "untracked" in case.args else ())
                table = HistoryInMemory(untracked_names, "input" in case.args)
                return "ready"
            case "write":
                return table.write(case.input_lines)
            case "table":
                shown = [_row_text(row) for row in table.rows.to_pylist()]
                return "\n".join(shown) or "no rows"
        raise AssertionError(case.command)

    run_file(Path(__file__).with_name("history.txt"), handle)
