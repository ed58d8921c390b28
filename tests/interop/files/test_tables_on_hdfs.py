"""A table on a real HDFS survives races, compactions, expiry and a dead NameNode; Java reads it."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

import stream_app
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.model.snapshot import CommitKind
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter, assert_table_is, by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.servers.hdfs_cluster import HdfsCluster
from tests.support.tables.small_table import TIME_MS, Change, SteppingClock
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.java


def a_schema(**options: str) -> TableSchema:
    return new_table_schema(
        columns=parse_columns("k INT, dt STRING, a STRING, t TIMESTAMP(3)"),
        primary_keys=("dt", "k"),
        partition_keys=("dt",),
        options={"bucket": "2", "num-sorted-run.compaction-trigger": "2"} | options,
        time_ms=TIME_MS,
    )


def a_table(hdfs: HdfsCluster, schema: TableSchema) -> FileStoreTable:
    return create_or_open(f"{hdfs.new_folder()}/db.db/t", schema, SteppingClock())


def all_files(table: FileStoreTable, folder: str) -> list[str]:
    paths = []
    for status in table.file_io.list_status(folder):
        path = f"{folder}/{status.name}"
        paths += all_files(table, path) if status.is_folder else [path]
    return paths


def test_java_reads_a_table_that_we_wrote_compacted_and_expired(
    hdfs: HdfsCluster, paimon_java: PaimonJava, seed: int
) -> None:
    table = a_table(hdfs, a_schema(**{"changelog-producer": "input"}))
    writer = TableWriter(table)
    changes = RandomChanges(table.schema, random.Random(seed))
    for number in range(3):
        writer.write(changes.epoch(100))
        if number == 1:
            writer.restart()
    writer.commit.compact_due()
    assert_table_is(writer)
    expiry = ExpireSnapshots(table)
    before = len(all_files(table, table.location))
    expiry.execute(expiry.plan(expire_config(table.options, num_max=1, num_min=1)))
    assert len(all_files(table, table.location)) < before
    expected = by_content(writer.model.rows())
    assert (
        by_content(normal_rows(stream_app.open_table(table.location).read().read_all())) == expected
    )
    assert by_content(paimon_java.read(table.location)) == expected
    assert not [path for path in all_files(table, table.location) if path.endswith(".tmp")]


def rows_of(number: int, epoch: int) -> list[Change]:
    row = {"k": 100 * number + epoch, "dt": "x", "a": f"{number} {epoch}", "t": None}
    return [("+I", row)]


def test_concurrent_commits_beside_java_lose_nothing(
    hdfs: HdfsCluster, paimon_java: PaimonJava
) -> None:
    table = a_table(hdfs, a_schema(**{"write-only": "true"}))

    def commit(number: int) -> None:
        writer = TableWriter(create_or_open(table.location, table.schema), user=f"user-{number}")
        for epoch in range(3):
            assert writer.write(rows_of(number, epoch)) is not None

    def commit_by_java() -> None:
        for epoch in range(3):
            rows = rows_of(2, epoch)
            paimon_java.write(table.location, rows, identifier=epoch, commit_user="user-2")

    with ThreadPoolExecutor(3) as threads:
        by_java = threads.submit(commit_by_java)
        list(threads.map(commit, range(2)))
        by_java.result()
    snapshots = check_chain(table)
    assert len(snapshots) == 9
    for number in range(3):
        mine = [snapshot for snapshot in snapshots if snapshot.commit_user == f"user-{number}"]
        assert [snapshot.commit_identifier for snapshot in mine] == list(range(3))
    rows = [row for number in range(3) for epoch in range(3) for _, row in rows_of(number, epoch)]
    assert by_content(paimon_java.read(table.location)) == by_content(rows)


@pytest.mark.variant
def test_a_name_node_that_is_killed_costs_no_epoch(hdfs: HdfsCluster, seed: int) -> None:
    """The last test here: it kills the cluster of the others amid an epoch, and starts it again."""
    often = {
        "hadoop.dfs.client.failover.sleep.max.millis": "1000",
        "hadoop.dfs.client.failover.max.attempts": "30",
    }
    table = create_or_open(f"{hdfs.new_folder()}/t", a_schema(), file_io_options=often)
    writer = TableWriter(table)
    changes = RandomChanges(table.schema, random.Random(seed))
    writer.write(changes.epoch(100))
    data = random.Random(seed).randbytes(3_000_000)
    table.file_io.write_bytes(f"{table.location}/f", data)
    source = table.file_io.open_input(f"{table.location}/f")

    def kill_and_start() -> None:
        hdfs.kill()
        hdfs.start()

    restarts = 0
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(kill_and_start)
        while writer.epoch < 4:
            try:
                writer.write(changes.epoch(100))
            except OSError:
                restarts += 1
                writer.replay()
        starting.result()
    assert source.read() == data, "a reader that was open when the server was killed reads on"
    table.file_io.delete(f"{table.location}/f")
    writer.commit.compact_due()
    # A file that is written amid it fails, and with it the job, which continues when it is started.
    assert restarts <= 1
    assert_table_is(writer)
    kinds = [snapshot.commit_kind for snapshot in check_chain(table)]
    assert kinds.count(CommitKind.APPEND) == 4
