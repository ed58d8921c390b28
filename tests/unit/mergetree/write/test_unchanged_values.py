"""The writer takes unchanged values from the rows before a change, or from the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.mergetree.lookup.key_lookup import RowsOfKeys
from stream_app.mergetree.merge_engines.deduplicate import Deduplicate
from stream_app.mergetree.write.fill_unchanged import PART_SIZE
from stream_app.mergetree.write.merge_tree_writer import MergeTreeWriter
from stream_app.mergetree.write.write_buffer import SortBufferWriteBuffer
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.schema.unchanged_values import MESSAGE_COLUMN, NAME_SEPARATOR, UNCHANGED
from tests.support.tables.lsm_files import INT_KEY, MemoryFiles, a_layout

LAYOUT = a_layout("k INT NOT NULL, a STRING, b STRING", "k")
KINDS = {kind.short: kind for kind in RowKind}
LEFT_OUT = "."
Row = tuple[str, int, str | None, str | None]


class Table:
    """Implements `OldRowLookup` with a dictionary and the files of the writer."""

    def __init__(self, files: MemoryFiles, rows: dict[int, dict[str, Any]]) -> None:
        self.files, self.rows = files, rows
        self.lookups: list[tuple[list[int], list[str]]] = []

    def find(
        self, keys: pa.RecordBatch, columns: Sequence[str], new_files: Sequence[DataFileMeta]
    ) -> RowsOfKeys:
        wanted_keys = keys.column("k").to_pylist()
        self.lookups.append((wanted_keys, sorted(columns)))
        every = dict(self.rows)
        for row in self.files.rows_of(new_files):
            every[row["k"]] = row
        stored_rows = {index: every[k] for index, k in enumerate(wanted_keys) if k in every}
        alive = {index: row for index, row in stored_rows.items() if not row.get(VALUE_KIND, 0) & 1}
        names = ["k", *columns]
        schema = pa.schema([LAYOUT.schema.field(name) for name in names])
        rows = [{name: row[name] for name in names} for row in alive.values()]
        return RowsOfKeys(np.array([*alive], np.int64), pa.RecordBatch.from_pylist(rows, schema))


def batch_of(rows: Sequence[Row], first: int = 0) -> pa.RecordBatch:
    """Rows as the decoder gives them; the message of a row is its number."""
    columns: dict[str, list[Any]] = {VALUE_KIND: [], "k": [], "a": [], "b": []}
    unchanged_names: list[str | None] = []
    for kind, k, a, b in rows:
        columns[VALUE_KIND].append(int(KINDS[kind]))
        columns["k"].append(k)
        for name, value in (("a", a), ("b", b)):
            columns[name].append(None if value == LEFT_OUT else value)
        names = [name for name, value in (("a", a), ("b", b)) if value == LEFT_OUT]
        unchanged_names.append(NAME_SEPARATOR.join(names) or None)
    schema = pa.schema([LAYOUT.schema.field(name) for name in columns])
    batch = pa.RecordBatch.from_pydict(columns, schema)
    if not any(unchanged_names):
        return batch
    messages = [None if name is None else first + row for row, name in enumerate(unchanged_names)]
    batch = batch.append_column(UNCHANGED, pa.array(unchanged_names, pa.string()))
    return batch.append_column(MESSAGE_COLUMN, pa.array(messages, pa.int64()))


def written_rows(
    table_rows: dict[int, dict[str, Any]],
    *batches: Sequence[Row],
    changelog: bool = False,
    **limits: Any,
) -> tuple[list[str], list[str], Table]:
    """The rows of the bucket's files, why rows were refused, and what the table was asked."""
    files = MemoryFiles(LAYOUT, INT_KEY)
    table = Table(files, table_rows)
    buffer = SortBufferWriteBuffer(
        layout=LAYOUT,
        bytes_max=limits.pop("bytes_max", 1 << 20),
        chunk_merge=None if changelog else Deduplicate(),
        **limits,
    )
    writer = MergeTreeWriter(
        layout=LAYOUT, buffer=buffer, merge_function=Deduplicate(), file_access=files,
        next_sequence_number=100, writes_changelog=changelog, old_row_lookup=table,
    )  # fmt: skip
    first = 0
    for rows in batches:
        writer.write(batch_of(rows, first))
        first += len(rows)
    result = writer.prepare_commit()
    shown = files.rows_of(result.changelog_files if changelog else result.added_files)
    texts = [
        f"{RowKind(row[VALUE_KIND]).short} {row['k']} {row['a']} {row['b']}"
        for row in sorted(shown, key=lambda row: row["_SEQUENCE_NUMBER"])
    ]
    refusal_texts = [
        f"{row[MESSAGE_COLUMN]}: {row['reason']}"
        for part in result.refused_batches
        for row in part.to_pylist()
    ]
    return texts, refusal_texts, table


def a_row(k: int, a: str | None, b: str | None) -> dict[str, Any]:
    return {"k": k, "a": a, "b": b}


def test_a_value_comes_from_the_table() -> None:
    rows, refusal_texts, table = written_rows({7: a_row(7, "old", "x")}, [("+U", 7, ".", "new")])
    assert rows == ["+U 7 old new"]
    assert refusal_texts == []
    assert table.lookups == [([7], ["a"])]


def test_a_value_of_the_same_epoch_is_newer_than_the_table() -> None:
    rows, refusal_texts, table = written_rows(
        {7: a_row(7, "old", "x")}, [("+U", 7, "newer", "1"), ("+U", 7, ".", "2")]
    )
    assert rows == ["+U 7 newer 2"]
    assert not refusal_texts
    assert table.lookups == []


def test_chains_are_followed_to_the_value_of_each_column() -> None:
    rows, refusal_texts, _ = written_rows(
        {7: a_row(7, "A", "B")},
        [("+U", 7, ".", "."), ("+U", 7, ".", "b1"), ("+U", 7, "a2", "."), ("+U", 7, ".", ".")],
        changelog=True,
    )
    assert rows == ["+U 7 A B", "+U 7 A b1", "+U 7 a2 b1", "+U 7 a2 b1"]
    assert not refusal_texts


def test_blocks_of_whole_rows_before_and_behind() -> None:
    """The buffer widens when the first row comes that leaves a value out."""
    rows, refusal_texts, _ = written_rows(
        {}, [("+I", 1, "a", "b"), ("+I", 2, "c", "d")], [("+U", 1, ".", "e")], [("+U", 2, "f", "g")]
    )
    assert rows == ["+U 1 a e", "+U 2 f g"]
    assert not refusal_texts


def test_only_the_keys_and_columns_that_are_needed_are_asked() -> None:
    old = {k: a_row(k, f"a{k}", f"b{k}") for k in range(10)}
    _, _, table = written_rows(
        old, [("+U", 3, ".", "x"), ("+U", 5, "y", "z"), ("+U", 4, "q", "r"), ("+U", 4, ".", "s")]
    )
    assert table.lookups == [([3], ["a"])]


@pytest.mark.parametrize(
    ("table", "changes", "reason"),
    [
        ({}, [("+U", 7, ".", "x")], "0: column 'a' is unchanged and its value was not sent, and "
         "its row is not in the table"),
        ({7: a_row(7, "A", "B")}, [("-D", 7, None, None), ("+U", 7, ".", "x")],
         "1: column 'a' is unchanged and its value was not sent, and its row was deleted"),
        ({7: a_row(7, None, "B")}, [("+U", 7, ".", "x")],
         "0: column 'a' is unchanged and its value was not sent, and the table's value is null "
         "there"),
    ],
)  # fmt: skip
def test_the_writer_refuses_an_unchanged_value_without_an_older_row(
    table: dict[int, dict[str, Any]], changes: list[Row], reason: str
) -> None:
    rows, refusal_texts, _ = written_rows(table, changes)
    assert refusal_texts == [reason]
    assert rows == [f"-D {row[1]} None None" for row in changes if row[0] == "-D"]


def test_a_refused_row_leaves_its_neighbours_and_the_rows_behind_it() -> None:
    rows, refusal_texts, _ = written_rows(
        {1: a_row(1, "A", "B")},
        [("+U", 1, ".", "x"), ("+U", 2, ".", "y"), ("+U", 3, "c", "z"), ("+U", 2, "d", "."),
         ("+U", 2, ".", "w")],
        changelog=True,
    )  # fmt: skip
    # The second change of key 2 has b of the refused one, which the source had sent.
    assert rows == ["+U 1 A x", "+U 3 c z", "+U 2 d y", "+U 2 d w"]
    assert [text.split(":")[0] for text in refusal_texts] == ["1"]


@pytest.mark.slow
def test_large_values_are_restored_some_at_a_time() -> None:
    """Small rows get large values; the first part shows how many rows fit into the next one."""
    old = {k: a_row(k, str(k) * (50_000 // len(str(k))), "b") for k in range(1, 5001, 7)}
    rows, refusal_texts, table = written_rows(
        old, [("+U", k, LEFT_OUT, "new") for k in old] * 2 + [("+U", 0, "whole", "row")]
    )
    assert len(rows) == len(old) + 1
    assert not refusal_texts
    counts = [len(keys) for keys, _ in table.lookups]
    assert sum(counts) == len(old)
    assert max(counts[1:]) * 50_000 < 2 * PART_SIZE


@pytest.mark.parametrize("may_spill", [True, False], ids=["spilled", "flushed"])
@pytest.mark.parametrize("changelog", [True, False])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_a_full_buffer_restores_the_same_values(
    seed: int, changelog: bool, may_spill: bool
) -> None:
    """Random changes in blocks, with a buffer that is full all the time, beside a model."""
    random = np.random.default_rng(seed)
    current = {k: a_row(k, f"A{k}", f"B{k}") for k in range(0, 40, 2)}
    table, expected, batches, refusal_count = dict(current), [], [], 0
    for number in range(60):
        rows: list[Row] = []
        for place in range(int(random.integers(1, 30))):
            k, text = int(random.integers(40)), f"{number}-{place}-{'x' * 40}"
            stored_row = current.get(k)
            if random.random() < 0.1 and stored_row is not None:
                rows.append(("-D", k, None, None))
                expected.append(f"-D {k} None None")
                del current[k]
                continue
            a = LEFT_OUT if number > 5 and random.random() < 0.5 else f"a{text}"
            rows.append(("+U", k, a, f"b{text}"))
            if a == LEFT_OUT and stored_row is None:
                refusal_count += 1
                continue
            value = stored_row["a"] if a == LEFT_OUT and stored_row is not None else a
            current[k] = a_row(k, value, f"b{text}")
            expected.append(f"+U {k} {value} b{text}")
        batches.append(rows)
    shown, refusal_texts, _ = written_rows(
        table, *batches, changelog=changelog, bytes_max=20_000, may_spill=may_spill
    )
    assert len(refusal_texts) == refusal_count
    if changelog:
        assert shown == expected
        return
    newest = {row.split()[1]: row for row in expected}
    assert {row.split()[1]: row for row in shown} == newest
