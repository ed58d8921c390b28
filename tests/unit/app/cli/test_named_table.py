"""A command with a job's configuration takes the table's name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.app.cli.arguments.named_table import open_named_job_table
from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.table_config import TableConfig
from stream_app.app.ops.recorded_tables import recorded_splitter
from stream_app.errors import TableNotFoundError, UsageError
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import creates


@pytest.fixture
def job(tmp_path: Path) -> DatabaseJob:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    return job


def test_a_table_is_opened_by_its_name_or_its_folder(job: DatabaseJob) -> None:
    path = job.sync.path("orders")
    for text in ("orders", "ods.orders", path):
        assert open_named_job_table(text, job.database, "job.toml").location == path
    with pytest.raises(TableNotFoundError):
        open_named_job_table(job.sync.path("order"), job.database, "job.toml")


def test_a_name_that_the_job_does_not_have(job: DatabaseJob) -> None:
    with pytest.raises(UsageError, match="the job has no table 'order'") as raised:
        open_named_job_table("order", job.database, "job.toml")
    assert raised.value.fix == "did you mean orders? name one of items, orders"


def test_the_only_table_of_a_job(job: DatabaseJob) -> None:
    only = TableConfig(warehouse=job.sync.warehouse, database="ods", name="items")
    job_tables = SingleTable(source=job.config.source, table=only)
    assert open_named_job_table("items", job_tables, "job.toml").location == only.path
    with pytest.raises(UsageError, match="the job has no table 'orders'"):
        open_named_job_table("orders", job_tables, "job.toml")


def test_without_the_checkpoint_a_shards_source_table_is_not_guessed(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, merge_shards=False)
    job.run(*creates("shop.orders", [1]))
    assert recorded_splitter(job.database, job.table("shop_orders")) is not None
    elsewhere = replace(job.database, checkpoint=str(tmp_path / "other"))
    with pytest.raises(UsageError, match="does not record which source tables"):
        recorded_splitter(elsewhere, job.table("shop_orders"))
