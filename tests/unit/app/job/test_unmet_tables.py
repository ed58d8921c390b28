"""What the configuration says of tables that the job does not meet is told once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stream_app.app.config.sync_config import OneSetting
from stream_app.app.job.unmet_tables import UnmetTables
from tests.support.database_job import DatabaseJob
from tests.support.database_topic import creates


def test_a_table_that_no_message_belongs_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("order", "orders", "nothing_like_it")
    job = DatabaseJob(tmp_path, tables={f"{name}.filter": OneSetting("id > 0") for name in names})
    unmet = UnmetTables(job.sync.named(), job.tables.state)
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    done: list[int] = []
    call = unmet.behind(done.append)
    for time in range(2):
        call(time)
    assert done == [0, 1]
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING] == [
        "[sync.tables.order] does nothing so far: no message belongs to a table of that name; did "
        "you mean [sync.tables.orders]? The tables are items, orders",
        "[sync.tables.nothing_like_it] does nothing so far: no message belongs to a table of that "
        "name. The tables are items, orders",
    ]


def test_before_the_first_message_nothing_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = DatabaseJob(tmp_path, tables={"orders.filter": OneSetting("id > 0")})
    UnmetTables(job.sync.named(), job.tables.state).tell()
    assert caplog.records == []
