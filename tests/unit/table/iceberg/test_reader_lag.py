"""The lag of Iceberg's readers counts from the first snapshot that they do not see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.table.iceberg.reader_lag import ReaderLag, reader_lag
from tests.support.tables.small_table import SmallTable, StandingClock, small_table


def lag_of(table: SmallTable) -> ReaderLag:
    lag = reader_lag(table.table)
    assert lag is not None
    return lag


def test_a_table_that_commits_all_the_time_is_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = tmp_path / "catalog.db"
    created_table = small_table(
        tmp_path / "warehouse" / "db.db" / "t",
        "k INT NOT NULL, v INT",
        ("k",),
        metadata__iceberg__storage="hadoop-catalog",
        metadata__iceberg__sql__uri=f"jdbc:sqlite:{catalog}",
    )
    clock = StandingClock(created_table.table.clock.now_ms())
    table = SmallTable(replace(created_table.table, clock=clock))
    catalog.mkdir()  # nobody can open it
    for value in range(4):
        table.commit(("+I", {"k": 1, "v": value}))
        clock.sleep(30)
    assert "do not see snapshot 4" in caplog.text
    catalog.rmdir()
    lag = lag_of(table)
    assert (lag.snapshot_id, lag.latest_id, lag.lag_ms) == (None, 4, 120_000)
    assert lag.is_behind
    table.commit(("+I", {"k": 1, "v": 5}))
    assert lag_of(table).lag_ms == 0
