"""A follower that begins during an expiry is refused, or gets every change.

An expiry and the follower are stopped before each of their file operations in turn, and the other
one goes on; or the expiry dies there. Tags have the same story: `test_tag_beside_expiry`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from stream_app.errors import UsageError
from stream_app.planning.read.stream_start import StartMode, StreamStart
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.changelog_follow import (
    ChangelogFollow,
    FollowSettings,
    changelog_batches,
)
from stream_app.table.follow.stream_read import StreamRead
from tests.support.files.file_operation_turns import Actor, DeadError
from tests.support.tables.memory_table import copy_of
from tests.support.tables.unchanging_table import expire_to, versioned_table


def follow(table: FileStoreTable) -> dict[int, list[dict[str, Any]]]:
    """All changes from the first snapshot that is there, by snapshot."""
    start = StreamStart(mode=StartMode.FROM_SNAPSHOT, snapshot_id=1)
    following = ChangelogFollow(StreamRead(table), FollowSettings(start=start, consumer_id="c"))
    changes: dict[int, list[dict[str, Any]]] = {}
    for batch in changelog_batches(following):
        changes.setdefault(batch.snapshot_id, []).extend(batch.rows.to_pylist())
    return changes


@dataclass(frozen=True)
class Story:
    """A table with some versions, of which all but two are to go, and all of its changes."""

    table: FileStoreTable
    changes: dict[int, list[dict[str, Any]]]

    def again(self) -> FileStoreTable:
        """The table as it was, to be changed."""
        return copy_of(self.table)


@pytest.fixture(scope="module")
def story() -> Story:
    table = versioned_table(changelog_producer="input")
    whole = follow(table)
    table.consumers.delete("c")
    return Story(table, whole)


def outcome_of(table: FileStoreTable, story: Story, expirer: Actor, follower: Actor) -> str:
    """Check the table, and return the outcomes of the expiry and of the follower."""
    for actor in (expirer, follower):
        assert actor.error is None or isinstance(actor.error, UsageError | DeadError), actor.error
    if follower.error is None:
        changes = follower.result
        assert changes == {n: rows for n, rows in story.changes.items() if n >= min(changes)}
    else:
        assert table.consumers.consumers() == []
    table.consumers.delete("c")
    expire_to(table)
    assert len(table.snapshots.ids()) == 2
    remaining_changes = follow(table)
    assert remaining_changes == {
        n: rows for n, rows in story.changes.items() if n in remaining_changes
    }
    follower_word = "followed" if follower.error is None else "refused"
    return f"{follower_word}, {'expired' if expirer.error is None else 'not expired'}"


@pytest.mark.variant
def test_a_follower_beside_an_expiry_gets_every_change_or_is_refused(story: Story) -> None:
    actors = [Actor(story.again(), work) for work in (expire_to, follow)]
    for actor in actors:
        actor.finish()
    outcome_counts: Counter[str] = Counter()
    for first in (0, 1):
        for stop in range(len(actors[first].operations) + 1):
            # A follower records its start within its first twenty operations.
            for other_stop in (stop % 20, 16, None) if first == 0 else [None]:
                table = story.again()
                running = Actor(table, expire_to), Actor(table, follow)
                running[first].run_to(stop)
                running[1 - first].run_to(other_stop)
                running[first].finish()
                running[1 - first].finish()
                outcome_counts[outcome_of(table, story, *running)] += 1
    assert outcome_counts.keys() >= {
        "followed, expired",
        "followed, not expired",
        "refused, expired",
    }


def test_a_follower_beside_a_killed_expiry_gets_every_change_or_is_refused(story: Story) -> None:
    alone = Actor(story.again(), expire_to)
    alone.finish()
    outcome_counts: Counter[str] = Counter()
    for stop in range(len(alone.operations)):
        table = story.again()
        expirer, follower = Actor(table, expire_to), Actor(table, follow)
        expirer.run_to(stop)
        expirer.kill()
        follower.finish()
        outcome_counts[outcome_of(table, story, expirer, follower)] += 1
    assert outcome_counts.keys() == {"followed, not expired", "refused, not expired"}
