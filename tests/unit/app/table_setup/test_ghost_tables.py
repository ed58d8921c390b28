"""Helper tables of online schema changes get no table; the job reports each once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stream_app.checkpoint.job_state import state_or_empty
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import change, creates


def test_a_ghost_is_left_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = DatabaseJob(tmp_path)
    with caplog.at_level(logging.WARNING, "stream_app"):
        job.run(*creates("shop.orders", [1]), *creates("shop._orders_gho", [1]))
        job.run(*creates("shop._orders_gho", [2]), *creates("shop._orders_ghc", [1]))
    warning_lines = [line for line in caplog.messages if "is left out" in line]
    assert [line.partition(" ")[0] for line in warning_lines] == [
        "shop._orders_gho",
        "shop._orders_ghc",
    ]
    assert "an online schema change of orders" in warning_lines[0]
    assert "sync.table-mapping" in warning_lines[0]
    assert [warning.problem for warning in state_or_empty(job.checkpoint).warnings] == [
        line.partition("\n")[0] for line in warning_lines
    ]
    assert [feed.name for feed in job.committer.tables.feeds] == ["orders"]
    assert job.quarantine() == []


def test_a_table_that_was_taken_under_such_a_name_stays(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, table_mapping={"_orders_old": "_orders_old"})
    job.run(*creates("shop._orders_old", [1]))
    job.start(table_mapping={})
    job.run(*creates("shop._orders_old", [2]), change("shop.orders", {"id": 1, "v": "x", "n": 1}))
    assert len(job.rows("_orders_old")) == 2
