"""A job follows renames that statements tell, in either order, and loses no value."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.app.config.sync_config import TableSetting
from stream_app.checkpoint.job_state import state_or_empty
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.source.source_renames import RenameReaction
from stream_app.planning.schema.schema_changes import AddColumn, RenameColumn
from stream_app.table.opening import require_alterable
from stream_app.table.schema.alter import alter_table
from tests.support.jobs.database_job import DatabaseJob
from tests.support.jobs.table_writer import read_rows
from tests.support.messages.database_topic import Message, change


def statement(text: str) -> Message:
    document = {"source": {"db": "shop"}, "ts_ms": 1, "databaseName": "shop", "schemaName": None,
                "ddl": text, "tableChanges": []}  # fmt: skip
    return b'{"databaseName":"shop"}', json.dumps(document).encode()


RENAME = statement("alter table orders change v note varchar(9)")


def old(key: int) -> Message:
    return change("shop.orders", {"id": key, "v": f"v{key}", "n": key})


def new(key: int) -> Message:
    return change("shop.orders", {"id": key, "note": f"v{key}", "n": key})


def notes(job: DatabaseJob, column: str = "note") -> dict[int, Any]:
    return {row["id"]: row[column] for row in read_rows(job.table("orders"))}


def names(job: DatabaseJob) -> list[str]:
    return list(job.table("orders").schema.fields.names)


def test_a_rename_statement_may_come_before_its_rows(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(old(1))
    job.run(RENAME, old(2))
    assert names(job) == ["id", "v", "n"], "no row has the new name"
    job.start()
    job.run(new(3))
    job.run(old(4))
    assert names(job) == ["id", "note", "n"]
    assert notes(job) == {key: f"v{key}" for key in range(1, 5)}
    assert job.held() == {}


def test_a_rename_and_its_rows_may_come_in_one_repeated_epoch(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(old(1), RENAME, new(2), old(3), new(4))
    assert names(job) == ["id", "note", "n"]
    assert notes(job) == {key: f"v{key}" for key in range(1, 5)}
    renames = state_or_empty(job.checkpoint).renames
    assert job.committer.round_runner.read_statements is not None
    job.committer.round_runner.read_statements(pa.Table.from_batches([job.messages(0, 5)]))
    assert state_or_empty(job.checkpoint).renames == renames


def test_a_row_with_the_new_name_waits_for_the_rename_statement(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(statement("create table orders (id int)"), old(1))
    job.run(new(2))
    assert "waits for the statement" in job.held()["orders"]
    job.run(RENAME)
    job.wait(0.01)
    assert job.held() == {}
    assert names(job) == ["id", "note", "n"]
    assert notes(job) == {1: "v1", 2: "v2"}


def test_without_a_rename_statement_the_column_is_added(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = DatabaseJob(tmp_path)
    job.run(statement("create table orders (id int)"), old(1))
    job.run(new(2))
    job.wait(0.01)
    assert job.held()
    job.wait(0.02)
    assert job.held() == {}
    assert names(job) == ["id", "v", "n", "note"]
    assert notes(job) == {1: None, 2: "v2"}
    assert "no statement of the source says why" in caplog.text
    assert [warning.is_lasting for warning in state_or_empty(job.checkpoint).warnings] == [True]


def test_a_source_without_statements_waits_for_none(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(old(1))
    job.run(new(2))
    assert names(job) == ["id", "v", "n", "note"]
    assert job.held() == {}


@pytest.mark.parametrize("settings", [
    {"renames": RenameReaction.NEW_COLUMN},
    {"tables": {"orders.renames": TableSetting("new-column")}},
])  # fmt: skip
def test_a_rename_may_be_a_new_column(tmp_path: Path, settings: dict[str, Any]) -> None:
    job = DatabaseJob(tmp_path, **settings)
    job.run(old(1))
    job.run(RENAME, new(2))
    assert names(job) == ["id", "v", "n", "note"]


def test_a_rename_may_hold_the_table_until_an_operator_renames_it(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, renames=RenameReaction.HOLD)
    job.run(old(1))
    job.run(RENAME, old(2), new(3))
    assert "renamed column 'v' to 'note'" in job.held()["orders"]
    assert "--rename-column v=note" in job.held()["orders"]
    alter_table(require_alterable(job.table("orders")), [RenameColumn("v", "note")])
    job.start()
    job.run(old(4))
    assert job.held() == {}
    assert names(job) == ["id", "note", "n"]
    assert notes(job) == {key: f"v{key}" for key in range(1, 5)}


def test_another_column_with_the_old_name_holds_the_table(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(old(1))
    job.run(RENAME, new(2))
    job.run(statement("alter table orders add column v varchar(9)"))
    job.run(change("shop.orders", {"id": 3, "note": "v3", "n": 3, "v": "another"}))
    assert "has a new column 'v'" in job.held()["orders"]
    added_column = AddColumn(name="v", data_type=parse_columns("v STRING").fields[0].data_type)
    alter_table(require_alterable(job.table("orders")), [added_column])
    job.start()
    job.run()
    assert job.held() == {}
    assert notes(job) == {1: "v1", 2: "v2", 3: "v3"}
    assert notes(job, "v") == {1: None, 2: None, 3: "another"}


def test_a_message_with_both_names_is_quarantined(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(old(1))
    job.run(RENAME, new(2))
    job.run(change("shop.orders", {"id": 3, "note": "v3", "n": 3, "v": "another"}), new(4))
    [reason] = job.quarantine("orders")
    assert "under 'v' and another name of the renamed column 'note'" in reason
    assert notes(job) == {1: "v1", 2: "v2", 4: "v4"}


def test_a_rename_is_followed_with_names_in_lower_case(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, case_sensitive=False)
    job.run(change("shop.orders", {"id": 1, "V": "v1", "n": 1}))
    job.run(statement("alter table orders rename column V to Note"))
    job.run(change("shop.orders", {"id": 2, "Note": "v2", "n": 1}))
    job.run(change("shop.orders", {"id": 3, "V": "v3", "n": 1}))
    assert names(job) == ["id", "note", "n"]
    assert notes(job) == {1: "v1", 2: "v2", 3: "v3"}


@pytest.mark.parametrize("statements", [
    ("create table _orders_gho like orders",
     "alter /* gh-ost */ table `shop`.`_orders_gho` change v note varchar(9)",
     "rename /* gh-ost */ table `shop`.`orders` to `shop`.`_orders_del`, "
     "`shop`.`_orders_gho` to `shop`.`orders`"),
    ("CREATE TABLE `shop`.`_orders_new` (id int primary key, v varchar(9), n int)",
     "ALTER TABLE `shop`.`_orders_new` CHANGE COLUMN v note varchar(9)",
     "RENAME TABLE `shop`.`orders` TO `shop`.`_orders_old`, "
     "`shop`.`_orders_new` TO `shop`.`orders`"),
])  # fmt: skip
def test_a_rename_by_an_online_schema_change_is_followed(
    tmp_path: Path, statements: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    job = DatabaseJob(tmp_path)
    create_statement, alter_statement, swap_statement = map(statement, statements)
    ghost = "shop._orders_gho" if "gho" in statements[0] else "shop._orders_new"
    with caplog.at_level(logging.WARNING, "stream_app"):
        job.run(old(1), create_statement, alter_statement)
        job.run(change(ghost, {"id": 1, "note": "v1", "n": 1}), old(2))
        job.run(change(ghost, {"id": 2, "note": "v2", "n": 2}), swap_statement, new(3))
    job.run(new(4))
    assert [feed.name for feed in job.committer.tables.feeds] == ["orders"]
    assert names(job) == ["id", "note", "n"]
    assert notes(job) == {key: f"v{key}" for key in range(1, 5)}
    assert sum("is left out" in line for line in caplog.messages) == 1
