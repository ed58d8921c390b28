"""A job compacts alone, beside jobs that write and compact the same table."""

from __future__ import annotations

import datetime as dt
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.arguments.parsed_texts import partition_argument
from stream_app.errors import UsageError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.predicate.parser import parse_predicate
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.versions.partition_filter import PartitionFilter
from tests.support.jobs.compacting_table import a_table, rows
from tests.support.jobs.table_writer import (
    CompactInThreads,
    CompactLater,
    TableWriter,
    WorkingClock,
    assert_table_is,
    read_rows,
)
from tests.support.tables.small_table import Change, small_table
from tests.support.tables.snapshot_chain import (
    check_chain,
    files_on_disk,
    files_that_snapshots_name,
)

pytestmark = pytest.mark.usefixtures("unsynced")


def a_compactor(table: FileStoreTable, executor: CompactExecutor) -> StreamTableCommit:
    job = table.with_options({"write-only": "false"})
    return StreamTableCommit(job, "compactor", executor, last_identifier=BATCH_COMMIT_IDENTIFIER)


@pytest.mark.parametrize("keys", ["k", ""])
def test_no_compaction_begins_without_a_commit_identifier(tmp_path: Path, keys: str) -> None:
    """No commit could publish the compaction, and a job that waited for it would never end."""
    bucket: dict[str, Any] = {"bucket": 1 if keys else -1}
    table = small_table(tmp_path / "db.db" / "t", "k INT, a INT", keys, **bucket).table
    writer = TableWriter(table)
    for epoch in range(6):
        writer.write([("+I", {"k": epoch, "a": epoch})])
    executor = CompactLater(table)
    with pytest.raises(ValueError, match="no identifier"):
        StreamTableCommit(table, "another", executor).compact_fully()
    assert executor.waiting == []


def test_a_lost_conflict_drops_the_compaction_and_asks_again(tmp_path: Path) -> None:
    """The job itself compacts the bucket while ours runs: only ours comes to nothing."""
    options = {"num_sorted_run__compaction_trigger": 3, "num_sorted_run__stop_trigger": 9}
    writer = TableWriter(a_table(tmp_path, **options), CompactInThreads)
    for epoch in range(2):
        writer.write(rows(epoch))
    executor = CompactLater(writer.table)
    tries: list[int] = []

    def work_late() -> None:
        if not tries:
            writer.write(rows(2))
            writer.commit.compact_due()
            writer.write(rows(3))
        tries.append(len(executor.waiting))
        executor.run()

    clock = WorkingClock(work=work_late)
    compactor = a_compactor(replace(writer.table, clock=clock), executor)
    snapshots = compactor.compact_fully()
    assert tries == [1, 1]
    assert compactor.coordinator.dropped_compactions.dropped_count == 1
    assert len(snapshots) == 1
    assert set(compactor.coordinator.back_pressure.sorted_run_counts().values()) == {1}
    writer.write(rows(4))
    assert_table_is(writer)
    assert files_on_disk(writer.table, "data-") == files_that_snapshots_name(writer.table)


def test_two_jobs_and_a_compactor_at_once(tmp_path: Path, seed: int) -> None:
    """One job writes and compacts, one only writes, one only compacts; each has its own keys."""
    options = {"bucket": 2, "num_sorted_run__compaction_trigger": 3, "commit__max_retries": 1000}
    table = a_table(tmp_path, **options)
    generator = random.Random(seed)

    def job(name: str, first_key: int, write_only: str, seed: float) -> TableWriter:
        choose = random.Random(seed)
        writer = TableWriter(table.with_options({"write-only": write_only}), CompactInThreads, name)
        for epoch in range(12):
            keys = choose.sample(range(first_key, first_key + 30), 10)
            kinds = choose.choices(("+I", "-D"), (4, 1), k=10)
            changes: list[Change] = [
                (kind, {"k": k, "v": f"{name} {epoch}"})
                for kind, k in zip(kinds, keys, strict=True)
            ]
            writer.write(changes)
        writer.commit.compact_due()
        return writer

    def compact() -> StreamTableCommit:
        compactor = a_compactor(table, CompactInThreads(table))
        while not all_written.is_set():
            compactor.compact_fully()
        return compactor

    all_written = threading.Event()
    with ThreadPoolExecutor(3) as threads:
        compacting = threads.submit(compact)
        jobs = [
            threads.submit(job, "both", 0, "false", generator.random()),
            threads.submit(job, "writes", 100, "true", generator.random()),
        ]
        writers = []
        try:
            writers = [job.result() for job in jobs]
        finally:
            all_written.set()
        compacting.result()
    snapshots = check_chain(table)
    assert {snapshot.commit_user for snapshot in snapshots} == {"both", "writes", "compactor"}
    expected = sorted((row["k"], row["v"]) for writer in writers for row in writer.model.rows())
    assert sorted((row["k"], row["v"]) for row in read_rows(table)) == expected
    last = a_compactor(table, CompactInThreads(table))
    last.compact_fully()
    assert set(last.coordinator.back_pressure.sorted_run_counts().values()) == {1}
    assert sorted((row["k"], row["v"]) for row in read_rows(table)) == expected


DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


@pytest.fixture
def by_day(tmp_path: Path) -> FileStoreTable:
    """Three days as DATE, each in its own epoch, hours apart; region null on the last one."""
    table = small_table(
        tmp_path / "db.db" / "t",
        "dt DATE, region STRING, k INT",
        ("dt", "region", "k"),
        ("dt", "region"),
    )
    for number, day in enumerate(DAYS):
        table.table.clock.sleep(3600)
        region = "eu" if number else "us"
        table.commit(("+I", {"dt": dt.date.fromisoformat(day), "region": region, "k": 1}))
    return table.table


@pytest.mark.parametrize(
    ("partitions", "where", "idle", "days"),
    [
        ((), None, None, [0, 1, 2]),
        (("dt=2026-01-02",), None, None, [1]),
        (("dt=2026-01-02", "region=us"), None, None, [0, 1]),
        (("dt=2026-01-02,region=us",), None, None, []),
        (("dt=20456,region=eu",), None, None, [2]),
        ((), "dt >= DATE '2026-01-02' AND region = 'eu'", None, [1, 2]),
        ((), "region IS NULL", None, []),
        ((), None, 5_000_000, [0, 1]),
        (("region=eu",), "dt < DATE '2026-01-03'", 1_000_000, [1]),
    ],
)
def test_only_chosen_partitions_are_compacted(
    by_day: FileStoreTable,
    partitions: tuple[str, ...],
    where: str | None,
    idle: int | None,
    days: list[int],
) -> None:
    partition_filter = PartitionFilter(
        partitions=tuple(map(partition_argument, partitions)),
        condition=None if where is None else parse_predicate(where, by_day.schema.fields),
        idle_ms=idle,
    )
    partition_filter.check(by_day)
    by_day.clock.sleep(1800)
    buckets = partition_filter.buckets(by_day, by_day.snapshots.latest())
    paths = sorted(by_day.paths.partition_path(partition) for partition, _ in buckets)
    assert [path.split("/")[0] for path in paths] == [f"dt={20454 + day}" for day in days]


def test_a_table_without_partitions_cannot_be_chosen_from(tmp_path: Path) -> None:
    partition_filter = PartitionFilter(partitions=({"dt": "1"},))
    with pytest.raises(UsageError, match="'dt' is not a partition column"):
        partition_filter.check(a_table(tmp_path))
