"""Which snapshots a reader of changes sees, and when it must say that they are gone."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from stream_app.errors import UsageError
from stream_app.table.changelog_read import ChangelogRead
from tests.support.small_table import SmallTable, small_table


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return small_table(tmp_path / "t", "k INT, v STRING", ("k",), changelog_producer="input")


def commit(small: SmallTable, *values: str) -> None:
    for value in values:
        small.commit(("+I", {"k": 1, "v": value}))


def ids(read: ChangelogRead, start: int | None, end: int | None) -> list[int]:
    return [snapshot.snapshot_id for snapshot in read.snapshots(start, end, follow=False)]


def test_bounds(small: SmallTable) -> None:
    read = ChangelogRead(small.table)
    assert ids(read, None, None) == []
    assert ids(read, 1, 3) == []
    commit(small, "a", "b", "c")
    assert ids(read, None, None) == [1, 2, 3]
    assert ids(read, 2, None) == [2, 3]
    assert ids(read, None, 2) == [1, 2]
    assert ids(read, 2, 2) == [2]
    assert ids(read, 3, 99) == [3]
    with pytest.raises(UsageError, match="does not exist yet, the latest is 3"):
        ids(read, 4, None)


def test_a_follower_gets_what_comes_and_stops_when_told(small: SmallTable) -> None:
    commit(small, "a")
    waits = []

    def stopped() -> bool:
        waits.append(None)
        if len(waits) == 1:
            commit(small, "b")
        return len(waits) > 2

    found = ChangelogRead(small.table).snapshots(None, None, follow=True, stopped=stopped)
    assert [snapshot.snapshot_id for snapshot in found] == [1, 2]


def test_a_follower_ends_at_the_snapshot_that_it_was_given(small: SmallTable) -> None:
    commit(small, "a", "b", "c")
    found = ChangelogRead(small.table).snapshots(2, 3, follow=True)
    assert [snapshot.snapshot_id for snapshot in found] == [2, 3]


def expire(small: SmallTable, *numbers: int) -> None:
    folder = Path(small.path) / "snapshot"
    for number in numbers:
        (folder / f"snapshot-{number}").unlink()
    (folder / "EARLIEST").unlink()


def test_an_expired_start_is_an_error_with_the_first_that_is_left(small: SmallTable) -> None:
    commit(small, "a", "b", "c")
    expire(small, 1, 2)
    read = ChangelogRead(small.table)
    assert ids(read, None, None) == [3]
    with pytest.raises(UsageError, match="snapshot 1 has expired") as caught:
        ids(read, 1, None)
    assert "begin with 3" in caught.value.fix


def test_a_follower_that_fell_behind_is_told(small: SmallTable) -> None:
    """Else it would wait for a snapshot that never comes."""
    commit(small, "a", "b", "c")
    found = ChangelogRead(small.table).snapshots(1, None, follow=True)
    assert [snapshot.snapshot_id for snapshot in islice(found, 1)] == [1]
    expire(small, 1, 2)
    with pytest.raises(UsageError, match="snapshot 2 has expired"):
        next(found)


def test_a_follower_of_a_table_that_went_back_is_told(small: SmallTable) -> None:
    commit(small, "a", "b", "c")
    found = ChangelogRead(small.table).snapshots(3, None, follow=True)
    next(found)
    for number in (2, 3):
        (Path(small.path) / "snapshot" / f"snapshot-{number}").unlink()
    (Path(small.path) / "snapshot" / "LATEST").unlink()
    with pytest.raises(UsageError, match="snapshot 4 is ahead of the table"):
        next(found)


def test_without_changelog_files_the_flushed_rows_are_the_changes(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",))
    small.commit(("+I", {"k": 1, "v": "a"}), ("+U", {"k": 1, "v": "b"}))
    small.commit(("-D", {"k": 1, "v": "b"}))
    read = ChangelogRead(small.table)
    found = [
        (snapshot.snapshot_id, row["_VALUE_KIND"], row["v"])
        for snapshot in read.snapshots(None, None, follow=False)
        for batch in read.changes(snapshot)
        for row in batch.to_pylist()
    ]
    assert found == [(1, 2, "b"), (2, 3, "b")]
