"""The latest snapshot expires while a compactor or a committer reads it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from stream_app.model.bucket_id import BucketId
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from tests.support.files.file_operation_turns import Actor
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, read_rows
from tests.support.tables.memory_table import copy_of, memory_table

OPTIONS = {
    "bucket": "1",
    "file-operation.thread-num": "1",
    "num-sorted-run.compaction-trigger": "2",
}


def open_commit(table: FileStoreTable) -> StreamTableCommit:
    return StreamTableCommit(
        table, "compactor", CompactInCaller(table), last_identifier=BATCH_COMMIT_IDENTIFIER
    )


def take_up(table: FileStoreTable) -> set[BucketId]:
    commit = open_commit(table)
    commit.state.follow_and_load(None)
    return commit.coordinator.known_buckets()


def operations_of(table: FileStoreTable, work: Callable[[FileStoreTable], Any]) -> int:
    actor = Actor(table, work)
    actor.finish()
    assert actor.error is None
    return len(actor.operations)


def test_a_newer_snapshot_is_read_instead() -> None:
    """At each step another writer commits a snapshot, and an expiry deletes all others."""
    table = memory_table(OPTIONS).with_options({"write-only": "true"})
    changes = RandomChanges(table.schema, random.Random(3), key_count=6)
    writer = TableWriter(table)
    for _ in range(3):
        writer.write(changes.epoch(4))
    start, end = operations_of(copy_of(table), open_commit), operations_of(copy_of(table), take_up)
    assert end > start + 5
    for stop in range(start, end):
        copied_table = copy_of(table)
        compactor = Actor(copied_table, take_up)
        compactor.run_to(stop)
        beside = TableWriter(copied_table, user="other")
        beside.write(changes.epoch(4))
        expiry = ExpireSnapshots(copied_table)
        expiry.execute(expiry.plan(expire_config(copied_table.options, num_max=1, num_min=1)))
        assert copied_table.snapshots.ids() == [4]
        compactor.finish()
        assert compactor.error is None, (stop, compactor.error)
        assert {bucket for _, bucket in compactor.result} == {0}


def test_a_commit_is_made_on_top_of_the_newer_one() -> None:
    """The same race, but of a writer that has rows to commit."""
    table = memory_table(OPTIONS).with_options({"write-only": "true"})
    for epoch in range(3):
        TableWriter(table, user=f"before {epoch}").write([("+I", {"k": epoch, "v": "before"})])

    def write(copied_table: FileStoreTable) -> None:
        TableWriter(copied_table, user="slow").write([("+I", {"k": 100, "v": "slow"})])

    at_snapshots = set()
    for stop in range(
        operations_of(copy_of(table), open_commit), operations_of(copy_of(table), write)
    ):
        fresh_copy = copy_of(table)
        slow = Actor(fresh_copy, write)
        slow.run_to(stop)
        TableWriter(fresh_copy, user="other").write([("+I", {"k": 200, "v": "other"})])
        expiry = ExpireSnapshots(fresh_copy)
        expiry.execute(expiry.plan(expire_config(fresh_copy.options, num_max=1, num_min=1)))
        slow.finish()
        assert slow.error is None, (stop, slow.error)
        assert sorted(row["k"] for row in read_rows(fresh_copy)) == [0, 1, 2, 100, 200]
        latest = fresh_copy.snapshots.latest()
        assert latest is not None
        at_snapshots.add((latest.snapshot_id, latest.commit_user))
    assert at_snapshots == {(5, "slow"), (5, "other")}
