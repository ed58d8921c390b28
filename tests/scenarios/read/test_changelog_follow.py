"""A follower gets each change once, ends at its bound, and stores its position in a consumer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from stream_app.errors import CheckpointError, UsageError
from stream_app.planning.read.stream_start import stream_start
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.follow.changelog_follow import (
    ChangelogBatch,
    ChangelogFollow,
    FollowSettings,
    changelog_batches,
)
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.upkeep.rollback import plan_rollback, roll_back, rollback_target
from stream_app.table.versions.time_travel import Version
from tests.support.tables.small_table import TIME_MS, SmallTable, small_table


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return small_table(tmp_path / "t", "k INT, v STRING", ("k",), changelog_producer="input")


def commit(small: SmallTable, *values: str) -> None:
    for value in values:
        small.commit(("+I", {"k": 1, "v": value}))


def keys_and_values(batches: Iterator[ChangelogBatch]) -> list[tuple[int, str]]:
    return [
        (batch.snapshot_id, row) for batch in batches for row in batch.rows.column("v").to_pylist()
    ]


def expire(small: SmallTable, *numbers: int) -> None:
    folder = Path(small.path) / "snapshot"
    for number in numbers:
        (folder / f"snapshot-{number}").unlink()
    (folder / "EARLIEST").unlink()


def waiting(small: SmallTable, ends_wait: Callable[[int], bool]) -> Iterator[ChangelogBatch]:
    """Follows from snapshot 1; `ends_wait` gets the number of the wait, and ends it by true."""
    waits: list[None] = []

    def stopped() -> bool:
        waits.append(None)
        return ends_wait(len(waits))

    settings = FollowSettings(start=stream_start("from-snapshot", snapshot_id=1), follows=True)
    return changelog_batches(ChangelogFollow(StreamRead(small.table), settings, stopped))


def test_a_changelog_has_the_snapshots_between_its_bounds(small: SmallTable) -> None:
    table = PaimonTable(small.table)
    assert keys_and_values(table.changelog()) == []
    commit(small, "a", "b", "c")
    assert keys_and_values(table.changelog(snapshot=1)) == [(1, "a"), (2, "b"), (3, "c")]
    assert keys_and_values(table.changelog(snapshot=2)) == [(2, "b"), (3, "c")]
    assert keys_and_values(table.changelog(snapshot=1, end=2)) == [(1, "a"), (2, "b")]
    assert keys_and_values(table.changelog(snapshot=2, end=3, follow=True)) == [(2, "b"), (3, "c")]
    assert keys_and_values(table.changelog(snapshot=4)) == []
    assert keys_and_values(table.changelog()) == [(3, "c")], "all rows first, by default"


def test_a_batch_names_its_snapshot(small: SmallTable) -> None:
    commit(small, "a")
    small.commit(("-U", {"k": 1, "v": "a"}), ("+U", {"k": 1, "v": "b"}))
    full, changes = PaimonTable(small.table).changelog(
        start="from-snapshot-full", snapshot=1, columns=["v"]
    )
    assert (full.is_full, full.snapshot_id) == (True, 1)
    assert full.rows.to_pylist() == [{"rowkind": "+I", "v": "a"}]
    assert (changes.is_full, changes.snapshot_id) == (False, 2)
    assert changes.rows.to_pylist() == [
        {"rowkind": "-U", "v": "a"},
        {"rowkind": "+U", "v": "b"},
    ]
    assert TIME_MS < full.commit_time_ms < changes.commit_time_ms


def test_what_comes_after_the_call_is_not_missed(small: SmallTable) -> None:
    """The follower returns rows that a writer commits before the first batch is read."""
    commit(small, "a")
    changes = PaimonTable(small.table).changelog(start="latest", follow=True)
    commit(small, "b", "c")
    assert keys_and_values(islice(changes, 2)) == [(2, "b"), (3, "c")]


def test_a_follower_gets_later_changes_and_stops_on_request(small: SmallTable) -> None:
    def ends_wait(number: int) -> bool:
        if number == 1:
            commit(small, "b")
        return number > 2

    commit(small, "a")
    assert keys_and_values(waiting(small, ends_wait)) == [(1, "a"), (2, "b")]


def test_a_follower_that_fell_behind_gets_an_error(small: SmallTable) -> None:
    """The follower must not wait for a snapshot that never comes."""
    commit(small, "a", "b", "c")
    changes = PaimonTable(small.table).changelog(snapshot=1, follow=True)
    assert keys_and_values(islice(changes, 1)) == [(1, "a")]
    expire(small, 1, 2)
    with pytest.raises(UsageError, match="snapshot 2 has expired"):
        next(changes)


def test_a_follower_gets_an_error_for_a_missing_snapshot(small: SmallTable) -> None:
    """An interrupted rollback can leave such a gap, and a follower must not wait forever."""
    commit(small, "a", "b", "c")
    small.table.snapshots.delete(2)
    changes = PaimonTable(small.table).changelog(snapshot=1, follow=True)
    assert keys_and_values(islice(changes, 1)) == [(1, "a")]
    with pytest.raises(UsageError, match="snapshot 2 is missing among those from 1 to 3"):
        next(changes)


def test_a_follower_of_a_table_that_was_rolled_back_gets_an_error(small: SmallTable) -> None:
    commit(small, "a", "b", "c")
    changes = PaimonTable(small.table).changelog(snapshot=3, follow=True)
    next(changes)
    for number in (2, 3):
        (Path(small.path) / "snapshot" / f"snapshot-{number}").unlink()
    (Path(small.path) / "snapshot" / "LATEST").unlink()
    with pytest.raises(UsageError, match="snapshot 4 is ahead of the table"):
        next(changes)


def test_a_consumer_goes_on_behind_what_was_taken(small: SmallTable) -> None:
    table, consumers = PaimonTable(small.table), small.table.consumers
    commit(small, "a", "b", "c")
    changes = table.changelog(snapshot=1, consumer_id="search")
    next(changes)
    assert consumers.next_snapshot_id("search") == 1, "expiry leaves what is being worked on"
    next(changes)
    assert consumers.next_snapshot_id("search") == 2
    changes.close()
    assert consumers.next_snapshot_id("search") == 2, "the second one may have been lost"
    assert keys_and_values(table.changelog(start="latest", consumer_id="search")) == [
        (2, "b"),
        (3, "c"),
    ]
    assert consumers.next_snapshot_id("search") == 4
    assert keys_and_values(table.changelog(consumer_id="search")) == []
    again = table.changelog(snapshot=3, consumer_id="search", ignore_progress=True)
    assert keys_and_values(again) == [(3, "c")]


def test_rows_that_are_read_first_count_when_all_are_taken(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), bucket=2)
    small.commit(*(("+I", {"k": k, "v": str(k)}) for k in range(9)))
    table, consumers = PaimonTable(small.table), small.table.consumers
    changes = table.changelog(consumer_id="c")
    assert next(changes).is_full
    changes.close()
    assert consumers.next_snapshot_id("c") is None, "else the other rows would never come"
    assert len(keys_and_values(table.changelog(consumer_id="c"))) == 9
    assert consumers.next_snapshot_id("c") == 2


def test_snapshots_without_changes_are_progress_as_well(tmp_path: Path) -> None:
    small = small_table(
        tmp_path / "t", "k INT, v STRING", ("k",), num_sorted_run__compaction_trigger=2
    )
    commit(small, "a", "b")
    small.compact()
    assert small.table.snapshots.latest_id() == 3
    assert (
        len(keys_and_values(PaimonTable(small.table).changelog(snapshot=1, consumer_id="c"))) == 2
    )
    assert small.table.consumers.next_snapshot_id("c") == 4


def test_a_consumer_behind_an_expiry_gets_an_error_with_what_is_left(small: SmallTable) -> None:
    commit(small, "a", "b", "c")
    small.table.consumers.reset("search", 1)
    expire(small, 1, 2)
    table = PaimonTable(small.table)
    with pytest.raises(UsageError, match="the first that it can still read is 3") as caught:
        table.changelog(consumer_id="search")
    assert "'search' continues at snapshot 1" in caught.value.problem
    assert "--ignore-progress" in caught.value.fix
    assert keys_and_values(table.changelog(consumer_id="search", ignore_progress=True)) == [
        (3, "c")
    ]


def test_the_tables_options_name_the_consumer(tmp_path: Path) -> None:
    small = small_table(
        tmp_path / "t", "k INT, v STRING", ("k",), consumer_id="mine", scan__snapshot_id=2
    )
    commit(small, "a", "b")
    assert keys_and_values(PaimonTable(small.table).changelog()) == [(2, "b")]
    assert small.table.consumers.next_snapshot_id("mine") == 3


def test_an_idle_consumer_says_that_it_is_still_there(tmp_path: Path) -> None:
    small = small_table(
        tmp_path / "t", "k INT, v STRING", ("k",), consumer__expiration_time="1 min"
    )
    commit(small, "a")
    file = Path(small.path) / "consumer" / "consumer-c"
    how = FollowSettings(
        start=stream_start("latest"), follows=True, consumer_id="c", poll_seconds=25
    )
    times: list[float] = []

    def stopped() -> bool:
        times.append(file.stat().st_mtime)
        os.utime(file, (0, 0))
        return len(times) == 3

    assert (
        keys_and_values(changelog_batches(ChangelogFollow(StreamRead(small.table), how, stopped)))
        == []
    )
    assert all(times), "written again in each round of 25 s, of the minute that it has"


def test_the_consumers_of_a_table_are_a_system_table(small: SmallTable) -> None:
    small.table.consumers.reset("b", 7)
    small.table.consumers.reset("a", 2)
    assert PaimonTable(small.table).system("consumers").to_pylist() == [
        {"consumer_id": "a", "next_snapshot_id": 2},
        {"consumer_id": "b", "next_snapshot_id": 7},
    ]


@pytest.mark.parametrize("snapshots", [2, 3, 5], ids=["shorter", "as long", "longer"])
def test_a_table_that_was_rolled_back_and_written_again_is_found_out(
    small: SmallTable, snapshots: int
) -> None:
    commit(small, "a", "b", "c")

    def roll_back_to(wait: int) -> bool:
        target = rollback_target(small.table, Version(snapshot=1))
        roll_back(small.table, plan_rollback(small.table, target), resets_consumers=False)
        commit(SmallTable(small.table), *"xyzuv"[: snapshots - 1])
        return wait > 1

    following = waiting(small, roll_back_to)
    assert keys_and_values(islice(following, 3)) == [(1, "a"), (2, "b"), (3, "c")]
    if snapshots == 2:
        with pytest.raises(UsageError, match="snapshot 4 is ahead"):
            next(following)
    else:
        with pytest.raises(CheckpointError, match="rolled back, and written again") as error:
            next(following)
        assert "latest-full" in error.value.fix


def test_a_rollback_behind_which_nothing_was_read_does_no_harm(small: SmallTable) -> None:
    commit(small, "a", "b", "c")
    following = waiting(small, lambda wait: wait > 1)
    assert keys_and_values(islice(following, 1)) == [(1, "a")]
    target = rollback_target(small.table, Version(snapshot=1))
    roll_back(small.table, plan_rollback(small.table, target), resets_consumers=False)
    commit(SmallTable(small.table), "x")
    assert keys_and_values(following) == [(2, "x")]
