"""Spilled runs come back unchanged, and many of them become few."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from stream_app.mergetree.key_value_batch import rows_at
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.mergetree.spilled_runs import RUNS_MAX, SpilledRuns
from tests.support.tables.lsm_files import a_layout

LAYOUT = a_layout("k INT NOT NULL", "k")


def runs_in(folder: Path, bytes_max: int | None = None) -> SpilledRuns:
    return SpilledRuns(
        layout=LAYOUT,
        piece_size=100,
        merge=lambda window: rows_at(window.batch, window.order),
        bytes_max=bytes_max,
        parent=str(folder),
    )


def a_run(number: int) -> pa.RecordBatch:
    rows = [{"_SEQUENCE_NUMBER": number, "_VALUE_KIND": 0, "k": k} for k in range(number, 60, 7)]
    return pa.RecordBatch.from_pylist(rows, schema=LAYOUT.schema)


def test_runs_that_were_merged_once_wait_for_others_of_their_size(tmp_path: Path) -> None:
    spilled_runs = runs_in(tmp_path)
    counts = []
    for number in range(2 * RUNS_MAX):
        spilled_runs.add([iter([a_run(number)])])
        counts.append(spilled_runs.count)
    # Eight become one; the next seven become one beside it, and so on.
    first = [*range(1, RUNS_MAX), 1]
    second = [*range(2, RUNS_MAX), 2]
    third = [*range(3, RUNS_MAX), 3]
    assert counts == [*first, *second, *third][: 2 * RUNS_MAX]
    assert spilled_runs.count == len(list(tmp_path.glob("*/*")))
    spilled_runs.close()


def test_the_rows_are_all_there_however_often_they_were_merged(tmp_path: Path) -> None:
    spilled_runs = runs_in(tmp_path)
    expected = []
    for number in range(5 * RUNS_MAX):
        run = a_run(number % 7)
        expected += run.column("k").to_pylist()
        spilled_runs.add([iter([run])])
        assert spilled_runs.count < RUNS_MAX
    keys: list[int] = []
    for window in merge_windows(spilled_runs.read(), LAYOUT):
        keys += rows_at(window.batch, window.order).column("k").to_pylist()
    assert keys == sorted(expected)
    spilled_runs.close()
    assert list(tmp_path.iterdir()) == []


def test_room_counts_what_a_merge_writes_anew(tmp_path: Path) -> None:
    spilled_runs = runs_in(tmp_path)
    for number in range(RUNS_MAX - 2):
        spilled_runs.add([iter([a_run(number)])])
    size = spilled_runs.size
    spilled_runs.bytes_max = size + 1_000
    assert spilled_runs.has_room(1_000)
    assert not spilled_runs.has_room(1_001)
    spilled_runs.add([iter([a_run(0)])])
    # The next run makes one of all: for a while both are on disk.
    spilled_runs.bytes_max = 2 * spilled_runs.size + 2_000
    assert spilled_runs.has_room(1_000)
    assert not spilled_runs.has_room(1_001)
    spilled_runs.bytes_max = None
    assert spilled_runs.has_room(10**15)
    spilled_runs.close()
