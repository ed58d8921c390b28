"""The policy equals Paimon's own, which the text tests explain."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.mergetree.compact.compact_strategy import PickTime
from stream_app.mergetree.compact.universal_compaction import (
    UniversalCompaction,
    full_compaction_unit,
)
from stream_app.mergetree.sorted_run import LevelSortedRun, SortedRun
from tests.support.tables.lsm_files import a_file

PICKS = Path(__file__).parents[3] / "fixtures" / "mergetree" / "universal_picks.txt"


def runs_of(text: str) -> tuple[LevelSortedRun, ...]:
    """Runs as ``level:size`` in order of age, newest first."""
    pairs = [tuple(int(number) for number in part.split(":")) for part in text.split()]
    return tuple(
        LevelSortedRun(level, SortedRun((a_file(f"f{i}", level=level, file_size=size),)))
        for i, (level, size) in enumerate(pairs)
    )


def test_picks_are_those_of_java() -> None:
    different = []
    for line in PICKS.read_text().splitlines():
        settings, runs, expected = line.split(";")
        amplification, ratio, trigger, levels = (int(number) for number in settings.split())
        policy = UniversalCompaction(
            max_size_amplification_percent=amplification,
            size_ratio=ratio,
            run_count_trigger=trigger,
        )
        unit = policy.pick(levels, runs_of(runs), PickTime())
        ours = "-" if unit is None else f"{len(unit.files)} {unit.output_level}"
        if ours != expected.strip():
            different.append(f"{line}, ours: {ours}")
    assert not different


def test_an_empty_bucket_is_left_alone() -> None:
    assert UniversalCompaction(run_count_trigger=1).pick(6, (), PickTime()) is None
    assert full_compaction_unit(6, ()) is None


@pytest.mark.parametrize("beyond", [0, 1, 2])
def test_size_ratio_is_exact_for_huge_runs(beyond: int) -> None:
    # 100 and 101 times 2^60: a double would round the last bits away.
    size = 100 << 60
    runs = runs_of(f"0:{size} 1:{size // 100 * 101 + beyond} 2:{size << 20}")
    unit = UniversalCompaction(run_count_trigger=3).pick(3, runs, PickTime())
    assert (unit is not None) == (beyond == 0)
