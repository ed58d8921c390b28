"""Histories of versions, and the files that each of them names."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_branch
from tests.support.files.faulty_file_io import Fault, FaultyFileIO
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter
from tests.support.tables.deleted_rows import delete_some
from tests.support.tables.expiring_table import (
    changes_of_all,
    files_on_disk,
    files_that_are_named,
    files_that_later_changelogs_drop,
    give_tag,
    make_branch,
    rows_of,
    versions,
)
from tests.support.tables.small_table import small_table

KEYED = {"primary_keys": ("k",), "num_sorted_run__compaction_trigger": 3}
TABLES: dict[str, dict[str, Any]] = {
    "keyed": {**KEYED, "bucket": 2, "manifest__merge_min_count": 3},
    "changelog files": {**KEYED, "changelog_producer": "input"},
    "partitions": {
        **KEYED, "primary_keys": ("k", "p"), "partition_keys": ("p",),
        "snapshot__clean_empty_directories": "true",
    },
    "changelog files kept": {
        **KEYED, "changelog_producer": "input", "changelog__num_retained__min": 4,
        "changelog__num_retained__max": 4,
    },
    "changes kept": {
        **KEYED, "changelog__num_retained__min": 4, "changelog__num_retained__max": 4,
    },
    "dynamic buckets": {**KEYED, "bucket": -1, "dynamic_bucket__target_row_num": 7},
    "deleted rows": {"deletion_vectors__enabled": "true", "compaction__min__file_num": 3},
}  # fmt: skip


@dataclass
class History:
    """A table, and what each version of it held when it was made."""

    writer: TableWriter
    changes: RandomChanges
    rng: random.Random
    rows: dict[str, list[str]] = field(default_factory=dict)
    changes_seen: dict[int, list[str]] = field(default_factory=dict)
    branches: list[Snapshot] = field(default_factory=list)

    @property
    def table(self) -> FileStoreTable:
        return self.writer.table

    def of_branch(self, name: str) -> History:
        """Return the history of a branch that was made just now."""
        table = open_branch(self.table, name)
        assert table is not None
        writer = TableWriter(table, user=name)
        history = History(writer, deepcopy(self.changes), self.rng)
        history.remember()
        return history

    def step(self) -> None:
        has_keys = self.table.schema.kind_traits.merges_by_key
        changes = self.changes.epoch(6)
        if not has_keys:
            changes = [("+I", {"k": self.rng.randrange(9), "v": "x", "p": 0}) for _ in range(5)]
        self.writer.write(changes)
        if not has_keys and self.rng.random() < 0.5:
            delete_some(self.table, self.rng)
        if self.rng.random() < 0.4:
            self.writer.commit.compact_due()
        self.remember()

    def remember(self) -> None:
        for name, snapshot in versions(self.table).items():
            if name not in self.rows:
                self.rows[name] = rows_of(self.table, snapshot)
        self.changes_seen |= changes_of_all(self.table)

    def protect(self) -> None:
        """Create tags, a branch and consumers, and delete some of the consumers."""
        number = self.rng.choice(self.table.snapshots.ids())
        match self.rng.randrange(6):
            case 0:
                give_tag(self.table, f"t{number}", number)
                self.rows[f"t{number}"] = self.rows[str(number)]
            case 1:
                self.table.consumers.reset("c", number)
            case 2:
                self.table.consumers.delete("c")
            case 3 if not self.branches:
                make_branch(self.table, "b", number)
                self.branches.append(self.table.snapshots.snapshot(number))
                self.rows["branch"] = self.rows[str(number)]

    def config(self) -> dict[str, int]:
        least = self.rng.randrange(1, 4)
        return {"num_min": least, "num_max": least + self.rng.randrange(3), "expired_max": 4}

    def settle(self) -> None:
        """Commit all compactions that have files and no snapshot yet."""
        self.writer.commit.compact_due()
        self.remember()

    def check(self) -> None:
        for name, snapshot in versions(self.table).items():
            assert rows_of(self.table, snapshot) == self.rows[name], name
        for snapshot in self.branches:
            assert rows_of(self.table, snapshot) == self.rows["branch"]
        remaining_ids = set(self.table.changelogs.ids()) | set(self.table.snapshots.ids())
        expected_changes = {
            number: texts for number, texts in self.changes_seen.items() if number in remaining_ids
        }
        assert changes_of_all(self.table) == expected_changes
        assert_files_are_those_that_are_named(replace(self.table, branch=""))


def assert_files_are_those_that_are_named(table: FileStoreTable) -> None:
    named_files, on_disk = files_that_are_named(table), files_on_disk(table)
    assert named_files <= on_disk
    assert on_disk - named_files <= files_that_later_changelogs_drop(table)


def a_history(folder: Path, kind: str, seed: int, **more: int) -> History:
    options = {**TABLES[kind], **more}
    keys, partitions = options.pop("primary_keys", ()), options.pop("partition_keys", ())
    columns = "k INT, v STRING, p INT"
    table = small_table(
        folder / "db.db" / "t", columns, keys, partitions, file_operation__thread_num=1, **options
    ).table
    rng = random.Random(seed)
    writer = TableWriter(table)
    return History(writer, RandomChanges(writer.table.schema, rng, key_count=12), rng)


def in_folder(table: FileStoreTable, folder: Path, fault: Fault | None = None) -> FileStoreTable:
    """Return the table in a copied folder."""
    file_io = FaultyFileIO(fault=fault or Fault())
    return replace(table, location=str(folder / "db.db" / "t"), file_io=file_io)
