"""A streaming read begins where its options say, reads each snapshot once, and continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.model.files.data_split import StreamSplit
from stream_app.planning.read.stream_start import StartMode, StreamStart, stream_start
from stream_app.planning.read.stream_step import StepLimits, StreamPosition
from stream_app.table.conditions.row_filter import row_filter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.follow.stream_scan import StreamScan, start_of_table
from tests.support.tables.small_table import SmallTable, small_table

ONE = StepLimits(snapshots_max=1)
ReadChange = tuple[int, str, int, str]


def rows_of_splits(
    table: FileStoreTable, splits: list[StreamSplit] | tuple[StreamSplit, ...]
) -> list[ReadChange]:
    """Snapshot, kind, key and value of each row."""
    changes = []
    for stream_split in splits:
        for batch in StreamRead(table).read(stream_split):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            changes += [(stream_split.split.snapshot_id, *row) for row in rows]
    return changes


def all_of(small: SmallTable, start: StreamStart) -> list[ReadChange]:
    scan = StreamScan(small.table)
    return rows_of_splits(small.table, scan.step(scan.begin(start)).splits)


def history(path: Path, **options: Any) -> SmallTable:
    """1 APPEND a b; 2 APPEND b c; 3 COMPACT; 4 APPEND a gone, d."""
    small = small_table(
        path / "t",
        "k INT, v STRING",
        ("k",),
        num_sorted_run__compaction_trigger=2,
        **options,
    )
    small.commit(("+I", {"k": 1, "v": "a"}), ("+I", {"k": 2, "v": "b"}))
    small.commit(("-U", {"k": 2, "v": "b"}), ("+U", {"k": 2, "v": "B"}), ("+I", {"k": 3, "v": "c"}))
    small.compact()
    small.commit(("-D", {"k": 1, "v": "a"}), ("+I", {"k": 4, "v": "d"}))
    kinds = [snapshot.commit_kind.value for snapshot in small.table.snapshots.backwards()][::-1]
    assert kinds == ["APPEND", "APPEND", "COMPACT", "APPEND"]
    return small


FULL_4 = [(4, "+I", 2, "B"), (4, "+I", 3, "c"), (4, "+I", 4, "d")]
FULL_3 = [(3, "+I", 1, "a"), (3, "+I", 2, "B"), (3, "+I", 3, "c")]
CHANGES_1 = [(1, "+I", 1, "a"), (1, "+I", 2, "b")]
CHANGES_2 = [(2, "+U", 2, "B"), (2, "+I", 3, "c")]
CHANGELOG_2 = [(2, "-U", 2, "b"), *CHANGES_2]
CHANGES_4 = [(4, "-D", 1, "a"), (4, "+I", 4, "d")]


def test_each_start_mode_reads_a_version_or_nothing_and_then_changes(tmp_path: Path) -> None:
    small = history(tmp_path)
    times = {
        snapshot.snapshot_id: snapshot.time_ms for snapshot in small.table.snapshots.backwards()
    }
    assert all_of(small, stream_start("default")) == FULL_4
    assert all_of(small, stream_start("latest")) == []
    assert all_of(small, stream_start("compacted-full")) == FULL_3 + CHANGES_4
    assert all_of(small, stream_start("from-snapshot", snapshot_id=2)) == CHANGES_2 + CHANGES_4
    assert all_of(small, stream_start("from-snapshot", snapshot_id=3)) == CHANGES_4
    full_from_3 = stream_start("from-snapshot-full", snapshot_id=3)
    assert all_of(small, full_from_3) == FULL_3 + CHANGES_4
    at_2 = stream_start("from-timestamp", timestamp_ms=times[2])
    assert all_of(small, at_2) == CHANGES_2 + CHANGES_4
    behind_2 = stream_start("from-timestamp", timestamp_ms=times[2] + 1)
    assert all_of(small, behind_2) == CHANGES_4
    assert all_of(small, stream_start("from-timestamp", timestamp_ms=times[4] + 1)) == []
    before_all = stream_start("from-timestamp", timestamp_ms=0)
    assert all_of(small, before_all) == CHANGES_1 + CHANGES_2 + CHANGES_4


def test_a_changelog_has_old_rows_as_well(tmp_path: Path) -> None:
    small = history(tmp_path, changelog_producer="input")
    changes = all_of(small, stream_start("from-snapshot", snapshot_id=1))
    assert changes == CHANGES_1 + CHANGELOG_2 + CHANGES_4


def test_what_comes_later_is_read_by_later_steps(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",))
    scan = StreamScan(small.table)
    position = scan.begin(stream_start("latest-full"))
    step = scan.step(position)
    assert step.splits == ()
    assert step.end == position
    small.commit(("+I", {"k": 1, "v": "a"}))
    small.commit(("+I", {"k": 2, "v": "b"}))
    first = scan.step(step.end, ONE)
    assert rows_of_splits(small.table, first.splits) == [(1, "+I", 1, "a")]
    second = scan.step(first.end, ONE)
    assert rows_of_splits(small.table, second.splits) == [(2, "+I", 2, "b")]
    assert scan.step(second.end).end == second.end


@pytest.mark.parametrize("limits", [StepLimits(files_max=1), StepLimits(rows_max=3), ONE])
def test_steps_of_any_size_read_the_same_and_can_be_planned_again(
    tmp_path: Path, limits: StepLimits
) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), bucket=3)
    for epoch in range(4):
        small.commit(*(("+I", {"k": key, "v": str(epoch)}) for key in range(epoch, epoch + 8)))
    scan = StreamScan(small.table)
    start = scan.begin(stream_start("from-snapshot-full", snapshot_id=2))
    whole = scan.step(start)
    position, splits = start, list[StreamSplit]()
    while (step := scan.step(position, limits)).splits:
        assert scan.splits(step.start, step.end) == list(step.splits)
        splits += step.splits
        position = step.end
    assert splits == list(whole.splits)
    assert position == whole.end == StreamPosition(snapshot_id=5)
    assert scan.splits(start, whole.end) == splits
    assert (
        len(
            {(stream_split.split.snapshot_id, stream_split.split.bucket) for stream_split in splits}
        )
        == 9
    )


def test_a_condition_is_asked_of_every_row(tmp_path: Path) -> None:
    small = history(tmp_path, changelog_producer="input")
    condition = row_filter("v IN ('B', 'c')", small.table.schema)
    scan = StreamScan(small.table, condition)
    read = StreamRead(small.table, ("v",), condition)
    step = scan.step(scan.begin(stream_start("from-snapshot", snapshot_id=1)))
    rows = [
        row
        for stream_split in step.splits
        for batch in read.read(stream_split)
        for row in batch.to_pylist()
    ]
    assert rows == [{"rowkind": "+U", "v": "B"}, {"rowkind": "+I", "v": "c"}]
    assert [stream_split.split.snapshot_id for stream_split in step.splits] == [2, 4], (
        "not the file of snapshot 1"
    )


def test_rows_without_a_key_come_as_they_were_written(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING")
    small.commit(("+I", {"k": 2, "v": "a"}), ("+I", {"k": 1, "v": "b"}))
    small.commit(("+I", {"k": 0, "v": "c"}))
    changes = all_of(small, stream_start("from-snapshot", snapshot_id=0))
    assert changes == [(1, "+I", 2, "a"), (1, "+I", 1, "b"), (2, "+I", 0, "c")]
    full = all_of(small, stream_start("latest-full"))
    assert full == [(2, "+I", 2, "a"), (2, "+I", 1, "b"), (2, "+I", 0, "c")]


def test_an_error_about_an_expired_snapshot_names_the_first_that_is_left(tmp_path: Path) -> None:
    small = history(tmp_path)
    position = StreamPosition(snapshot_id=2)
    for number in (1, 2):
        (Path(small.path) / f"snapshot/snapshot-{number}").unlink()
    (Path(small.path) / "snapshot/EARLIEST").write_text("3")
    scan = StreamScan(small.table)
    with pytest.raises(UsageError, match="snapshot 2 has expired: the table has 3 to 4") as caught:
        scan.step(position)
    assert "begin with 3" in caught.value.fix
    with pytest.raises(UsageError, match="snapshot 2 has expired"):
        scan.splits(position, StreamPosition(snapshot_id=4))
    # A start that was asked for is not a place that was reached: it begins with what is left.
    assert all_of(small, stream_start("from-snapshot", snapshot_id=1)) == CHANGES_4
    with pytest.raises(UsageError, match="ahead of the table, whose latest snapshot is 4"):
        scan.step(StreamPosition(snapshot_id=6))


def test_the_full_version_must_exist(tmp_path: Path) -> None:
    small = history(tmp_path)
    with pytest.raises(UsageError, match="snapshot 5 does not exist yet, the latest is 4"):
        StreamScan(small.table).begin(stream_start("from-snapshot-full", snapshot_id=5))


def test_a_start_stands_in_the_tables_options(tmp_path: Path) -> None:
    small = small_table(
        tmp_path / "t", "k INT", ("k",), scan__timestamp="2026-01-01T00:00:00.5+00:00"
    )
    start = start_of_table(small.table.options)
    assert start.mode is StartMode.FROM_TIMESTAMP
    assert start.timestamp_ms == 1_767_225_600_500


def test_a_table_with_overwrites_in_its_stream_is_not_followed(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT", ("k",), streaming_read_overwrite=True)
    with pytest.raises(UnsupportedTableError, match="streaming-read-overwrite"):
        StreamScan(small.table)


@pytest.mark.parametrize(
    ("mode", "options", "problem"),
    [
        ("from-snapshot", {}, "needs a snapshot"),
        ("latest", {"snapshot_id": 1}, "takes no snapshot"),
        ("from-timestamp", {"timestamp_ms": 1, "snapshot_id": 1}, "takes no snapshot"),
        ("lastest", {}, "did you mean 'latest'"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused(
    mode: str, options: dict[str, int], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        stream_start(mode, **options)
