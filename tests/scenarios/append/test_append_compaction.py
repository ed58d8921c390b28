"""Compactions of tables without a primary key join small files, and give up lost races."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stream_app.app.inspect.bucket_trees import due_compactions
from stream_app.format.binary_row import serialize_row
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from stream_app.table.compact.append.append_planner import (
    AppendCompactPlanner,
    AppendPlan,
)
from stream_app.table.compact.compaction_failures import FAILURES_MAX, LONGEST_RETRY_S
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.kinds.table_kind_registry import table_kind_of
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.partition_filter import PartitionFilter
from tests.support.jobs.table_writer import (
    CompactInThreads,
    CompactLater,
    TableWriter,
    by_content,
    read_rows,
)
from tests.support.tables.small_table import Change, small_table
from tests.support.tables.snapshot_chain import (
    check_chain,
    files_on_disk,
    files_that_snapshots_name,
)

pytestmark = pytest.mark.usefixtures("unsynced")
UNAWARE: dict[str, Any] = {"bucket": -1}
BUCKETED: dict[str, Any] = {"bucket": 2, "bucket-key": "k"}


def a_table(folder: Path, *by: str, **options: Any) -> FileStoreTable:
    columns = "k INT, v STRING, dt STRING"
    return small_table(folder / "db.db" / "t", columns, (), by, **options).table


def rows(epoch: int, count: int = 20, dt: str = "a") -> list[Change]:
    return [("+I", {"k": epoch * 1000 + k, "v": str(k), "dt": dt}) for k in range(count)]


def live(table: FileStoreTable) -> list[ManifestEntry]:
    return FileStoreScan(table).live(table.snapshots.latest())


def files(table: FileStoreTable) -> list[DataFileMeta]:
    return [entry.file for entry in live(table)]


def kinds(table: FileStoreTable) -> str:
    return "".join(snapshot.commit_kind.value[0] for snapshot in check_chain(table))


def assert_rows(writer: TableWriter) -> None:
    assert by_content(read_rows(writer.table)) == by_content(writer.model.rows())
    check_chain(writer.table)


@pytest.mark.parametrize("options", [UNAWARE, BUCKETED], ids=["unaware", "buckets"])
def test_random_epochs_with_restarts(tmp_path: Path, seed: int, options: dict[str, Any]) -> None:
    rng = Random(seed)
    table = a_table(tmp_path, "dt", compaction__min__file_num=3, **options)
    writer = TableWriter(table, CompactInThreads)
    for epoch in range(30):
        writer.write(rows(epoch, rng.randrange(5), rng.choice("ab")))
        if rng.random() < 0.2:
            writer.commit.compact_due()
        if rng.random() < 0.1:
            writer.restart()
    writer.commit.compact_due()
    assert_rows(writer)
    assert "C" in kinds(table)
    assert len(files(table)) < 16
    sources = {file.file_source for file in files(table)}
    assert FileSource.COMPACT in sources


def test_the_fifth_small_file_makes_them_one(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path), CompactInThreads)
    for epoch in range(5):
        writer.write(rows(epoch))
        writer.commit.compact_due()
        assert len(files(writer.table)) == (epoch + 1 if epoch < 4 else 1)
    [file] = files(writer.table)
    assert (file.row_count, file.level, file.file_source) == (100, 0, FileSource.COMPACT)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 99)
    assert kinds(writer.table) == "AAAAAC"
    assert_rows(writer)


def test_each_partition_waits_for_itself(tmp_path: Path) -> None:
    """After five rounds without enough files, the planner joins two when others have some."""
    writer = TableWriter(a_table(tmp_path, "dt"), CompactInThreads)
    writer.write(rows(0, dt="a"))
    writer.write(rows(1, dt="a"))
    counts = []
    for epoch in range(2, 9):
        writer.write(rows(epoch, dt="b"))
        writer.commit.compact_due()
        a = serialize_row(["a"], writer.table.schema.partition_type.types)
        counts.append(sum(entry.partition == a for entry in live(writer.table)))
    assert counts[0] == 2
    assert counts[-1] == 1
    assert_rows(writer)


def test_large_files_are_left_alone(tmp_path: Path) -> None:
    options = {"target_file_size": "2 kb", "compaction__min__file_num": 2}
    writer = TableWriter(a_table(tmp_path, **options), CompactInThreads)
    writer.write(rows(0, 1500))
    large = {file.file_name for file in files(writer.table) if file.file_size >= 1433}
    assert large
    for epoch in range(1, 5):
        writer.write(rows(epoch, 3))
        writer.commit.compact_due()
    assert large <= {file.file_name for file in files(writer.table)}
    assert_rows(writer)


def test_a_bucket_keeps_the_order_of_its_rows(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=1, bucket_key="dt", compaction__min__file_num=3)
    writer = TableWriter(table, CompactLater)
    assert isinstance(writer.executor, CompactLater)
    for epoch in range(9):
        writer.write(rows(epoch, 4))
        if epoch % 4 == 3:
            # What is compacted has newer files behind it meanwhile.
            writer.executor.run()
            writer.commit.commit_idle()
        if epoch == 5:
            writer.restart()
            assert isinstance(writer.executor, CompactLater)
    assert "C" in kinds(table)
    assert read_rows(table) == [row for epoch in range(9) for _, row in rows(epoch, 4)]


def test_a_small_result_is_compacted_again(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=1, bucket_key="dt", compaction__min__file_num=3)
    writer = TableWriter(table, CompactInThreads)
    for epoch in range(5):
        writer.write(rows(epoch))
        writer.commit.compact_due()
    assert len(files(table)) == 1
    assert kinds(table) == "AAACAAC"


@pytest.mark.parametrize("options", [UNAWARE, BUCKETED], ids=["unaware", "buckets"])
def test_a_write_only_table_is_not_compacted(tmp_path: Path, options: dict[str, Any]) -> None:
    writer = TableWriter(a_table(tmp_path, write_only="true", **options), CompactLater)
    for epoch in range(12):
        writer.write(rows(epoch))
    assert writer.commit.compact_due() == []
    assert isinstance(writer.executor, CompactLater)
    assert writer.executor.waiting == []
    assert_rows(writer)


def test_a_compaction_that_fails_for_a_while_succeeds_in_the_end(tmp_path: Path) -> None:
    """After three failures the job waits for it no more, but continues its attempts."""
    writer = TableWriter(a_table(tmp_path), lambda table: CompactInThreads(table, FAILURES_MAX))
    for epoch in range(5):
        writer.write(rows(epoch))
    writer.commit.compact_due()
    executor = writer.executor
    assert isinstance(executor, CompactInThreads)
    assert len(executor.requests) == FAILURES_MAX
    assert len(files(writer.table)) == 5
    writer.table.clock.sleep(LONGEST_RETRY_S)
    writer.write(rows(5))
    writer.commit.compact_due()
    assert len(files(writer.table)) <= 2, "the new file may have come too late"
    assert_rows(writer)
    assert_rows(writer)


def test_a_failure_is_tried_again(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path), lambda table: CompactInThreads(table, 1))
    for epoch in range(5):
        writer.write(rows(epoch))
    for _ in range(3):
        writer.commit.compact_due()
    assert isinstance(writer.executor, CompactInThreads)
    assert len(writer.executor.requests) == 2
    assert len(files(writer.table)) == 1
    assert_rows(writer)


@pytest.mark.parametrize("options", [UNAWARE, BUCKETED], ids=["unaware", "buckets"])
def test_a_compaction_that_another_has_overtaken_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    writer = TableWriter(a_table(tmp_path, **options), CompactLater)
    for epoch in range(5):
        writer.write(rows(epoch))
    wait_for_plan(writer)
    other_writer = TableWriter(writer.table, CompactInThreads, user="other")
    attempt(other_writer, 0, rows(5))
    other_writer.commit.compact_due()
    assert isinstance(writer.executor, CompactLater)
    writer.executor.run()
    before = files_on_disk(writer.table, "data-")
    assert writer.commit.commit_idle() is None
    assert "is dropped: " in caplog.text
    assert "is gone" in caplog.text
    assert files_on_disk(writer.table, "data-") < before
    assert files_on_disk(writer.table, "data-") == files_that_snapshots_name(writer.table)
    writer.model.changes.append(rows(5))
    attempt(writer, 6, rows(6))
    writer.model.changes.append(rows(6))
    for epoch in range(7, 12):
        attempt(writer, epoch, rows(epoch))
        writer.model.changes.append(rows(epoch))
        wait_for_plan(writer)
        writer.executor.run()
        writer.commit.commit_idle()
    assert_rows(writer)
    assert len(files(writer.table)) < 12


def attempt(writer: TableWriter, epoch: int, changes: Sequence[Change]) -> None:
    writer.model.changes.append(list(changes))
    number = len(writer.model.changes) - 1
    writer.model.changes.extend([] for _ in range(number, epoch))
    writer.model.changes[-1] = list(changes)
    writer.attempt(len(writer.model.changes) - 1)
    del writer.model.changes[number:]


def wait_for_plan(writer: TableWriter) -> None:
    """Wait until the planning has ended and its tasks run."""
    compactions = writer.commit.coordinator
    while compactions.metrics().unfinished_count == 0 and not compactions.is_idle():
        compactions.wait_for_any()
        writer.commit.commit_idle()


def test_planning_looks_at_so_many_files_at_a_time(tmp_path: Path) -> None:
    options = {"compaction__file_num_limit": 4, "compaction__min__file_num": 3}
    writer = TableWriter(a_table(tmp_path, write_only="true", **options))
    for epoch in range(10):
        writer.write(rows(epoch))
    planner = AppendCompactPlanner(writer.table)
    plans: list[AppendPlan] = []
    while not plans or plans[-1].has_more:
        plans.append(planner.plan())
    assert [len(plan.tasks) for plan in plans] == [1, 1, 0]
    assert [len(members) for plan in plans for _, members in plan.tasks] == [4, 4]
    assert planner.plan().tasks == ()
    writer.write(rows(10))
    [(_, joined_files)] = planner.plan().tasks
    assert len(joined_files) == 3
    # A restarted writer sees all files.
    names = {file.file_name for file in joined_files}
    assert len(planner.plan(starts_anew=True, excluded_names=names).tasks) == 1


def test_the_planner_leaves_out_files_that_another_writer_deletes(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path, write_only="true"))
    for epoch in range(4):
        writer.write(rows(epoch))
    planner = AppendCompactPlanner(writer.table)
    assert planner.plan().tasks == ()
    other_writer = TableWriter(
        replace_options(writer.table, {"write-only": "false", "compaction.min.file-num": "2"}),
        CompactInThreads,
        user="other",
    )
    attempt(other_writer, 0, rows(4))
    other_writer.commit.compact_due()
    assert len(files(writer.table)) == 1
    assert planner.plan().tasks == ()
    assert {file.file_name for sub in planner._sub_coordinators.values() for file in sub.files} == {
        file.file_name for file in files(writer.table)
    }


def replace_options(table: FileStoreTable, options: dict[str, str]) -> FileStoreTable:
    merged_options = {**table.schema.options, **options}
    return replace(table, schema=replace(table.schema, options=merged_options))


def test_a_plan_whose_snapshot_has_expired_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = TableWriter(a_table(tmp_path), CompactInThreads)
    writer.write(rows(0))
    writer.commit.compact_due()
    other_writer = TableWriter(replace_options(writer.table, {"write-only": "true"}), user="other")
    for epoch in range(3):
        attempt(other_writer, epoch, rows(10 + epoch))
    for number in (1, 2, 3):
        Path(writer.table.location, "snapshot", f"snapshot-{number}").unlink()
    writer.write(rows(1))
    writer.commit.compact_due()
    writer.write(rows(2))
    writer.commit.compact_due()
    assert "could not be planned" in caplog.text
    assert len(files(writer.table)) <= 2
    assert len(read_rows(writer.table)) == 6 * 20


@pytest.mark.parametrize("options", [UNAWARE, BUCKETED], ids=["unaware", "buckets"])
def test_one_compaction_can_be_listed_and_run_alone(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    table = a_table(tmp_path, "dt", write_only="true", **options)
    plan = table_kind_of(table.schema).plan_compactions
    assert plan(table, None) == []
    writer = TableWriter(table)
    for epoch in range(6):
        writer.write([*rows(epoch, dt="a"), *rows(epoch, dt="b")])
    latest = table.snapshots.latest()
    buckets = 2 if options == BUCKETED else 1
    units = plan(table, latest)
    assert len(units) == 2 * buckets
    partition = units[0].partition
    requests = plan(table, latest, [BucketId(partition, 0)], is_full=True)
    assert [request.partition for request in requests] == [partition] * buckets
    result = compact_bucket(table, requests[0])
    assert result.removed_files == requests[0].unit.files
    assert len(result.removed_files) == (6 if options == BUCKETED else len(units[0].unit.files))
    [after] = result.added_files
    assert after.row_count == sum(file.row_count for file in result.removed_files)


def test_a_full_compaction_of_a_bucket(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=1, bucket_key="dt", compaction__min__file_num=50)
    writer = TableWriter(table, CompactInThreads)
    for epoch in range(4):
        writer.write(rows(epoch))
    assert writer.commit.compact_due() == []
    [snapshot] = writer.commit.compact_fully()
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert len(files(table)) == 1
    assert read_rows(table) == [row for epoch in range(4) for _, row in rows(epoch)]


def test_a_full_compaction_does_not_end_the_others(tmp_path: Path) -> None:
    """A full compaction reads snapshots up to the latest; the next compactions read on."""
    writer = TableWriter(a_table(tmp_path), CompactInThreads)
    for epoch in range(5):
        writer.write(rows(epoch))
        assert len(writer.commit.compact_fully()) == (epoch == 4)
    for epoch in range(5, 9):
        writer.write(rows(epoch))
        writer.commit.compact_due()
    assert kinds(writer.table) == "AAAAACAAAAC"
    assert len(files(writer.table)) == 1
    assert_rows(writer)


@pytest.mark.parametrize("options", [UNAWARE, BUCKETED], ids=["unaware", "buckets"])
def test_a_job_that_only_compacts(tmp_path: Path, options: dict[str, Any]) -> None:
    """The compactor runs beside a write-only job, and only in the chosen partition."""
    table = a_table(tmp_path, "dt", write_only="true", compaction__min__file_num=3, **options)
    writer = TableWriter(table, CompactInThreads)
    for epoch in range(6):
        writer.write([*rows(epoch), *rows(epoch, dt="b")])
    before = files(table)
    job = table.with_options({"write-only": "false"})
    compactor = StreamTableCommit(
        job, "compactor", CompactInThreads(job), last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    latest = table.snapshots.latest()
    buckets = PartitionFilter(partitions=({"dt": "a"},)).buckets(table, latest)
    compactor.state.follow_and_load(buckets)
    compactor.coordinator.restrict({partition for partition, _ in buckets})
    units = due_compactions(job, latest, buckets, is_full=True)
    assert {plan.partition for plan in units} == {"dt=a"}
    assert compactor.compact_fully(buckets) != []
    reports = compactor.published_compactions.take_reports()
    assert [report.files_in for report in reports] == [plan.files for plan in units]
    assert {report.partition for report in reports} == {"dt=a"}
    assert len(files(table)) == len(before) - sum(
        report.files_in - report.files_out for report in reports
    )
    assert_rows(writer)
