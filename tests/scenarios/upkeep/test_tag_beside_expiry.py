"""A tag of a version that expires meanwhile is refused, or is readable whole.

An expiry and the tagger are stopped before each of their file operations in turn, and
the other one goes on; or they die there. Afterwards the next expiry works, and nothing is left.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stream_app.errors import CorruptFileError, UsageError
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.rollback import plan_rollback
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.files.file_operation_turns import Actor, DeadError
from tests.support.jobs.table_writer import TableWriter
from tests.support.suite.strides import Strides
from tests.support.tables.expiring_table import rows_of, versions
from tests.support.tables.unchanging_table import Story, expire_to, story_of, versioned_table

GOING, STAYING = 3, 2
"""The version that gets the tag, and how many are kept at first."""


@pytest.fixture(scope="module")
def story() -> Story:
    return story_of(versioned_table())


def give_tag(table: FileStoreTable) -> bool:
    return create_tag(table, new_tag(table, "t", GOING))


def outcome_of(table: FileStoreTable, story: Story, expirer: Actor, tagger: Actor) -> str:
    """Check the table, and return the outcomes of the expiry and of the tag."""
    for error in (expirer.error, tagger.error):
        assert error is None or isinstance(error, UsageError | DeadError), repr(error)
    has_tag = table.tags.tag("t") is not None
    if tagger.error is None:
        assert tagger.result is True
        assert has_tag
    elif isinstance(tagger.error, UsageError):
        assert not has_tag
    if has_tag and not isinstance(tagger.error, DeadError):
        assert rows_of(table, versions(table)["t"]) == story.rows[str(GOING)]
    expire_to(table, keep=1)
    assert len(table.snapshots.ids()) == 1
    for name, snapshot in versions(table).items():
        assert rows_of(table, snapshot) == story.rows[str(GOING) if name == "t" else name]
    assert table.expiry_announcements.announcements() == {}
    refusal_word = "died" if isinstance(tagger.error, DeadError) else "refused"
    tagger_word = "tagged" if tagger.error is None else refusal_word
    return f"{tagger_word}, {'expired' if expirer.error is None else 'not expired'}"


def operations_of(story: Story, work: Any) -> list[str]:
    actor = Actor(story.again(), work)
    actor.finish()
    assert actor.error is None
    return actor.operations


def test_a_tag_beside_an_expiry_is_refused_or_reads_whole(story: Story, strides: Strides) -> None:
    """An actor runs to an operation, the other to one of its own, then the first to its end."""
    places = len(operations_of(story, expire_to)), len(operations_of(story, give_tag))
    assert places[0] > 40
    outcome_counts: Counter[str] = Counter()
    for first in (0, 1):
        for stop in filter(strides.has, range(places[first] + 1)):
            for other_stop in range(places[1 - first] + 1) if first == 0 else [None]:
                table = story.again()
                actors = Actor(table, expire_to), Actor(table, give_tag)
                actors[first].run_to(stop)
                actors[1 - first].run_to(other_stop)
                actors[first].finish()
                actors[1 - first].finish()
                outcome_counts[outcome_of(table, story, *actors)] += 1
    # At worst both give way; mostly one does, or none has to.
    assert outcome_counts.keys() == {
        "tagged, expired", "tagged, not expired", "refused, expired", "refused, not expired"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("victim", "outcomes"),
    [
        ("the expiry", {"tagged, not expired", "refused, not expired"}),
        ("the tagger", {"died, expired", "died, not expired"}),
        ("both", {"died, not expired"}),
    ],
)
def test_a_tag_is_refused_or_reads_whole_when_it_or_the_expiry_is_killed(
    story: Story, victim: str, outcomes: set[str], strides: Strides
) -> None:
    places = len(operations_of(story, expire_to)), len(operations_of(story, give_tag))
    outcome_counts: Counter[str] = Counter()
    for stop in filter(strides.has, range(places[0])):
        for other_stop in range(places[1]) if victim != "the expiry" else [None]:
            table = story.again()
            expirer, tagger = Actor(table, expire_to), Actor(table, give_tag)
            expirer.run_to(stop)
            if victim == "the expiry":
                expirer.kill()
            tagger.run_to(other_stop)
            if victim != "the expiry":
                tagger.kill()
            if victim == "both":
                expirer.kill()
            expirer.finish()
            tagger.finish()
            outcome_counts[outcome_of(table, story, expirer, tagger)] += 1
    assert outcome_counts.keys() == outcomes


def test_create_tag_dies_during_an_expiry_that_dies_later(story: Story) -> None:
    """The next expiry finds a tag that holds nothing, whatever is left of what was announced."""
    whole = operations_of(story, expire_to)
    first_delete = whole.index("delete")
    tag_is_given = operations_of(story, give_tag).index("create_if_absent") + 1
    for stop in range(first_delete, len(whole)):
        table = story.again()
        expirer, tagger = Actor(table, expire_to), Actor(table, give_tag)
        expirer.run_to(first_delete)
        tagger.run_to(tag_is_given)
        tagger.kill()
        expirer.run_to(stop)
        expirer.kill()
        assert outcome_of(table, story, expirer, tagger) == "died, not expired"


def stopped_expiry(table: FileStoreTable) -> None:
    """Run an expiry that dies after it has deleted the first data file."""
    files = len(data_files(table))
    expirer, operation = Actor(table, expire_to), 0
    while len(data_files(table)) == files:
        operation += 1
        expirer.run_to(operation)
    expirer.kill()


def data_files(table: FileStoreTable) -> list[str]:
    return table.file_io.list_names(f"{table.location}/bucket-0")


def test_a_half_expired_version_is_neither_tagged_nor_rolled_back_to(
    story: Story,
) -> None:
    table = story.again()
    stopped_expiry(table)
    with pytest.raises(UsageError, match="snapshot 3 was expiring while it got the tag"):
        give_tag(table)
    with pytest.raises(UsageError, match="snapshots 1 to 4 are expiring"):
        plan_rollback(table, table.snapshots.snapshot(GOING))
    latest = create_tag(table, new_tag(table, "newest"))
    assert latest
    expire_to(table)
    assert table.expiry_announcements.announcements() == {}


def test_an_unreadable_announcement_stops_tags_and_expiry(story: Story) -> None:
    table = story.again()
    table.file_io.overwrite(f"{table.location}/tag/expiring-x", b"{")
    for attempt in (give_tag, expire_to):
        with pytest.raises(CorruptFileError, match="cannot read a tag/expiring file"):
            attempt(table)
    assert table.tags.names() == []
    assert versions(table).keys() == story.rows.keys()


def test_numbers_that_come_again_after_a_rollback_can_be_tagged(story: Story) -> None:
    """Another engine rolled back, so the announcement names other versions with these numbers."""
    table = story.again()
    create_tag(table, new_tag(table, "old", 1))
    stopped_expiry(table)
    table.snapshots.delete_latest_hint()
    for number in table.snapshots.ids()[:0:-1]:
        table.snapshots.delete(number)
    assert table.expiry_announcements.announcements() != {}
    writer = TableWriter(table, user="another")
    for number in range(5):
        writer.write([("+I", {"k": number, "v": "new"})])
    assert give_tag(table)
    rows = rows_of(table, table.snapshots.snapshot(GOING))
    writer.write([("+I", {"k": 9, "v": "newer"})])
    expire_to(table)
    assert rows_of(table, versions(table)["t"]) == rows
    assert table.expiry_announcements.announcements() == {}


def test_a_tag_of_another_engine_that_came_too_late_does_not_stop_expiry(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    """The other engine checks only the snapshot, whose files the expiry is deleting."""
    table = story.again()
    tag = new_tag(table, "t", GOING)
    stopped_expiry(table)
    table.tags.create(tag)
    expire_to(table, keep=1)
    assert "the tag t of snapshot 3 was made while an expiry deleted its files" in caplog.text
    assert versions(table).keys() == {str(table.snapshots.latest_id())}


def test_a_name_that_was_given_to_another_version_since_the_plan_is_seen(story: Story) -> None:
    """The command waits for the user's answer meanwhile."""
    table = story.again()
    latest = table.snapshots.latest_id()
    assert latest is not None
    create_tag(table, new_tag(table, "t", latest))
    expiry = ExpireSnapshots(table)
    plan = expiry.plan(expire_config(table.options, num_max=1, num_min=1))
    table.tags.delete("t")
    assert give_tag(table)
    with pytest.raises(UsageError, match="has just got the tag 't': nothing was deleted"):
        expiry.execute(plan)
    assert rows_of(table, versions(table)["t"]) == story.rows[str(GOING)]
    assert table.expiry_announcements.announcements() == {}


def test_the_announcement_of_an_expiry_that_still_runs_stays(story: Story) -> None:
    """Another expiry of fewer versions ends meanwhile, and withdraws only its own announcement."""
    table = story.again()
    expirer = Actor(table, expire_to)
    operation = 0
    while not table.expiry_announcements.announcements():
        operation += 1
        expirer.run_to(operation)
    expiry = ExpireSnapshots(table)
    expiry.execute(expiry.plan(expire_config(table.options, num_max=1, num_min=1, expired_max=1)))
    assert len(table.expiry_announcements.announcements()) == 1
    with pytest.raises(UsageError, match="was expiring"):
        give_tag(table)
    expirer.finish()
    assert expirer.error is None
    assert table.expiry_announcements.announcements() == {}
