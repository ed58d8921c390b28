"""Of a rollback and an expiry, or a new tag, that run at once, one gives way.

Both are stopped before each of their file operations in turn, and the other one goes on; or the
rollback dies there. Afterwards every version that is left has its rows, and a rollback that died
can be done once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stream_app.errors import CorruptFileError, UsageError
from stream_app.planning.read.stream_start import StartMode, StreamStart
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.changelog_follow import (
    ChangelogFollow,
    FollowSettings,
    changelog_batches,
)
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.files.file_operation_turns import Actor, DeadError
from tests.support.jobs.table_writer import TableWriter
from tests.support.tables.expiring_table import rows_of, versions
from tests.support.tables.unchanging_table import Story, expire_to, story_of, versioned_table

TARGET, TAGGED = 3, 5
"""Where the table goes back to; a later version, which a tag keeps."""


@pytest.fixture(scope="module")
def story() -> Story:
    table = versioned_table()
    create_tag(table, new_tag(table, "old", TARGET))
    return story_of(table)


def roll_back_to(table: FileStoreTable) -> None:
    plan = plan_rollback(table, table.tags.tags()[0].snapshot)
    roll_back(table, plan, resets_consumers=False)


def give_tag(table: FileStoreTable) -> None:
    assert create_tag(table, new_tag(table, "t", TAGGED))


def operations_of(story: Story, work: Callable[[FileStoreTable], Any]) -> list[str]:
    actor = Actor(story.again(), work)
    actor.finish()
    assert actor.error is None
    return actor.operations


def check(table: FileStoreTable, story: Story) -> None:
    """See that all versions are whole, and none was taken away."""
    latest_id = table.snapshots.latest_id()
    assert latest_id is not None
    for name, snapshot in versions(table).items():
        assert rows_of(table, snapshot) == story.rows[str(snapshot.snapshot_id)], name
        assert snapshot.snapshot_id <= latest_id, name


def outcome_of(table: FileStoreTable, story: Story, *actors: Actor) -> str:
    for actor in actors:
        # What the rollback takes away may be just what the other one reads.
        allowed_errors = UsageError | CorruptFileError
        assert actor.error is None or isinstance(actor.error, allowed_errors), repr(actor.error)
    check(table, story)
    if actors[0].error is None:
        assert table.snapshots.latest_id() == TARGET
        assert table.rollback_announcements.announcements() == {}
    return ", ".join("refused" if actor.error else "done" for actor in actors)


@pytest.mark.parametrize(
    ("other", "outcomes"),
    [
        (expire_to, {"done, done", "done, refused", "refused, done"}),
        (give_tag, {"done, done", "done, refused", "refused, done", "refused, refused"}),
    ],
)
def test_a_rollback_beside_an_expiry_or_a_new_tag_keeps_versions_whole(
    story: Story, other: Callable[[FileStoreTable], Any], outcomes: set[str]
) -> None:
    """One process goes on to an operation, then the other one to its end, then the first."""
    works = (roll_back_to, other)
    outcome_counts: Counter[str] = Counter()
    for first in (0, 1):
        for stop in range(len(operations_of(story, works[first])) + 1):
            table = story.again()
            actors = Actor(table, roll_back_to), Actor(table, other)
            actors[first].run_to(stop)
            actors[1 - first].finish()
            actors[first].finish()
            outcome_counts[outcome_of(table, story, *actors)] += 1
    assert outcome_counts.keys() <= outcomes
    assert {"done, refused", "refused, done"} <= outcome_counts.keys()


@pytest.mark.parametrize("other", [pytest.param(expire_to, marks=pytest.mark.variant), give_tag])
def test_a_killed_rollback_is_finished_or_does_not_stop_others(
    story: Story, other: Callable[[FileStoreTable], Any]
) -> None:
    outcome_counts: Counter[str] = Counter()
    for stop in range(len(operations_of(story, roll_back_to))):
        table = story.again()
        dead, living = Actor(table, roll_back_to), Actor(table, other)
        dead.run_to(stop)
        dead.kill()
        dead.finish()
        assert isinstance(dead.error, DeadError)
        living.finish()
        assert living.error is None or isinstance(living.error, UsageError)
        outcome_counts["refused" if living.error else "done"] += 1
        check(table, story)
        again = Actor(table, roll_back_to)
        again.finish()
        outcome_of(table, story, again)
    assert outcome_counts.keys() == {"refused", "done"}


def test_a_job_that_goes_on_makes_up_for_a_rollback_that_died(story: Story) -> None:
    table = story.again()
    dead = Actor(table, roll_back_to)
    dead.run_to(operations_of(story, roll_back_to).index("delete") + 3)
    dead.kill()
    with pytest.raises(UsageError, match="a rollback to snapshot 3 is running or was interrupted"):
        expire_to(table)
    TableWriter(table, user="another").write([("+I", {"k": 9, "v": "new"})])
    expire_to(table)
    assert table.rollback_announcements.announcements() == {}


def test_a_follower_cannot_begin_at_a_version_that_a_rollback_deletes(story: Story) -> None:
    table = story.again()
    rolling = Actor(table, roll_back_to)
    rolling.run_to(operations_of(story, roll_back_to).index("create_if_absent") + 1)
    start = StreamStart(mode=StartMode.FROM_SNAPSHOT, snapshot_id=TAGGED)
    following = ChangelogFollow(StreamRead(table), FollowSettings(start=start, consumer_id="c"))
    with pytest.raises(UsageError, match="follows one that a rollback deletes"):
        list(changelog_batches(following))
    assert table.consumers.consumers() == []
    rolling.finish()
    assert rolling.error is None
