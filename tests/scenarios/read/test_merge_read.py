"""Merging reads return our writer's rows and Java's, and refuse options that they do not obey."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.conditions.row_filter import row_filter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.judges.normal_rows import json_value, normal_rows, sorted_rows
from tests.support.tables.make_java_tables import TABLES
from tests.support.tables.merge_read import MergeRead
from tests.support.tables.small_table import small_table

JAVA_TABLES = ("scalars", "composite_key", "changelog_input")
ORDERS = "dt STRING, id BIGINT, amount DECIMAL(12,2), at TIMESTAMP(6)"


def rows_of(read: MergeRead) -> list[dict[str, Any]]:
    latest = read.table.snapshots.latest()
    return normal_rows(pa.Table.from_batches(read.read(latest), read.schema))


def where(table: FileStoreTable, text: str, columns: tuple[str, ...] | None = None) -> MergeRead:
    return MergeRead(table, columns, row_filter(text, table.schema))


@pytest.mark.parametrize("name", JAVA_TABLES)
def test_rows_of_a_java_table(name: str) -> None:
    """The tables have levels, deletes, all scalar types, odd partition names and composite keys."""
    expected = json.loads((TABLES / f"{name}.json").read_text())["rows"]
    rows = rows_of(MergeRead(open_file_store_table(str(TABLES / "java.db" / name))))
    assert sorted_rows(_json(row) for row in rows) == sorted_rows(expected)


def _json(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_value(value) for name, value in row.items()}


@pytest.mark.parametrize("name", JAVA_TABLES)
def test_some_columns_of_a_java_table(name: str) -> None:
    """The columns lack the key: the reader reads it for the merge and then drops it."""
    table = open_file_store_table(str(TABLES / "java.db" / name))
    last = table.schema.fields.names[-1]
    expected = json.loads((TABLES / f"{name}.json").read_text())["rows"]
    rows = [_json(row) for row in rows_of(MergeRead(table, (last,)))]
    assert sorted_rows(rows) == sorted_rows({last: row[last]} for row in expected)


def test_the_changelog_of_a_java_table() -> None:
    table = PaimonTable(open_file_store_table(str(TABLES / "java.db" / "changelog_input")))
    expected = json.loads((TABLES / "changelog_input.json").read_text())["changelog"]
    changes = []
    for batch in table.changelog(snapshot=1):
        for row in normal_rows(pa.Table.from_batches([batch.rows])):
            changes.append([batch.snapshot_id, row.pop("rowkind"), _json(row)])
    assert changes == expected


@pytest.mark.java
def test_sequence_fields_of_a_java_table(paimon_java: Any, tmp_path: Path) -> None:
    """Level 0 and upper levels in every arrangement; a late row with an old sequence loses."""
    path = tmp_path / "java.db" / "seq"
    paimon_java.create(
        path, [("k", "INT NOT NULL"), ("s", "INT"), ("v", "STRING")], primary_keys=["k"],
        options={"bucket": 1, "sequence.field": "s"},
    )  # fmt: skip
    commits = [
        [("+I", {"k": k, "s": 10, "v": "first"}) for k in range(5)],
        [("+U", {"k": 0, "s": 5, "v": "late"}), ("+U", {"k": 1, "s": 11, "v": "new"})],
        [("+U", {"k": 2, "s": None, "v": "null is oldest"}), ("-D", {"k": 3, "s": 9, "v": "x"})],
        [("-D", {"k": 4, "s": 12, "v": "x"}), ("+U", {"k": 1, "s": 11, "v": "newer"})],
    ]
    for number, commit in enumerate(commits, 1):
        paimon_java.write(path, commit, identifier=number, options={"write-only": True})
        assert rows_of(MergeRead(open_file_store_table(str(path)))) == paimon_java.read(path)
        if number == 2:
            paimon_java.compact(path)
            assert rows_of(MergeRead(open_file_store_table(str(path)))) == paimon_java.read(path)
    assert [row["v"] for row in rows_of(MergeRead(open_file_store_table(str(path)), ("v",)))] == [
        "first", "newer", "first", "first",
    ]  # fmt: skip


def test_our_own_table_with_deletes_and_compactions(tmp_path: Path) -> None:
    time = dt.datetime(2026, 1, 1)  # noqa: DTZ001
    small = small_table(
        tmp_path / "t", ORDERS, ("dt", "id"), ("dt",), bucket=2,
        num_sorted_run__compaction_trigger=3,
    )  # fmt: skip
    model = {}
    for epoch in range(10):
        changes = []
        for number in range(6):
            key = {"dt": "ab"[number % 2], "id": (epoch * 3 + number) % 11}
            row = {**key, "amount": epoch + number, "at": time}
            delete = (epoch + number) % 5 == 0
            changes.append(("-D" if delete else "+I", row))
            model[tuple(key.values())] = None if delete else row["amount"]
        small.commit(*changes)
        if epoch % 4 == 3:
            small.compact()
        totals = {
            (row["dt"], row["id"]): int(row["amount"]) for row in rows_of(MergeRead(small.table))
        }
        assert totals == {key: amount for key, amount in model.items() if amount is not None}


def test_conditions_see_only_the_newest_row(tmp_path: Path) -> None:
    """A filter before the merge would bring old versions back."""
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",))
    small.commit(("+I", {"k": 1, "v": "old"}), ("+I", {"k": 2, "v": "old"}))
    small.commit(("+U", {"k": 1, "v": "new"}), ("-D", {"k": 2, "v": "old"}))
    assert rows_of(where(small.table, "v = 'old'")) == []
    assert rows_of(where(small.table, "v <> 'old'", ("k",))) == [{"k": 1}]


def test_conditions_on_the_key_alone_apply_before_the_merge(tmp_path: Path) -> None:
    """No version of another key takes part, and deletes of wanted keys still do."""
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",))
    small.commit(*(("+I", {"k": k, "v": "old"}) for k in range(4)))
    small.commit(("-D", {"k": 2, "v": "old"}), ("+U", {"k": 3, "v": "new"}))
    assert rows_of(where(small.table, "k >= 2")) == [{"k": 3, "v": "new"}]
    assert rows_of(where(small.table, "k = 9")) == []
    assert rows_of(where(small.table, "k < 2", ("v",))) == [{"v": "old"}, {"v": "old"}]


@dataclass(frozen=True)
class NotingFileIO(LocalFileIO):
    """Notes the paths of data files that are opened."""

    opened_paths: list[str] = field(default_factory=list)

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened_paths.append(path)
        return LocalFileIO.open_input(self, path)


def test_conditions_leave_buckets_unread(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", ORDERS, ("dt", "id"), ("dt",), bucket=4)
    rows = [{"dt": day, "id": i, "amount": i, "at": None} for day in "abc" for i in range(40)]
    small.commit(*(("+I", row) for row in rows))
    assert len(FileStoreScan(small.table).live(small.table.snapshots.latest())) == 12
    files_io = NotingFileIO()
    table = replace(small.table, file_io=files_io)
    for text, count, files in (
        ("dt = 'b'", 40, 4),
        ("dt IN ('a', 'c') AND amount < 5", 10, 8),
        ("dt = 'b' AND id = 7", 1, 1),
        ("id = 7", 3, 3),
        ("id = 7 OR id = 8", 6, 6),
        ("dt = 'z'", 0, 0),
        ("dt = 'b' OR id = 7", 42, 12),
        ("dt <> 'b'", 80, 12),
        ("id = 7.5", 0, 0),
    ):
        files_io.opened_paths.clear()
        assert len(rows_of(where(table, text))) == count, text
        assert len(files_io.opened_paths) <= files, text
        if text == "id = 7 OR id = 8":
            assert len(files_io.opened_paths) in (3, 6)


def test_pruning_of_every_type_of_key() -> None:
    """Java wrote the table; the reader finds the row, and reads one bucket."""
    files = NotingFileIO()
    table = replace(open_file_store_table(str(TABLES / "java.db" / "composite_key")), file_io=files)
    for row in rows_of(MergeRead(table)):
        text = " AND ".join(f"{key} = '{row[key]}'" for key in ("country", "code"))
        files.opened_paths.clear()
        assert rows_of(where(table, text)) == [row]
        assert len({Path(path).parent for path in files.opened_paths}) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"merge-engine": "newest"}, "merge-engine = newest"),
        (
            {"merge-engine": "aggregation", "fields.v.aggregate-function": "collect"},
            "collect takes ARRAY",
        ),
        ({"data-evolution.enabled": "true"}, "data-evolution.enabled"),
    ],
)
def test_the_reader_refuses_options_that_it_would_read_wrongly(
    tmp_path: Path, options: dict[str, str], problem: str
) -> None:
    table = small_table(tmp_path / "t", "k INT, v STRING", ("k",)).table
    changed_table = replace(table, schema=replace(table.schema, options={"bucket": "1", **options}))
    with pytest.raises(UnsupportedTableError, match=problem):
        MergeRead(changed_table)


def test_unknown_columns_are_named(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t", "k INT, amount STRING", ("k",)).table
    with pytest.raises(UsageError, match="unknown column 'amont'; did you mean 'amount'"):
        MergeRead(table, ("k", "amont"))
