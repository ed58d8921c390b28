"""A compaction's change carries changelog files: Paimon's library follows the COMPACT snapshots.

No merge engine of ours makes such files; here the executor adds them to a real compaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

import stream_app
from stream_app.mergetree.compact.compact_executor import CompactRequest
from stream_app.model.bucket_change import BucketChange
from stream_app.model.snapshot import CommitKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_commit import StreamTableCommit
from stream_app.table.kinds.tasks import compact_bucket
from tests.interop.test_following import ours, texts
from tests.support.paimon_java import PaimonJava
from tests.support.small_table import KINDS, Change, write_changes
from tests.support.sound_table import sound_report
from tests.support.table_writer import by_content, read_rows

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
FIRST = [("+I", {"k": 1, "v": "a"}), ("+I", {"k": 2, "v": "b"})]
SECOND = [("+U", {"k": 1, "v": "c"}), ("-D", {"k": 2, "v": "b"})]
SECOND_TOLD = [("-U", {"k": 1, "v": "a"}), *SECOND]


@dataclass
class WithChangelog:
    """Compacts in the caller, and tells the changes that it is given."""

    table: FileStoreTable
    told: list[Sequence[Change]]
    waiting: list[tuple[CompactRequest, Future[BucketChange]]] = field(default_factory=list)

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        self.waiting.append((request, Future()))
        if self.told:
            self.run(self.told.pop(0))
        return self.waiting[-1][1]

    def run(self, told: Sequence[Change]) -> None:
        request, future = self.waiting[-1]
        change = compact_bucket(self.table, request)
        writer = self.table.bucket_files(*change.bucket_id).changelog_writer()
        rows = [
            {"_SEQUENCE_NUMBER": at, "_VALUE_KIND": int(KINDS[kind]), **row}
            for at, (kind, row) in enumerate(told)
        ]
        writer.write(pa.RecordBatch.from_pylist(rows, schema=self.table.layout().schema))
        future.set_result(replace(change, changelog=writer.close()))


def a_table(java: PaimonJava, path: Path) -> FileStoreTable:
    java.create(
        path, [("k", "INT NOT NULL"), ("v", "STRING")], primary_keys=["k"],
        options={"bucket": 1, "changelog-producer": "lookup"},
    )  # fmt: skip
    return stream_app.open_table(str(path)).store


def flushed(table: FileStoreTable, changes: Sequence[Change], first: int) -> list[BucketChange]:
    """Level-0 files without a changelog, as a table has them whose compactions make it."""
    options = {**table.schema.options, "changelog-producer": "none"}
    quiet = replace(table, schema=replace(table.schema, options=options))
    return write_changes(quiet, changes, first)


def files_of(table: FileStoreTable, prefix: str) -> set[str]:
    return {path.name for path in Path(table.location).glob(f"bucket-0/{prefix}*")}


def test_java_follows_the_changelog_of_compactions(paimon_java: PaimonJava, tmp_path: Path) -> None:
    table = a_table(paimon_java, tmp_path / "db.db" / "t")
    commit = StreamTableCommit(table, "job", WithChangelog(table, [FIRST, SECOND_TOLD]))
    for epoch, changes in enumerate((FIRST, SECOND)):
        commit.commit_epoch(epoch, flushed(table, changes, commit.begin_epoch()))
        [compacted] = commit.compact_whole()
        assert compacted.commit_kind is CommitKind.COMPACT
        assert compacted.changelog_record_count == [2, 3][epoch]
    expected = {2: texts(FIRST), 4: texts(SECOND_TOLD)}
    java = {
        plan.snapshot: texts(plan.changes)
        for plan in paimon_java.changelog(table.location)
        if plan.changes
    }
    assert java == expected
    assert ours(stream_app.PaimonTable(table).changelog(snapshot=1)) == expected
    rows = [{"k": 1, "v": "c"}]
    assert by_content(read_rows(table)) == by_content(paimon_java.read(table.location))
    assert by_content(read_rows(table)) == by_content(rows)
    assert sound_report(table).replayed == ["snapshots 1 to 4"]


def test_the_changelog_of_a_dropped_compaction_is_deleted(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """Another writer was first: its result stands, and nothing of ours is left behind."""
    table = a_table(paimon_java, tmp_path / "db.db" / "t")
    late = WithChangelog(table, [])
    job = StreamTableCommit(table, "job", late)
    job.commit_epoch(0, flushed(table, FIRST, job.begin_epoch()))
    assert job.coordinator.trigger_full(job.coordinator.known_buckets()) == set()
    other = StreamTableCommit(table, "other", WithChangelog(table, [FIRST]), last_identifier=0)
    assert len(other.compact_whole()) == 1
    named = files_of(table, "data-"), files_of(table, "changelog-")
    late.run(FIRST)
    assert files_of(table, "changelog-") != named[1]
    assert job.commit_idle() is None
    assert job.coordinator.dropped.total == 1
    assert (files_of(table, "data-"), files_of(table, "changelog-")) == named
