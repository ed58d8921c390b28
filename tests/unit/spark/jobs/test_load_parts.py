"""The parts of a first load have each row once, and survive in a checkpoint."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path

import pytest

from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.load_plan import (
    LOAD_PLAN_FILE,
    LoadPart,
    LoadPlan,
    read_load_plan,
    split_into_epochs,
    write_load_plan,
)
from stream_app.errors import CheckpointError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.spark.jobs.database_row_reader import RowQuery

BOUNDS = [("a", 3), ("b", 1), ("b", 4), ("d", 0)]


def parts() -> list[LoadPart]:
    ends = zip([None, *BOUNDS], [*BOUNDS, None], strict=True)
    return [
        LoadPart(name="t", table="t", relation="shop.t", key_before=key_before, last_key=last_key)
        for key_before, last_key in ends
    ]


def test_each_row_is_in_one_part() -> None:
    """Keys of two columns, in and between the bounds, read by a database."""
    database = sqlite3.connect(":memory:")
    database.execute("create table t (a text, k int, primary key (a, k))")
    rows = list(itertools.product("abcde", range(6)))
    database.executemany("insert into t values (?, ?)", rows)
    query = RowQuery(message="a, k", relation="t", keys=("a", "k"), literals=("?", "?"))
    read = [database.execute(*query.of_part(part)).fetchall() for part in parts()]
    assert sorted(itertools.chain.from_iterable(read)) == rows
    assert [max(rows_of_part) for rows_of_part in read] == [*BOUNDS, ("e", 5)]


def test_the_load_plan_survives_in_the_checkpoint(tmp_path: Path) -> None:
    folder = JobFolder(str(tmp_path), LocalFileIO())
    assert read_load_plan(folder) is None
    plan = LoadPlan(
        source="jdbc:…",
        log_position="0/1",
        begun_time_ms=7,
        offsets={"shop.t": {"0": 3}},
        epochs=[parts()[:2], parts()[2:]],
    )
    write_load_plan(folder, plan)
    assert read_load_plan(folder) == plan
    assert plan.parts_of(1) == parts()[2:]
    assert not plan.parts_of(2)


def test_small_tables_share_a_task() -> None:
    """Two tasks read two parts of a large table, or sixteen tables of one part."""
    tables = [parts(), *([part] for part in parts()[:1] * 17)]
    assert [len(epoch) for epoch in split_into_epochs(tables, 2)] == [2, 2, 9, 9]
    dealt = itertools.chain.from_iterable(split_into_epochs(tables, 2))
    assert list(dealt) == list(itertools.chain.from_iterable(tables))
    assert split_into_epochs([], 2) == []


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "is damaged"), ('{"version": 9}', "version 9")]
)
def test_a_damaged_or_later_plan_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / LOAD_PLAN_FILE).write_text(text)
    with pytest.raises(CheckpointError, match=problem):
        read_load_plan(JobFolder(str(tmp_path), LocalFileIO()))
