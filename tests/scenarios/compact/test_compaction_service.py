"""A compaction service obeys its options and handles partitions with changed buckets."""

from __future__ import annotations

import argparse
import json
import uuid
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.arguments.compaction import add_compact_arguments, compaction_settings
from stream_app.errors import SchemaMismatchError, UnsupportedTableError, UsageError
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.options.expire_options import SNAPSHOT_NUM_RETAINED_MAX
from stream_app.model.schema.data_type import parse_data_type
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.planning.schema.schema_changes import AddColumn
from stream_app.table.conditions.row_filter import row_filter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.schema.alter import alter_table
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.partition_filter import PartitionFilter
from tests.support.jobs.compacting_table import CompactFollower, a_table, rows
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, assert_table_is, read_rows
from tests.support.tables.merge_read import MergeRead
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")


def a_compactor(table: FileStoreTable) -> StreamTableCommit:
    """Return a compactor with a commit user of its own, as each such job has."""
    job = table.with_options({"write-only": "false"})
    return StreamTableCommit(
        job,
        f"compactor-{uuid.uuid4()}",
        CompactInCaller(job),
        last_identifier=BATCH_COMMIT_IDENTIFIER,
    )


def test_a_rescaled_partition_keeps_its_number_of_buckets(tmp_path: Path) -> None:
    """ALTER TABLE SET bucket = 4, then `stream-app compact`: old partitions have 2 buckets."""
    table = small_table(
        tmp_path / "db.db" / "t",
        "dt STRING, k INT, v STRING",
        ("dt", "k"),
        ("dt",),
        bucket=2,
        write_only="true",
    ).table
    writer = TableWriter(table)
    for epoch in range(3):
        writer.write([("+I", {"dt": "a", "k": k, "v": str(epoch)}) for k in range(20)])
    altered_schema = replace(
        table.schema, schema_id=1, options={**table.schema.options, "bucket": "4"}
    )
    assert table.schemas.create(altered_schema)
    rescaled_table = require_writable(open_file_store_table(table.location, table.clock))
    a_compactor(rescaled_table).compact_fully()
    entries = FileStoreScan(rescaled_table).live(rescaled_table.snapshots.latest())
    lost = []
    for k in range(20):
        read = MergeRead(rescaled_table, row_filter=row_filter(f"k = {k}", rescaled_table.schema))
        if not sum(b.num_rows for b in read.read(rescaled_table.snapshots.latest())):
            lost.append(k)
    assert lost == []
    assert {entry.total_buckets for entry in entries} == {2}


def test_a_follower_takes_the_schema_of_newer_files(tmp_path: Path) -> None:
    """A job evolves its table beside the compacting one."""
    table = a_table(tmp_path, write_only="true", num_sorted_run__compaction_trigger=2)
    follower = CompactFollower(table)
    for epoch in range(3):
        newest = open_file_store_table(table.location, table.clock)
        writer = SmallTable(newest)
        writer.epoch = epoch
        writer.commit(*rows(epoch))
        assert bool(follower.step()) is (epoch > 0)
        alter_table(table, [AddColumn(name=f"n{epoch}", data_type=parse_data_type("INT"))])
    live = FileStoreScan(newest).live(newest.snapshots.latest())
    assert {entry.file.schema_id for entry in live} == {2}
    assert [row["v"] for row in read_rows(newest)] == ["2"] * 20


def test_a_write_only_job_with_full_compactions_by_epochs(tmp_path: Path) -> None:
    """The compacting job wants the option; the ingesting one must not end for it."""
    table = a_table(tmp_path, write_only="true", full_compaction__delta_commits=3)
    writer = TableWriter(table)
    for epoch in range(6):
        writer.write(rows(epoch))
    assert_table_is(writer)


def test_follow_leaves_a_partition_alone_that_is_active_again(tmp_path: Path) -> None:
    options = {"num_sorted_run__compaction_trigger": 2, "write_only": "true"}
    table = small_table(
        tmp_path / "db.db" / "t", "dt STRING, k INT", ("dt", "k"), ("dt",), **options
    ).table
    writer = TableWriter(table)
    for _ in range(3):
        writer.write([("+I", {"dt": "a", "k": k}) for k in range(9)])
    follower = CompactFollower(table, PartitionFilter(idle_ms=3_600_000))
    assert follower.step() == []
    table.clock.sleep(4000)
    assert len(follower.step()) == 1, "idle for more than an hour"
    for _ in range(3):
        writer.write([("+I", {"dt": "a", "k": k}) for k in range(9)])
    assert follower.step() == [], "something was added a moment ago"


def test_follow_compacts_an_append_partition_when_it_is_idle(tmp_path: Path) -> None:
    table = small_table(
        tmp_path / "db.db" / "t", "dt STRING, k INT", (), ("dt",), write_only="true"
    ).table
    writer = TableWriter(table)
    for _ in range(6):
        writer.write([("+I", {"dt": "a", "k": k}) for k in range(9)])
    follower = CompactFollower(table, PartitionFilter(idle_ms=3_600_000))
    assert follower.step() == []
    table.clock.sleep(4000)
    assert len(follower.step()) == 1


def test_a_bound_below_the_compaction_trigger(tmp_path: Path) -> None:
    """A compactor is at work, but never sees as many runs as it needs."""
    options = {"write_only": "true", "write_only__stop_trigger": 2}
    table = a_table(tmp_path, **options)
    writer = TableWriter(table)
    compactor = CompactFollower(table)
    for epoch in range(10):
        writer.write(rows(epoch))
        compactor.step()
    assert_table_is(writer)


def test_lost_conflicts_of_long_ago(tmp_path: Path) -> None:
    """A process loses five conflicts in its life, and a success follows each."""

    table = a_table(tmp_path, write_only="true")
    writer = TableWriter(table)
    other_compactor = a_compactor(table)
    compactor = a_compactor(table)
    executor: Any = compactor.state.executor
    submit = executor.submit
    is_first: list[bool] = []

    def overtaken(request: CompactRequest) -> Future[BucketChange]:
        future = submit(request)
        if is_first:
            is_first.clear()
            other_compactor.compact_fully()
            writer.write(rows(99))
        return future

    executor.submit = overtaken
    run_counts = []
    for cycle in range(8):
        for epoch in range(2):
            writer.write(rows(2 * cycle + epoch))
        is_first.append(True)
        compactor.compact_fully()
        run_counts.append(set(compactor.coordinator.back_pressure.sorted_run_counts().values()))
    assert run_counts == [{1}] * 8


def opened_table(table: FileStoreTable, *words: str) -> FileStoreTable:
    """The table that `stream-app compact` opens."""
    parser = argparse.ArgumentParser()
    add_compact_arguments(parser)
    return compaction_settings(parser.parse_args([table.location, *words]), None).table


def test_set_is_checked_as_the_options_of_a_table_are(tmp_path: Path) -> None:
    """The table's options keep at least 10 snapshots, and they alone decide which rows expire."""
    table = a_table(tmp_path, write_only="true")
    TableWriter(table).write(rows(0))
    with pytest.raises(UnsupportedTableError, match=r"is above snapshot\.num-retained\.max, 3"):
        opened_table(table, "--set", "snapshot.num-retained.max=3")
    with pytest.raises(SchemaMismatchError, match="is its default in the table, 1d is configured"):
        opened_table(table, "--set", "record-level.expire-time=1d")
    with pytest.raises(UsageError, match="'upsert-key' = 'k' is not supported"):
        opened_table(table, "--set", "upsert-key=k")


def test_options_in_the_table_are_checked_together_with_those_of_a_compaction(
    tmp_path: Path,
) -> None:
    """An option that we would break refuses the table; a contradiction may be mended by --set."""
    table = a_table(tmp_path, write_only="true")
    file = Path(table.location, "schema", "schema-0")
    schema = json.loads(file.read_text())
    del schema["stream_app.digest"]  # as another engine writes it
    schema["options"]["snapshot.num-retained.max"] = "3"
    file.write_text(json.dumps(schema))
    with pytest.raises(UnsupportedTableError, match=r"is above snapshot\.num-retained\.max, 3"):
        opened_table(table)
    mended_table = opened_table(table, "--set", "snapshot.num-retained.max=20")
    assert mended_table.options[SNAPSHOT_NUM_RETAINED_MAX] == 20
    assert not mended_table.options[WRITE_ONLY]
    schema["options"]["upsert-key"] = "k"
    file.write_text(json.dumps(schema))
    with pytest.raises(UnsupportedTableError, match="upsert-key = k"):
        opened_table(table, "--set", "snapshot.num-retained.max=20")


def test_a_write_only_job_that_is_started_anew_for_each_epoch_has_a_bound(tmp_path: Path) -> None:
    """Each run writes one epoch, as a job with `trigger = availableNow` does under cron."""
    from stream_app.errors import CompactionError

    table = a_table(tmp_path, write_only="true", write_only__stop_trigger=3)
    writer = TableWriter(table)
    for epoch in range(7):
        writer.restart()
        writer.write(rows(epoch))
    writer.restart()
    with pytest.raises(CompactionError, match="no job has compacted"):
        writer.write(rows(7))


@pytest.mark.parametrize("outside", [False, True], ids=["in the job", "--follow"])
def test_gentle_lookup_compaction(tmp_path: Path, outside: bool) -> None:
    """A compaction moves level 0 up after `lookup-compact.max-interval` flushes at the latest."""
    options = {
        "force_lookup": "true", "lookup_compact": "gentle", "lookup_compact__max_interval": 3,
        "num_sorted_run__compaction_trigger": 3, "compaction__size_ratio": 0,
    }  # fmt: skip
    table = a_table(tmp_path, **options)
    reasons = []
    writer = TableWriter(table.with_options({"write-only": "true"}) if outside else table)
    follower = CompactFollower(table)
    for epoch in range(12):
        report = writer.write([("+I", {"k": k, "v": "x" * 50}) for k in range(200 // (epoch + 1))])
        if outside:
            reasons += follower.step()
        else:
            writer.commit.compact_due()
            assert report is not None
            reasons += [
                r.reason
                for r in (*report.compactions, *writer.commit.published_compactions.take_reports())
            ]
    assert "level 0 upwards" in reasons, reasons


def test_many_failures_at_once_are_one_outage(tmp_path: Path) -> None:
    """The storage is away for a minute: nothing is lost, but is anything left behind?"""
    table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING").table

    class Away(CompactInCaller):
        until = table.clock.steady_seconds() + 60

        def submit(self, request):  # type: ignore[no-untyped-def]
            if table.clock.steady_seconds() < self.until:
                from concurrent.futures import Future

                future: Future = Future()  # type: ignore[type-arg]
                future.set_exception(OSError("Stale file handle"))
                return future
            return CompactInCaller.submit(self, request)

    writer = TableWriter(table, Away)
    for epoch in range(5):
        writer.write(rows(epoch))
    writer.commit.compact_due()
    table.clock.sleep(3600)
    for epoch in range(5, 7):
        writer.write(rows(epoch))
        writer.commit.compact_due()
    assert len(FileStoreScan(table).live(table.snapshots.latest())) < 5


@pytest.mark.parametrize("compacts", [False, True])
def test_a_partition_takes_rows_by_its_own_number(tmp_path: Path, compacts: bool) -> None:
    """By the table's number of buckets a key would get two rows."""
    table = small_table(
        tmp_path / "db.db" / "t", "dt STRING, k INT, v STRING", ("dt", "k"), ("dt",),
        bucket=2, write_only="true",
    ).table  # fmt: skip
    writer = TableWriter(table)
    for epoch in range(3):
        writer.write([("+I", {"dt": "a", "k": k, "v": str(epoch)}) for k in range(20)])
    altered_schema = replace(
        table.schema, schema_id=1, options={**table.schema.options, "bucket": "4"}
    )
    assert table.schemas.create(altered_schema)
    rescaled_table = require_writable(open_file_store_table(table.location, table.clock))
    if compacts:
        a_compactor(rescaled_table).compact_fully()
    again = TableWriter(rescaled_table, user="another")
    again.write([("+I", {"dt": "a", "k": k, "v": "new"}) for k in range(20)])
    assert [row["v"] for row in read_rows(table)] == ["new"] * 20
    entries = FileStoreScan(rescaled_table).live(rescaled_table.snapshots.latest())
    assert {entry.total_buckets for entry in entries} == {2}


def test_a_rescaled_partition_beside_full_compactions_by_epochs(tmp_path: Path) -> None:
    """The job writes new partitions with 4 buckets; old ones have 2 and must keep them."""
    table = small_table(
        tmp_path / "db.db" / "t", "dt STRING, k INT, v STRING", ("dt", "k"), ("dt",), bucket=2
    ).table
    writer = TableWriter(table)
    for epoch in range(3):
        writer.write([("+I", {"dt": "a", "k": k, "v": str(epoch)}) for k in range(20)])
    altered_schema = replace(
        table.schema,
        schema_id=1,
        options={**table.schema.options, "bucket": "4", "full-compaction.delta-commits": "1"},
    )
    assert table.schemas.create(altered_schema)
    rescaled_table = require_writable(open_file_store_table(table.location, table.clock))
    TableWriter(rescaled_table, user="another").write([("+I", {"dt": "b", "k": 1, "v": "new"})])
    entries = FileStoreScan(rescaled_table).live(rescaled_table.snapshots.latest())
    totals = {(rescaled_table.paths.partition_path(e.partition), e.total_buckets) for e in entries}
    assert totals == {("dt=a", 2), ("dt=b", 4)}
