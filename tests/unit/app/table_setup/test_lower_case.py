"""With `case-sensitive = false`, tables and columns get lower-case names, as in Paimon's jobs."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.ops.recorded_tables import recorded_splitter
from stream_app.app.table_setup.table_pipeline import job_pipeline
from stream_app.message_format_registry import FORMATS
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import Message, a_row, change

MADE_COLUMNS: dict[str, Any] = {
    "computed_column": ("TAG=upper(V)",),
    "metadata_column": ("table_name",),
}


def spelled_row(origin: str, key: int, names: str = "ID,V,N", text: str = "new") -> Message:
    """A new row whose columns have these names."""
    return change(origin, dict(zip(names.split(","), a_row(key, text).values(), strict=True)))


def plain(message: Message) -> Message:
    """Return the message without the converter's schema."""
    key, value = message
    assert key is not None
    assert value is not None
    return tuple(json.dumps(json.loads(text)["payload"]).encode() for text in (key, value))  # type: ignore[return-value]


def columns(job: DatabaseJob, name: str) -> list[str]:
    return [f"{field.name} {field.data_type}" for field in job.table(name).schema.fields]


@pytest.mark.parametrize("has_schema", [True, False])
def test_names_of_tables_columns_and_keys_are_lowered(tmp_path: Path, has_schema: bool) -> None:
    job = DatabaseJob(tmp_path, case_sensitive=False, table_prefix="ODS_", **MADE_COLUMNS)
    before = {"ID": 1, "V": "new 1", "N": 1}
    messages = [
        spelled_row("Shop.Orders", 1), spelled_row("Shop.Orders", 2),
        change("Shop.Orders", {**before, "V": "second"}, before),
        change("Shop.Orders", {"ID": 2, "V": "new 2", "N": 2}, op="d"),
    ]  # fmt: skip
    job.run(*(messages if has_schema else map(plain, messages)))
    assert job.quarantine() == job.quarantine("ODS_orders") == []
    types = ("BIGINT", "INT") if has_schema else ("STRING", "STRING")
    assert columns(job, "ODS_orders") == [
        f"id {types[0]} NOT NULL", "v STRING", f"n {types[1]}", "tag STRING",
        "table_name STRING NOT NULL",
    ]  # fmt: skip
    assert job.table("ODS_orders").schema.primary_keys == ("id",)
    assert list(job.rows("ODS_orders").values()) == ["second"]


def test_a_column_may_be_spelled_anew_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, case_sensitive=False)
    job.run(spelled_row("shop.orders", 1), spelled_row("shop.orders", 2))
    job.run(
        spelled_row("shop.orders", 3),
        spelled_row("shop.orders", 4, "Id,V,n"),
        spelled_row("shop.orders", 5, "Id,v,n"),
        change("shop.orders", {"Id": 6, "v": "new 6", "n": 6, "NOTE": "x"}),
        spelled_row("shop.orders", 7),
    )
    assert job.rows("orders") == {key: f"new {key}" for key in range(1, 8)}
    assert columns(job, "orders")[-1] == "note STRING"
    job.start()
    job.run(spelled_row("shop.orders", 8, "iD,v,n"))
    assert job.rows("orders")[8] == "new 8"


def test_shards_may_spell_their_columns_each_for_itself(tmp_path: Path) -> None:
    """The spellings alternate, and the decoder does not cut the batch at each message."""
    job = DatabaseJob(tmp_path, case_sensitive=False)
    job.run(
        *(
            spelled_row(
                "eu.Orders" if key % 2 else "us.orders", key, "ID,V,N" if key % 2 else "id,v,n"
            )
            for key in range(3000)
        )
    )
    assert job.rows("orders") == {key: f"new {key}" for key in range(3000)}


def test_tables_that_differ_in_their_case_alone_are_not_shards(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, case_sensitive=False)
    job.run(
        spelled_row("shop.Orders", 1), spelled_row("shop.orders", 2), spelled_row("eu.ORDERS", 3)
    )
    assert job.rows("orders") == {1: "new 1", 3: "new 3"}
    [reason] = job.quarantine()
    assert "shop.orders would become the table orders, as shop.Orders does" in reason
    job.start()
    job.run(spelled_row("shop.orders", 4), spelled_row("shop.Orders", 5))
    assert sorted(job.rows("orders")) == [1, 3, 5]


def test_a_second_reading_of_the_topic_leaves_the_refused_table_out(tmp_path: Path) -> None:
    """Messages of the refused table may precede those of the table that has the name."""
    job = DatabaseJob(tmp_path, case_sensitive=False)
    job.run(spelled_row("shop.orders", 1))
    splitter = recorded_splitter(job.database, job.table("orders"))
    first, second = spelled_row("shop.Orders", 2), spelled_row("shop.orders", 1)
    job.sent[:] = [first, second]
    parts = list(splitter.split(job.messages(0, 2)))
    assert [part.messages["offset"].to_pylist() for part in parts if part.table_index == 0] == [[1]]


def test_columns_that_differ_in_their_case_alone_keep_their_table_back(tmp_path: Path) -> None:
    problem = "the columns 'V' and 'v' of the source would both become 'v'"
    twice = change("shop.orders", {"ID": 1, "V": "a", "v": "b"})
    job = DatabaseJob(tmp_path, case_sensitive=False)
    job.run(twice, spelled_row("shop.items", 1))
    assert job.rows("items") == {1: "new 1"}
    assert problem in job.quarantine()[0]
    job.run(change("shop.items", {"ID": 2, "V": "a", "v": "b"}))
    assert problem in job.held()["items"]


def test_names_keep_their_case_otherwise(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(spelled_row("Shop.Orders", 1))
    assert columns(job, "Orders") == ["ID BIGINT NOT NULL", "V STRING", "N INT"]


@pytest.mark.parametrize("name", list(FORMATS))
def test_each_format_takes_names_in_lower_case_to_its_tasks(tmp_path: Path, name: str) -> None:
    job = DatabaseJob(tmp_path, case_sensitive=False)
    job.run(spelled_row("shop.orders", 1))
    needed_options = {
        option.key: option.example for option in FORMATS[name].options if option.example
    }
    source = replace(job.config.source, format=name, format_options=needed_options)
    pickled_pipeline = pickle.dumps(
        job_pipeline(replace(job.database, source=source), job.table("orders"))
    )
    decoded_batch = pickle.loads(pickled_pipeline).decode(job.messages(0, 0))
    assert decoded_batch.changes.rows.schema.names == ["_VALUE_KIND", "id", "v", "n"]
