"""Jobs that are killed and begin again, compactors and Paimon's Java take turns on one table.

Java alone writes the same epochs to a second table. Rows and changes of both are the same, whatever
died between an epoch and its compaction, and whoever compacts.
"""

from __future__ import annotations

import random
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.versions.deletion_vectors import deletion_vectors
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.interop.changelog_tables import (
    COLUMNS,
    epoch_of,
    java_changes,
    write_java,
    write_ours,
)
from tests.support.interop.compacted_tables import latest_of
from tests.support.interop.followed_rows import our_changes
from tests.support.jobs.table_writer import CompactInCaller, by_content, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change, write_changes
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
EPOCHS = 8
SUMS = {
    "merge-engine": "aggregation", "fields.v.aggregate-function": "sum",
    "aggregation.remove-record-on-delete": True,
}  # fmt: skip
PARTS = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": True}
VECTORS = {"deletion-vectors.enabled": True}
CASES: dict[str, dict[str, Any]] = {
    "lookup": {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": 3},
    "sums by lookup": {"changelog-producer": "lookup", **SUMS},
    "parts by lookup with vectors": {"changelog-producer": "lookup", **PARTS, **VECTORS},
    "vectors alone": {**VECTORS, "num-sorted-run.compaction-trigger": 3},
    "vectors and input": {"changelog-producer": "input", **VECTORS, "sequence.field": "s"},
    "first rows": {
        "changelog-producer": "lookup", "merge-engine": "first-row", "ignore-delete": True,
    },
    "parts by full compaction": {"changelog-producer": "full-compaction", **PARTS},
    "rows that expire": {
        "changelog-producer": "lookup", "record-level.expire-time": "1 d",
        "record-level.time-field": "s",
    },
}  # fmt: skip


class KilledError(BaseException):
    """The process is gone."""


@dataclass
class Killed:
    """Compacts, and is gone before it can say so. Its files stay."""

    table: FileStoreTable

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        compact_bucket(self.table, request)
        raise KilledError


@dataclass
class Turns:
    """Chooses the process that writes the next epoch, and the one that compacts the table."""

    java: PaimonJava
    path: Path
    chance: random.Random

    @property
    def table(self) -> FileStoreTable:
        return stream_app.open_table(str(self.path)).table

    def write(self, changes: list[Change], epoch: int) -> str:
        writer = self.chance.choice(["java", "ours", "killed", "killed before", "write-only"])
        if writer == "java":
            write_java(self.java, self.path, changes, epoch)
        elif writer == "killed":
            self._killed(changes, epoch)
        elif writer == "write-only":
            write_ours(self.table.with_options({"write-only": "true"}), changes, epoch)
            self._compact(self._job("compactor", BATCH_COMMIT_IDENTIFIER))
        else:
            if writer == "killed before":
                write_changes(self.table, changes, 0)
            write_ours(self.table, changes, epoch)
        if self.chance.random() < 0.2:
            self.java.compact(self.path)
        elif self.chance.random() < 0.2:
            self._job("compactor", BATCH_COMMIT_IDENTIFIER).compact_fully()
        return writer

    def _killed(self, changes: list[Change], epoch: int) -> None:
        """Killed behind the epoch's APPEND; the next process finishes what it has begun."""
        table = self.table
        commit = StreamTableCommit(table, "ours", Killed(table))
        written = write_changes(table, changes, commit.follow_and_wait())
        try:
            commit.commit_epoch(epoch, written)
        except KilledError:
            again = self._job("ours", None)
            assert again.state.is_committed(epoch)
            self._compact(again)

    def _job(self, user: str, identifier: int | None) -> StreamTableCommit:
        executor: CompactExecutor = CompactInCaller(self.table)
        return StreamTableCommit(self.table, user, executor, identifier)

    def _compact(self, job: StreamTableCommit) -> None:
        job.state.follow_and_load(None)
        if job.table.options.changelog_producer == "full-compaction":
            job.compact_fully()
        else:
            job.compact_due()


@pytest.mark.parametrize("case", CASES)
def test_turns_with_restarts_give_the_changelog_of_java_alone(
    paimon_java: PaimonJava, tmp_path: Path, case: str
) -> None:
    chance = random.Random(f"{case} restarts")
    alone, path = (tmp_path / "db.db" / name for name in ("alone", "turns"))
    for table_path in (alone, path):
        options = {"bucket": 1, "target-file-size": "2 kb", **CASES[case]}
        paimon_java.create(table_path, COLUMNS, primary_keys=["k"], options=options)
    turns = Turns(paimon_java, path, chance)
    writers = set()
    for epoch in range(EPOCHS):
        changes = epoch_of(chance, epoch, case)
        if case == "rows that expire":
            # Of a key all rows are old, or none: Paimon drops old rows before it merges (ADR 9).
            changes = [
                (kind, {**row, "s": 0 if row["k"] % 3 == 0 else 2**31 - 1}) for kind, row in changes
            ]
        write_java(paimon_java, alone, changes, epoch)
        writers.add(turns.write(changes, epoch))
        assert by_content(read_rows(turns.table)) == by_content(paimon_java.read(path))
    assert len(writers) >= 3
    for table_path in (alone, path):
        paimon_java.compact(table_path)
    table = turns.table
    rows = by_content(paimon_java.read(alone))
    assert by_content(paimon_java.read(path)) == by_content(read_rows(table)) == rows
    assert java_changes(paimon_java, path) == java_changes(paimon_java, alone)
    if CASES[case].get("changelog-producer"):
        followed_changes = our_changes(stream_app.PaimonTable(table).changelog(snapshot=1))
        assert [changes for changes in followed_changes.values() if changes] == java_changes(
            paimon_java, alone
        )
    audit = normal_rows(stream_app.PaimonTable(table).system("audit_log"))
    assert by_content(audit) == by_content(paimon_java.read(f"{path}$audit_log"))
    sound_report(table)
    if table.merges_by_vectors:
        assert live_rows(table) == len(rows), "no key has two rows"


def live_rows(table: FileStoreTable) -> int:
    """The rows that no vector deletes; readers of such a table do not merge."""
    latest = latest_of(table)
    vectors = deletion_vectors(table, latest)
    deleted_names = {
        name: vector.cardinality for by_file in vectors.values() for name, vector in by_file.items()
    }
    return sum(
        entry.file.row_count - deleted_names.get(entry.file.file_name, 0)
        for entry in FileStoreScan(table).live(latest)
    )
