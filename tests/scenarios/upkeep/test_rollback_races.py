"""A table survives rollbacks beside jobs, upkeep and commands that should have been stopped.

No guide allows these races, and the table refuses some of them half-way. But it is never left
without a snapshot, or with an unreadable one; a process that gives up withdraws its announcement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stream_app.errors import (
    CheckpointError,
    CommitConflictError,
    CorruptFileError,
    UsageError,
)
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.rollback import RollbackPlan, plan_rollback, roll_back
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.files.file_operation_turns import Actor, GatedFileIO
from tests.support.jobs.table_writer import TableWriter, read_rows
from tests.support.tables.memory_table import copy_of, memory_table
from tests.support.tables.sound_table import findings_of

OPTIONS = {"bucket": "1", "file-operation.thread-num": "1", "write-only": "true"}
TARGET = 3
UNREADABLE = CorruptFileError | FileNotFoundError
"""What a reader sees while its files are deleted: the reader itself changes nothing."""


@pytest.fixture(scope="module")
def story() -> FileStoreTable:
    """Snapshots 1 to 6, each with one row more."""
    table = memory_table(OPTIONS)
    writer = TableWriter(table)
    for number in range(6):
        writer.write([("+I", {"k": number, "v": "old"})])
    return table


def plan_of(table: FileStoreTable) -> RollbackPlan:
    return plan_rollback(table, table.snapshots.snapshot(TARGET))


def roll_back_to(table: FileStoreTable) -> None:
    roll_back(table, plan_of(table), resets_consumers=False)


def expire(table: FileStoreTable, keep: int = 2) -> None:
    expiry = ExpireSnapshots(table)
    expiry.execute(expiry.plan(expire_config(table.options, num_max=keep, num_min=keep)))


def commit_as(user: str, table: FileStoreTable, count: int = 1) -> None:
    writer = TableWriter(table, user=user)
    for number in range(count):
        writer.write([("+I", {"k": 100 + number, "v": user})])


def stops_of(story: FileStoreTable, work: Callable[[FileStoreTable], Any]) -> range:
    actor = Actor(copy_of(story), work)
    actor.finish()
    assert actor.error is None
    return range(len(actor.operations) + 1)


def keys_of(table: FileStoreTable) -> list[int]:
    return sorted(row["k"] for row in read_rows(table))


def commit_and_expire(table: FileStoreTable) -> None:
    commit_as("job", table)
    expire(table)


def test_a_job_commits_and_expires_while_the_table_goes_back(story: FileStoreTable) -> None:
    for stop in stops_of(story, roll_back_to):
        table = copy_of(story)
        rollback = Actor(table, roll_back_to)
        rollback.run_to(stop)
        job = Actor(table, commit_and_expire)
        job.finish()
        rollback.finish()
        assert isinstance(rollback.error, UNREADABLE | UsageError | None), rollback.error
        assert isinstance(job.error, UNREADABLE | UsageError | CheckpointError | None), job.error
        assert table.snapshots.ids()
        if rollback.error is None:
            assert keys_of(table) in ([0, 1, 2], [0, 1, 2, 100])
        else:
            assert set(keys_of(table)) >= {0, 1, 2}
        commit_as("another", table)
        expire(table, 1)
        assert findings_of(table) == []


def test_the_numbers_are_taken_again_while_a_committer_is_held_up(story: FileStoreTable) -> None:
    """The snapshot before its own exists, and is a different one."""

    def work(table: FileStoreTable) -> None:
        commit_as("held", table)

    for stop in stops_of(story, work):
        table = copy_of(story)
        committer = Actor(table, work)
        committer.run_to(stop)
        roll_back_to(table)
        commit_as("new", table, 3)
        keys_before = keys_of(table)
        committer.finish()
        assert isinstance(
            committer.error, UNREADABLE | CheckpointError | CommitConflictError | None
        ), committer.error
        assert findings_of(table) == []
        # He was done before the table went back, or comes behind the others, or not at all.
        assert set(keys_of(table)) == set(keys_before)
        commit_as("newer", table)


def test_a_slow_expiry_deletes_nothing_that_came_after_it_was_finished(
    story: FileStoreTable,
) -> None:
    """Another expiry has done its work; then a rollback restores a version that had expired."""
    story = copy_of(story)
    create_tag(story, new_tag(story, "keep", 2))
    whole = Actor(copy_of(story), expire)
    whole.finish()
    for stop, operation in enumerate(whole.operations):
        if operation == "delete":
            continue  # no file system deletes on condition
        table = copy_of(story)
        slow = Actor(table, expire)
        slow.run_to(stop)
        expire(table)
        try:
            tagged_snapshot = table.tags.tags()[0].snapshot
            roll_back(table, plan_rollback(table, tagged_snapshot), resets_consumers=False)
        except UsageError:
            continue
        commit_as("new", table, 2)
        slow.finish()
        assert isinstance(slow.error, UNREADABLE | UsageError | None), slow.error
        assert keys_of(table) == [0, 1, 100, 101]


def test_a_refused_rollback_leaves_the_announcement_of_another(story: FileStoreTable) -> None:
    table = copy_of(story)
    plan = plan_of(table)
    create_tag(table, new_tag(table, "since the plan", 5))
    announcements = table.rollback_announcements
    living = Actor(table, roll_back_to)
    for stop in stops_of(table, roll_back_to):
        living.run_to(stop)
        if announced_expiries := announcements.announcements():
            break
    with pytest.raises(UsageError, match="snapshots, tags or changelogs have changed"):
        roll_back(table, plan, resets_consumers=False)
    assert announcements.announcements() == announced_expiries
    living.finish()
    assert living.error is None


@pytest.mark.parametrize("work", [roll_back_to, expire])
def test_a_rollback_interrupted_before_its_deletions_withdraws_its_announcement(
    story: FileStoreTable, work: Callable[[FileStoreTable], None]
) -> None:
    table = copy_of(story)
    operations: list[str] = []

    def interrupted(operation: str) -> None:
        """Interrupt the operation that follows the announcement, once."""
        operations.append(operation)
        if operations[-2:-1] == ["create_if_absent"] and operations.count("create_if_absent") == 1:
            raise KeyboardInterrupt

    files: Any = GatedFileIO(table.file_io, interrupted)
    with pytest.raises(KeyboardInterrupt):
        work(replace(table, file_io=files))
    assert not any(operation.startswith("delete") for operation in operations[:-1])
    assert table.rollback_announcements.announcements() == {}
    assert table.expiry_announcements.announcements() == {}
    assert create_tag(table, new_tag(table, "newest", 6))


def test_an_announcement_whose_end_is_damaged_holds(story: FileStoreTable) -> None:
    """The announcement keeps tags off half-deleted versions, and stops nothing else."""
    table = copy_of(story)
    dead = Actor(table, expire)
    for stop in stops_of(story, expire):
        dead.run_to(stop)
        if table.expiry_announcements.announcements():
            break
    dead.kill()
    [announced_expiry] = table.expiry_announcements.announcements().values()
    table.file_io.overwrite(f"{table.location}/snapshot/snapshot-{announced_expiry.end}", b"{")
    with pytest.raises(UsageError, match="was expiring while it got"):
        create_tag(table, new_tag(table, "half gone", announced_expiry.end - 1))
    assert create_tag(table, new_tag(table, "newest", 6))
    with pytest.raises(CorruptFileError, match="delete it: the next expiry skips the version"):
        expire(table, 1)
    table.snapshots.delete(announced_expiry.end)
    expire(table, 1)
    assert table.snapshots.ids() == [6]
    assert table.expiry_announcements.announcements() == {}
