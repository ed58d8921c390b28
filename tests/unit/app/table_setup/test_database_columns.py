"""Tables of a database have the columns that are made for them, and the rows that belong there."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.config.sync_config import TableSetting
from stream_app.app.table_setup.table_pipeline import job_pipeline
from stream_app.epochs.stages.blocks import UNREADABLE_INDEX
from tests.support.databases.source_database import Database, table_of
from tests.support.messages.database_topic import change, creates

MADE_COLUMNS: dict[str, Any] = {
    "computed_column": ("tag=upper(v)", "first=substring(tag, 0, 3)"),
    "metadata_column": ("table_name", "op_ts", "offset"),
    "metadata_column_prefix": "__",
}
WHOLE = [
    "id BIGINT NOT NULL", "v STRING", "n INT", "tag STRING", "first STRING",
    "__table_name STRING NOT NULL", "__op_ts TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
    "__offset BIGINT",
]  # fmt: skip


def decoded_rows(database: Database, name: str, *messages: Any) -> list[dict[str, Any]]:
    """The rows that the job's own format makes of messages."""
    decode = job_pipeline(database.job_tables, database.table(name))
    decoded_batch = decode.decode(table_of(messages).to_batches()[0])
    assert not decoded_batch.bad_records.num_rows, decoded_batch.bad_records.to_pylist()
    return decoded_batch.changes.rows.drop_columns(["_VALUE_KIND"]).to_pylist()


def test_a_new_table_has_the_made_columns_in_each_row(tmp_path: Path) -> None:
    database = Database(tmp_path, **MADE_COLUMNS)
    messages = creates("shop.orders", [1, 2])
    database.feeds(*messages)
    assert database.columns("orders") == WHOLE
    rows = decoded_rows(database, "orders", *messages)
    assert [
        (row["id"], row["tag"], row["first"], row["__table_name"], row["__offset"]) for row in rows
    ] == [(1, "NEW 1", "NEW", "orders", 0), (2, "NEW 2", "NEW", "orders", 1)]
    assert {row["__op_ts"].timestamp() for row in rows} == {0.001}


def test_settings_of_one_table_override_those_of_all_tables(tmp_path: Path) -> None:
    settings = {
        "items.computed-column": TableSetting(("year=year(n)",)),
        "items.metadata-column": TableSetting(()),
        "items.filter": TableSetting("n > 1"),
    }
    database = Database(tmp_path, tables=settings, filter="v <> 'new 1'", **MADE_COLUMNS)
    items = creates("shop.items", [1, 2])
    database.feeds(*creates("shop.orders", [1]), *items)
    assert database.columns("orders") == WHOLE
    assert database.columns("items") == ["id BIGINT NOT NULL", "v STRING", "n INT", "year INT"]
    assert [row["year"] for row in decoded_rows(database, "items", *items)] == [1970]
    assert [row["id"] for row in decoded_rows(database, "orders", *creates("o.p", [1, 2]))] == [2]


def test_a_table_without_the_columns_has_what_fits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(tmp_path, filter="note = 'x'", **MADE_COLUMNS)
    with caplog.at_level(logging.INFO):
        database.feeds(change("shop.numbers", {"id": 1, "n": 5}))
    assert database.columns("numbers") == ["id BIGINT NOT NULL", "n INT", *WHOLE[5:]]
    for words in (
        "computed-column tag does not apply: there is no column v",
        "computed-column first does not apply: there is no column tag",
        "filter does not apply: there is no column note",
    ):
        assert f"the table numbers: {words}" in caplog.text
    [row] = decoded_rows(database, "numbers", change("shop.numbers", {"id": 1, "n": 5}))
    assert (row["id"], row["__table_name"]) == (1, "numbers")


def test_a_made_column_may_be_a_key(tmp_path: Path) -> None:
    database = Database(
        tmp_path, computed_column=("part=truncate(n, 10)",),
        primary_keys=("part", "id"), partition_keys=("part",),
    )  # fmt: skip
    messages = creates("shop.orders", [7, 25])
    database.feeds(*messages)
    schema = database.table("orders").schema
    assert (schema.primary_keys, schema.partition_keys) == (("part", "id"), ("part",))
    assert [row["part"] for row in decoded_rows(database, "orders", *messages)] == [0, 20]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"computed_column": ("n=upper(v)",)}, "the source has a column 'n'"),
        ({"tables": {"orders.computed-column": TableSetting(("x=upper(w)",))}}, "'w', which is no"),
        ({"tables": {"orders.filter": TableSetting("w = 1")}}, "unknown column 'w'"),
        ({"filter": "n = 'x'"}, "cannot read the condition"),
        (
            {
                "computed_column": ("x=now()",),
                "tables": {"orders.primary-keys": TableSetting(("id", "x"))},
            },
            "would not find its row",
        ),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_stop_only_their_own_table(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    database = Database(tmp_path, **options)
    others = change("shop.others", {"id": 1})
    assert database.feeds(*creates("shop.orders", [1]), others) == ["others"]
    splitter = database.database_tables.splitter([])
    [part] = splitter.split(table_of(creates("shop.orders", [1])).to_batches()[0])
    assert part.table_index == UNREADABLE_INDEX
    assert why in part.messages.column("reason")[0].as_py()


def test_a_table_that_is_there_gets_the_columns_when_the_job_starts(tmp_path: Path) -> None:
    Database(tmp_path).feeds(*creates("shop.orders", [1]))
    again = Database(tmp_path, **MADE_COLUMNS)
    [feed] = again.database_tables.known_feeds()
    # A row that is there has none of them, so each may be null.
    assert again.columns("orders") == [name.replace(" NOT NULL", "") if name[0] == "_" else name
                                       for name in WHOLE]  # fmt: skip
    assert feed.table_job.table.schema.schema_id == 1
    [row] = decoded_rows(again, "orders", *creates("shop.orders", [3]))
    assert (row["tag"], row["__table_name"]) == ("NEW 3", "orders")
    assert (
        Database(tmp_path, **MADE_COLUMNS)
        .database_tables.known_feeds()[0]
        .table_job.table.schema.schema_id
        == 1
    )
