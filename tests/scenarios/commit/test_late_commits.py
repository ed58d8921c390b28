"""A committer is delayed while other writers commit, expire or roll back the table.

The number that it is about to take may be free again by then. It is stopped before each of its
file operations in turn, and everything else happens there.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import CheckpointError, CommitConflictError, UsageError
from stream_app.fileio.file_io import UnsyncedError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from tests.support.files.file_operation_turns import Actor
from tests.support.jobs.table_writer import TableWriter, read_rows
from tests.support.suite.strides import Strides
from tests.support.tables.memory_table import copy_of, memory_table
from tests.support.tables.small_table import Change, small_table
from tests.support.tables.sound_table import findings_of

OPTIONS = {"bucket": "1", "file-operation.thread-num": "1"}
Changes = list[Change]


def row(key: int, value: str) -> Changes:
    return [("+I", {"k": key, "v": value})]


def a_table(*, is_append: bool = False, epochs: int = 3) -> FileStoreTable:
    """Make a table with some epochs of user a, each of which has one row."""
    table = memory_table(OPTIONS)
    if is_append:
        schema = new_table_schema(
            columns=parse_columns("k INT, v STRING"), primary_keys=(), partition_keys=(),
            options={"bucket": "-1", "write-only": "true"}, time_ms=1,
        )  # fmt: skip
        table = replace(table, location="/append", schema=schema)
        assert table.schemas.create(schema)
    writer = TableWriter(table, user="a")
    for number in range(epochs):
        writer.write(row(number, "a"))
    return table


def write_epoch(number: int, changes: Changes) -> Any:
    """Write an epoch as a process of user a does, and return whether the table had it already."""

    def work(table: FileStoreTable) -> bool:
        writer = TableWriter(table, user="a")
        writer.model.changes += [*([] for _ in range(number)), changes]
        return writer.attempt(number) is None

    return work


def expire(table: FileStoreTable, keep: int) -> None:
    expiry = ExpireSnapshots(table)
    expiry.execute(expiry.plan(expire_config(table.options, num_max=keep, num_min=keep)))


def others_go_on(table: FileStoreTable, *, keep: int, user: str) -> None:
    """Four epochs of another user or of a twin, after which few snapshots are left."""
    other_writer = TableWriter(table, user=user)
    other_writer.model.changes += [[]] * (0 if other_writer.commit.last_identifier is None else 4)
    for number in range(4):
        other_writer.write(row(100 + number, user))
    expire(table, keep)


def keys_of(table: FileStoreTable) -> list[int]:
    return sorted(row["k"] for row in read_rows(table))


def stops_of(table: FileStoreTable, work: Any) -> range:
    actor = Actor(copy_of(table), work)
    actor.finish()
    assert actor.error is None
    return range(len(actor.operations) + 1)


@pytest.mark.parametrize(
    ("keep", "is_append", "epochs"),
    [(1, False, 3), (2, False, 3), (3, True, 3), (1, False, 0), (2, True, 0)],
)
def test_a_late_commit_loses_nothing_though_others_commit_and_expire(
    keep: int, is_append: bool, epochs: int, strides: Strides
) -> None:
    story = a_table(is_append=is_append, epochs=epochs)
    work = write_epoch(epochs, row(50, "late"))
    stopped_count = 0
    for stop in filter(strides.has, stops_of(story, work)):
        table = copy_of(story)
        actor = Actor(table, work)
        actor.run_to(stop)
        others_go_on(table, keep=keep, user="b")
        actor.finish()
        assert actor.error is None or isinstance(actor.error, CheckpointError), actor.error
        assert findings_of(table) == []
        stopped_count += actor.error is not None
        is_there = [] if actor.error else [50]
        assert keys_of(table) == [*range(epochs), *is_there, 100, 101, 102, 103]
        # The stopped committer is started again.
        write_epoch(epochs, row(50, "late"))(table)
        assert keys_of(table) == [*range(epochs), 50, 100, 101, 102, 103]
    # Nearly everywhere it finds out in time and continues without a restart.
    assert stopped_count <= 2


@pytest.mark.parametrize("is_append", [False, True])
def test_a_late_committer_dies_before_its_check(is_append: bool) -> None:
    """Only `check` sees the late snapshot, and the next expiry deletes it."""
    story, work = a_table(is_append=is_append), write_epoch(3, row(50, "late"))
    whole = Actor(copy_of(story), work)
    whole.finish()
    creation = whole.operations.index("create_if_absent")
    table = copy_of(story)
    actor = Actor(table, work)
    actor.run_to(creation)
    others_go_on(table, keep=2, user="b")
    actor.run_to(creation + 1)
    actor.kill()
    latest_id = table.snapshots.latest_id()
    assert latest_id is not None
    assert table.snapshots.ids() == [4, latest_id - 1, latest_id]
    assert keys_of(table) == [0, 1, 2, 100, 101, 102, 103]
    assert "missing between 4 and" in findings_of(table)[0].problem
    write_epoch(3, row(50, "late"))(table)
    expire(table, 2)
    assert keys_of(table) == [0, 1, 2, 50, 100, 101, 102, 103]
    assert findings_of(table) == []


def test_a_stale_hint_is_moved_from_an_expired_snapshot() -> None:
    """Paimon believes it, unless the next snapshot is there."""
    table = a_table(epochs=4)
    table.snapshots.write_latest_hint(2)  # as a crash behind snapshots 3 and 4 leaves it
    expire(table, 1)
    assert table.snapshots.hints() == (4, 4)
    assert findings_of(table) == []


def test_a_late_commit_loses_nothing_though_its_twin_commits_and_expires() -> None:
    """The twin takes the same epoch's number, and many after it."""
    story = a_table()
    work = write_epoch(3, row(50, "late"))
    for stop in stops_of(story, work):
        table = copy_of(story)
        actor = Actor(table, work)
        actor.run_to(stop)
        others_go_on(table, keep=2, user="a")
        actor.finish()
        assert findings_of(table) == []
        if actor.error is None:
            assert actor.result or 50 in keys_of(table)
        else:
            assert isinstance(actor.error, CheckpointError | CommitConflictError), actor.error
            assert keys_of(table)[:3] == [0, 1, 2]
            assert keys_of(table)[-4:] == [100, 101, 102, 103]


def roll_back_to(table: FileStoreTable) -> None:
    plan = plan_rollback(table, table.snapshots.snapshot(1))
    roll_back(table, plan, resets_consumers=False)


def test_a_late_commit_during_a_rollback_leaves_a_right_table() -> None:
    story = a_table()
    work = write_epoch(3, row(50, "late"))
    for stop in stops_of(story, work):
        table = copy_of(story)
        actor = Actor(table, work)
        actor.run_to(stop)
        roll_back_to(table)
        actor.finish()
        assert findings_of(table) == []
        assert actor.error is None or isinstance(actor.error, CheckpointError), actor.error
        assert keys_of(table) in ([0], [0, 50][: 1 if actor.error else 2])


def test_an_epoch_is_committed_during_a_rollback() -> None:
    story = a_table()
    for stop in stops_of(story, roll_back_to):
        table = copy_of(story)
        actor = Actor(table, roll_back_to)
        actor.run_to(stop)
        writer = Actor(table, write_epoch(3, row(50, "late")))
        writer.finish()
        actor.finish()
        assert findings_of(table) == []
        if isinstance(actor.error, UsageError):  # the epoch was first, and nothing went
            assert keys_of(table) == [0, 1, 2, 50]
            continue
        assert actor.error is None
        assert writer.error is None or isinstance(writer.error, CheckpointError), writer.error
        assert keys_of(table) in ([0], [0, 50])


def test_a_snapshot_that_a_crash_could_take_away_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TableWriter(small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",)).table)
    writer.write(row(0, "a"))
    sync = os.fsync

    def failing(number: int) -> None:
        if Path(f"/proc/self/fd/{number}").readlink().name == "snapshot":
            raise OSError(errno.EIO, "Input/output error")
        sync(number)

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", failing)
        with pytest.raises(UnsyncedError):
            writer.write(row(1, "a"))
    writer.replay()
    assert [snapshot["k"] for snapshot in read_rows(writer.table)] == [0, 1]
