"""The verb and a running job drop the partitions that are too old."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.clock import local_wall_clock_ms
from stream_app.errors import UsageError
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.upkeep.expire_partitions import (
    ExpirePartitions,
    PartitionExpiry,
    partition_retention,
)
from tests.support.files.raced_file_io import RacedFileIO
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.tables.small_table import TIME_MS, Change, SteppingClock, small_table

pytestmark = pytest.mark.usefixtures("unsynced")
DAY_MS = 86_400_000
FIRST_DAY = TIME_MS // DAY_MS


def a_table(folder: Path, **options: Any) -> FileStoreTable:
    """The clock stands at 2026-01-01; partitions are days of the December before."""
    return small_table(
        folder / "db.db" / "t", "dt STRING, k INT, v STRING", ("dt", "k"), ("dt",),
        partition__expiration_time="10 d", num_sorted_run__compaction_trigger=2, **options,
    ).table  # fmt: skip


def day(number: int, *keys: int, value: str = "a") -> list[Change]:
    return [("+I", {"dt": f"2025-12-{number:02}", "k": key, "v": value}) for key in keys]


def drop(table: FileStoreTable, **options: str) -> list[str]:
    table = table.with_options({key.replace("__", "."): value for key, value in options.items()})
    retention = partition_retention(table.options)
    assert retention is not None
    expire = ExpirePartitions(table, retention)
    expiry = expire.plan()
    list(expire.execute(expiry))
    return [table.paths.partition_path(partition.partition) for partition in expiry.partitions]


def test_a_null_beside_the_time_keeps_no_partition(tmp_path: Path) -> None:
    """A null in the column that tells the time keeps its partition: its age is not known."""
    small = small_table(
        tmp_path / "db.db" / "t", "dt STRING, region STRING, k INT", (), ("dt", "region"),
        partition__expiration_time="10 d",
    )  # fmt: skip
    values = [("2025-12-01", None), ("2025-12-01", "eu"), (None, "eu"), ("2025-12-30", None)]
    small.commit(*(("+I", {"dt": dt, "region": region, "k": 1}) for dt, region in values))
    assert sorted(drop(small.table)) == [
        "dt=2025-12-01/region=__DEFAULT_PARTITION__", "dt=2025-12-01/region=eu",
    ]  # fmt: skip
    partitions = sorted(str((row["dt"], row["region"])) for row in read_rows(small.table))
    assert partitions == sorted(str(value) for value in values[2:])


def test_a_job_goes_on_while_its_partitions_are_dropped(tmp_path: Path, seed: int) -> None:
    """The job handles late rows, compactions of dropped files, and sequence numbers."""
    table = a_table(
        tmp_path, partition__expiration_check_interval="0 s", snapshot__num_retained__min=2,
        snapshot__num_retained__max=3, bucket=2,
    )  # fmt: skip
    clock = SteppingClock()
    table = replace(table, clock=clock)
    writer = TableWriter(table)
    maintenance = TableMaintenance(writer.table)
    rng, rows = random.Random(seed), dict[tuple[str, int], dict[str, Any]]()
    for _ in range(25):
        changes = [
            change
            for _ in range(3)
            for change in day(rng.randrange(15, 31), rng.randrange(3), value=str(rng.random()))
        ]
        writer.write(changes)
        rows |= {(row["dt"], row["k"]): dict(row) for _, row in changes}
        maintenance.after_commit()
        first = f"2025-12-{23 + local_wall_clock_ms(clock) // DAY_MS - FIRST_DAY:02}"
        rows = {key: row for key, row in rows.items() if key[0] >= first}
        assert by_content(read_rows(table)) == by_content(list(rows.values()))
        if rng.random() < 0.3:
            clock.millis += DAY_MS
        if rng.random() < 0.3:
            writer.restart()
    writer.commit.compact_due()
    assert by_content(read_rows(table)) == by_content(list(rows.values()))
    done = maintenance.metrics()
    assert done.failures == 0
    assert done.partitions_expired > 5
    assert done.snapshots_expired > 20


def test_the_first_by_their_values_go_when_there_are_many(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    TableWriter(table).write(day(3, 1) + day(1, 1) + day(2, 1) + day(30, 1))
    assert drop(table, **{"partition.expiration-max-num": "2"}) == [
        "dt=2025-12-01",
        "dt=2025-12-02",
    ]
    assert drop(table) == ["dt=2025-12-03"]
    assert drop(table) == []
    assert [row["dt"] for row in read_rows(table)] == ["2025-12-30"]


def test_commits_drop_as_many_as_a_batch_holds(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    TableWriter(table).write([row for number in range(1, 6) for row in day(number, 1)])
    before = table.snapshots.latest_id() or 0
    drop(table, **{"partition.expiration-batch-size": "2"})
    assert table.snapshots.latest_id() == before + 3


def test_by_update_time_the_newest_file_counts(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    clock = SteppingClock()
    writer = TableWriter(replace(table, clock=clock))
    writer.write(day(1, 1) + day(30, 1))
    clock.millis += 9 * DAY_MS
    writer.write(day(1, 2))
    clock.millis += 2 * DAY_MS
    now = replace(table, clock=clock)
    assert drop(now, **{"partition.expiration-strategy": "update-time"}) == ["dt=2025-12-30"]


def an_expiry_by_update_time(
    folder: Path,
) -> tuple[TableWriter, ExpirePartitions, PartitionExpiry]:
    """Two partitions are too old, and are going to be dropped; the writer's clock is the same."""
    clock = SteppingClock()
    table = replace(a_table(folder), clock=clock)
    writer = TableWriter(table)
    writer.write(day(1, 1) + day(2, 1))
    clock.millis += 11 * DAY_MS
    table = table.with_options({"partition.expiration-strategy": "update-time"})
    retention = partition_retention(table.options)
    assert retention is not None
    expire = ExpirePartitions(table, retention)
    expiry = expire.plan()
    assert [table.paths.partition_path(partition.partition) for partition in expiry.partitions] == [
        "dt=2025-12-01",
        "dt=2025-12-02",
    ]
    return writer, expire, expiry


@pytest.mark.parametrize("written", [(), (1,), (1, 2)], ids=["none", "one", "both"])
def test_by_update_time_what_was_written_to_since_the_plan_stays(
    tmp_path: Path, written: tuple[int, ...]
) -> None:
    writer, expire, expiry = an_expiry_by_update_time(tmp_path)
    if written:
        writer.write([row for number in written for row in day(number, 2)])
    dropped_partitions = [
        partition for done in expire.execute(expiry) for partition in done.partitions
    ]
    assert len(dropped_partitions) == 2 - len(written)
    remaining = {(row["dt"], row["k"]) for row in read_rows(writer.table)}
    assert remaining == {(f"2025-12-{number:02}", key) for number in written for key in (1, 2)}


def test_by_update_time_a_commit_that_wins_the_race_keeps_its_partition(tmp_path: Path) -> None:
    """The drop has looked, has written its manifests, and only then another snapshot comes."""
    writer, expire, expiry = an_expiry_by_update_time(tmp_path)
    racing = RacedFileIO([lambda: writer.write(day(2, 2))])
    expire = replace(expire, table=replace(expire.table, file_io=racing))
    dropped_partitions = [
        partition for done in expire.execute(expiry) for partition in done.partitions
    ]
    assert [partition.values for partition in dropped_partitions] == [("2025-12-01",)]
    assert [(row["dt"], row["k"]) for row in read_rows(writer.table)] == [
        ("2025-12-02", 1),
        ("2025-12-02", 2),
    ]


def test_an_unknown_strategy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'values-time'"):
        drop(a_table(tmp_path), **{"partition.expiration-strategy": "value-time"})
