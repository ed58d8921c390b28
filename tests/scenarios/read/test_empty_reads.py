"""Every library that takes Arrow takes a read without rows, of each type."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pytest

import stream_app
from stream_app.table.api.paimon_table import PaimonTable
from tests.support.tables.small_table import small_table

KINDS = (
    "INT", "STRING", "BYTES", "BOOLEAN", "DECIMAL(38, 9)", "DATE", "TIME(3)", "TIMESTAMP(9)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE", "ARRAY<INT>", "MAP<STRING, INT>", "ROW<x INT, y STRING>",
    "ARRAY<ROW<x INT, m MAP<STRING, ARRAY<INT>>>>",
)  # fmt: skip


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> PaimonTable:
    small = small_table(tmp_path / "db.db" / "t", f"k INT, v {request.param}", ("k",))
    small.commit(("+I", {"k": 1, "v": None}))
    return stream_app.open_table(small.path)


def test_a_condition_that_no_row_fits(table: PaimonTable) -> None:
    where = "k > 5"
    assert polars.from_arrow(table.read(where=where)).shape == (0, 2)
    assert isinstance(table.read(where=where).read_pandas(), pd.DataFrame)
    assert duckdb.from_arrow(table.read(where=where)).fetchall() == []
    assert table.read(where=where).read_all().schema == table.read().schema
    [split] = table.splits()
    assert polars.from_arrow(table.read_split(split, where=where)).shape == (0, 2)


def test_a_table_without_snapshots_and_a_range_without_rows(tmp_path: Path) -> None:
    empty = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",))
    table = stream_app.open_table(empty.path)
    assert polars.from_arrow(table.read()).shape == (0, 2)
    for _ in range(2):
        empty.commit(("+I", {"k": 1, "v": "a"}))
    rows = stream_app.open_table(empty.path).read_incremental(between=(2, 2))
    assert polars.from_arrow(rows).shape == (0, 2)
    assert pa.table(stream_app.open_table(empty.path)).num_rows == 1
