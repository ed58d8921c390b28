"""A rewriter that gives changelog files: from the task to the COMPACT snapshot, and to followers.

No merge engine of ours makes such files; the rewriter here tells the rows that leave level 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stream_app.mergetree.compact.compact_executor import CompactRequest
from stream_app.mergetree.compact.compact_rewriter import CompactRewriter
from stream_app.mergetree.file_access import KeyValueFileAccess, WrittenFiles
from stream_app.mergetree.interval_partition import Section
from stream_app.model.bucket_change import BucketChange
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.snapshot import CommitKind
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_commit import StreamTableCommit
from stream_app.table.kinds.keyed import merge_rewriter, run_task
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.small_table import Change, small_table, write_changes
from tests.support.sound_table import sound_report
from tests.support.table_writer import read_rows

FIRST: list[Change] = [("+I", {"k": 1, "v": "a"}), ("+I", {"k": 2, "v": "b"})]
SECOND: list[Change] = [("+U", {"k": 1, "v": "c"}), ("-D", {"k": 2, "v": "b"})]


@dataclass(frozen=True)
class TellingRewriter:
    """Merges as ever, and puts the rows of level 0 into a changelog file."""

    merging: CompactRewriter

    @property
    def files(self) -> KeyValueFileAccess:
        return self.merging.files

    def rewrite(
        self, sections: Sequence[Section], *, output_level: int, drop_deletes: bool
    ) -> WrittenFiles:
        done = self.merging.rewrite(sections, output_level=output_level, drop_deletes=drop_deletes)
        [level0] = [
            file for runs in sections for run in runs for file in run.files if file.level == 0
        ]
        return WrittenFiles(done.data, self.told(level0))

    def upgrade(self, file: DataFileMeta, output_level: int) -> WrittenFiles:
        return WrittenFiles(self.merging.upgrade(file, output_level).data, self.told(file))

    def told(self, file: DataFileMeta) -> tuple[DataFileMeta, ...]:
        writer = self.files.changelog_writer()
        for batch in self.files.read(file):
            writer.write(batch)
        return writer.close()


@dataclass
class CompactTelling:
    """Compacts when it is told to, with the rewriter above."""

    table: FileStoreTable
    waiting: list[tuple[CompactRequest, Future[BucketChange]]] = field(default_factory=list)
    at_once: bool = True

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        future: Future[BucketChange] = Future()
        self.waiting.append((request, future))
        if self.at_once:
            self.run()
        return future

    def run(self) -> None:
        for request, future in self.waiting:
            rewriter = TellingRewriter(merge_rewriter(self.table, request))
            future.set_result(run_task(self.table, request, rewriter))
        self.waiting.clear()


def with_producer(table: FileStoreTable, producer: str) -> FileStoreTable:
    options = {**table.schema.options, "changelog-producer": producer}
    return replace(table, schema=replace(table.schema, options=options))


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """With an option that a job of ours refuses to write yet."""
    made = small_table(tmp_path / "t", "k INT NOT NULL, v STRING", ("k",), bucket=1)
    return with_producer(made.table, "lookup")


def flushed(table: FileStoreTable, changes: Sequence[Change], first: int) -> list[BucketChange]:
    """Level-0 files without a changelog, as a table has them whose compactions make it."""
    return write_changes(with_producer(table, "none"), changes, first)


def files(table: FileStoreTable) -> set[str]:
    return {path.name for path in Path(table.location).glob("bucket-0/*")}


def test_followers_see_the_changelog_of_a_compaction(table: FileStoreTable) -> None:
    commit = StreamTableCommit(table, "job", CompactTelling(table))
    for epoch, changes in enumerate((FIRST, SECOND)):
        commit.commit_epoch(epoch, flushed(table, changes, commit.begin_epoch()))
        [compacted] = commit.compact_whole()
        assert compacted.commit_kind is CommitKind.COMPACT
        assert compacted.changelog_record_count == 2
        [entry] = FileStoreScan(table).changelog(compacted)
        assert entry.file.file_name in files(table)
    told = [
        (row["rowkind"], row["k"], row["v"])
        for changes in PaimonTable(table).changelog(snapshot=1)
        for row in changes.rows.to_pylist()
    ]
    assert told == [("+I", 1, "a"), ("+I", 2, "b"), ("+U", 1, "c"), ("-D", 2, "b")]
    assert read_rows(table) == [{"k": 1, "v": "c"}]
    assert sound_report(table).replayed == ["snapshots 1 to 4"]


def test_a_dropped_compaction_leaves_no_changelog(table: FileStoreTable) -> None:
    late = CompactTelling(table, at_once=False)
    job = StreamTableCommit(table, "job", late)
    job.commit_epoch(0, flushed(table, FIRST, job.begin_epoch()))
    job.coordinator.trigger_full(job.coordinator.known_buckets())
    other = StreamTableCommit(table, "other", CompactTelling(table), last_identifier=0)
    assert len(other.compact_whole()) == 1
    there = files(table)
    late.run()
    assert len(files(table) - there) == 1, "its changelog file; the data file only moves"
    assert job.commit_idle() is None
    assert job.coordinator.dropped.total == 1
    assert files(table) == there
