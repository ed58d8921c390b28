"""An incremental read returns the changes between two versions, in each scan mode, or an error."""

from __future__ import annotations

import itertools
import math
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.model.snapshot import CommitKind
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")
Kinds = list[tuple[str, int, Any]]


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Snapshots: 1 adds 1, 2, 3; 2 changes 2; 3 deletes 1; 4 compacts; 5 adds 4, changes 2."""
    table = small_table(
        tmp_path / "t", "k INT, v STRING", ("k",), changelog_producer="input",
        num_sorted_run__compaction_trigger=3,
    )  # fmt: skip
    table.commit(*(("+I", {"k": k, "v": "a"}) for k in (1, 2, 3)))
    table.commit(("-U", {"k": 2, "v": "a"}), ("+U", {"k": 2, "v": "b"}))
    table.commit(("-D", {"k": 1, "v": "a"}))
    table.compact()
    table.commit(("+I", {"k": 4, "v": "a"}), ("-U", {"k": 2, "v": "b"}), ("+U", {"k": 2, "v": "c"}))
    assert table.table.snapshots.latest_id() == 5
    return table


def came(table: SmallTable, *between: Any, **options: Any) -> Kinds:
    reader = stream_app.open_table(table.path).read_incremental(
        between or None, row_kind=True, **options
    )
    rows = reader.read_all().to_pylist()
    return sorted((row["rowkind"], row["k"], row["v"]) for row in rows)


@pytest.mark.parametrize(
    ("between", "mode", "expected"),
    [
        ((0, 1), "auto", [("+I", 1, "a"), ("+I", 2, "a"), ("+I", 3, "a")]),
        ((1, 3), "auto", [("+U", 2, "b"), ("-D", 1, "a"), ("-U", 2, "a")]),
        ((1, 3), "changelog", [("+U", 2, "b"), ("-D", 1, "a"), ("-U", 2, "a")]),
        ((1, 3), "delta", [("+U", 2, "b"), ("-D", 1, "a")]),
        ((1, 3), "diff", [("+U", 2, "b"), ("-D", 1, "a")]),
        ((3, 4), "auto", []),
        ((3, 4), "delta", []),
        ((3, 4), "diff", []),
        ((1, 5), "delta", [("+I", 4, "a"), ("+U", 2, "b"), ("+U", 2, "c"), ("-D", 1, "a")]),
        ((1, 5), "diff", [("+I", 4, "a"), ("+U", 2, "c"), ("-D", 1, "a")]),
        ((5, 5), "auto", []),
    ],
)
def test_each_scan_mode_reads_its_changes(
    small: SmallTable, between: tuple[int, int], mode: str, expected: Kinds
) -> None:
    assert came(small, *between, scan_mode=mode) == expected


def test_without_row_kinds_only_added_rows_are_read(small: SmallTable) -> None:
    table = stream_app.open_table(small.path)
    for mode in ("delta", "changelog", "diff"):
        rows = table.read_incremental((1, 3), scan_mode=mode).read_all()
        assert rows.to_pylist() == [{"k": 2, "v": "b"}], mode
    assert table.read_incremental((1, 3), columns=["v"]).read_all().to_pylist() == [{"v": "b"}]
    assert came(small, 1, 5, scan_mode="auto", where="v = 'b'") == [("+U", 2, "b"), ("-U", 2, "b")]
    assert came(small, 1, 5, scan_mode="diff", where="k > 3") == [("+I", 4, "a")]


def test_times_read_the_changes_between_their_snapshots(small: SmallTable) -> None:
    """The read includes snapshots after the first time, up to the last one."""
    snapshots = small.table.snapshots
    index = {number: snapshots.snapshot(number).time_ms for number in range(1, 6)}
    for first, last in itertools.combinations(range(1, 6), 2):
        for mode in ("delta", "changelog", "diff"):
            expected = came(small, first, last, scan_mode=mode)
            times = (index[first], index[last])
            assert came(small, between_timestamps=times, scan_mode=mode) == expected
    before = index[1] - 1
    for mode in ("delta", "diff"):
        assert came(small, between_timestamps=(before, index[1]), scan_mode=mode) == [
            ("+I", 1, "a"), ("+I", 2, "a"), ("+I", 3, "a"),
        ]  # fmt: skip
    assert came(small, between_timestamps=(before - 9, before)) == []
    assert came(small, between_timestamps=(index[5] + 1, index[5] + 9)) == []


def test_between_tags_also_of_expired_snapshots(small: SmallTable) -> None:
    root = Path(small.path)
    (root / "tag").mkdir()
    for name, number in (("first", 1), ("last", 5)):
        shutil.copy(root / f"snapshot/snapshot-{number}", root / f"tag/tag-{name}")
    expected = came(small, 1, 5, scan_mode="diff")
    assert came(small, "first", "last") == expected
    assert came(small, "first", "last", scan_mode="delta") == came(small, 1, 5, scan_mode="delta")
    for number in (1, 2):
        (root / f"snapshot/snapshot-{number}").unlink()
    (root / "snapshot/EARLIEST").write_text("3")
    assert came(small, "first", "last") == expected
    with pytest.raises(UsageError, match="the read needs snapshots 2 to 5, the table has 3 to 5"):
        came(small, "first", "last", scan_mode="delta")
    assert came(small, 2, 3, scan_mode="delta") == [("-D", 1, "a")]


def test_a_table_without_a_changelog_has_deltas(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",))
    small.commit(("+I", {"k": 1, "v": "a"}))
    small.commit(("-U", {"k": 1, "v": "a"}), ("+U", {"k": 1, "v": "b"}))
    assert came(small, 1, 2) == [("+U", 1, "b")]
    with pytest.raises(UsageError, match="the table has none"):
        came(small, 1, 2, scan_mode="changelog")


def test_an_append_table_has_deltas_and_no_differences(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING")
    small.commit(("+I", {"k": 1, "v": "a"}))
    small.commit(("+I", {"k": 2, "v": "b"}), ("+I", {"k": 2, "v": "b"}))
    assert came(small, 1, 2) == [("+I", 2, "b")] * 2
    with pytest.raises(UnsupportedTableError, match="without a primary key cannot be compared"):
        came(small, 1, 2, scan_mode="diff")


def test_wrong_ranges_are_refused(small: SmallTable) -> None:
    for between, options, problem in (
        ((3, 1), {}, "the range ends with snapshot 1, before it begins with 3"),
        ((1, 9), {}, "the read needs snapshots 2 to 9, the table has 1 to 5"),
        ((1, 9), {"scan_mode": "diff"}, "snapshot 9 does not exist"),
        (("x", "y"), {}, "unknown tag 'x'"),
        ((1, 2), {"scan_mode": "dif"}, "unknown scan mode 'dif'; did you mean 'diff'?"),
        ((), {}, "needs a range"),
        ((1, 2), {"between_timestamps": (1, 2)}, "needs a range"),
        ((), {"between_timestamps": (2, 1)}, "the range ends (1) before it begins (2)"),
    ):
        with pytest.raises(UsageError) as caught:
            came(small, *between, **options)
        assert problem in caught.value.problem
        assert caught.value.fix


def test_a_snapshot_that_is_gone_amid_a_range_is_reported(small: SmallTable) -> None:
    """The snapshot may expire after the reader has planned the range."""
    small.table.snapshots.delete(3)
    with pytest.raises(UsageError, match="snapshot 3 does not exist"):
        came(small, 1, 5, scan_mode="delta")


@pytest.mark.parametrize("vectors", ["false", pytest.param("true", marks=pytest.mark.variant)])
def test_differences_of_random_versions(tmp_path: Path, seed: int, vectors: str) -> None:
    """The old version with the differences is the new one; NaN and null are not differences."""
    noise = random.Random(seed)
    small = small_table(
        tmp_path / "t", "p STRING, k INT, v DOUBLE, w STRING", ("p", "k"), ("p",), bucket=2,
        num_sorted_run__compaction_trigger=3, deletion_vectors__enabled=vectors,
    )  # fmt: skip
    for epoch in range(10):
        small.commit(*(
            (
                noise.choice(["+I", "+U", "-D"]),
                {"p": noise.choice("xy"), "k": noise.randrange(20),
                 "v": noise.choice([None, math.nan, 1.0, 0.0, -0.0]), "w": noise.choice("ab")},
            )
            for _ in range(noise.randrange(12))
        ))  # fmt: skip
        if epoch % 3 == 2:
            small.compact()
    table = stream_app.open_table(small.path)
    latest = small.table.snapshots.latest_id()
    assert latest is not None
    states = {
        snapshot: _state(table.read(snapshot=snapshot).read_all().to_pylist())
        for snapshot in range(1, latest + 1)
    }
    for start, end in itertools.combinations(states, 2):
        state = dict(states[start])
        rows = table.read_incremental((start, end), scan_mode="diff", row_kind=True).read_all()
        for row in rows.to_pylist():
            kind, key = row.pop("rowkind"), (row["p"], row["k"])
            if kind == "-D":
                state.pop(key, None)
            else:
                state[key] = repr(row)
        assert state == states[end], (start, end)
        kind = small.table.snapshots.snapshot(end).commit_kind
        if end == start + 1 and kind is CommitKind.COMPACT and vectors == "false":
            assert rows.num_rows == 0, "a compaction changes nothing"


def _state(rows: list[dict[str, Any]]) -> dict[tuple[str, int], str]:
    return {(row["p"], row["k"]): repr(row) for row in rows}
