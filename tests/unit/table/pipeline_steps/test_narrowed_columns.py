"""``narrowed-columns = quarantine`` quarantines records, and a replay brings them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_app.app.config.sync_config import TableSetting
from stream_app.cdc.bad_reasons import reason_kind
from tests.support.databases.database_replay import replay
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import Message, change, creates

LATER_MS = 4_102_444_800_000
"""In 2100: after every version of a table that a test makes."""
SET_ASIDE = {"orders.narrowed-columns": TableSetting("quarantine")}


def row(key: int, n: str, value: Any = 5, at_ms: int = 1) -> Message:
    """A row whose column ``n`` has a type in the source."""
    return change("shop.orders", {"id": key, "v": "new", "n": value}, n=n, at_ms=at_ms)


def widened_job(folder: Path, **sync: Any) -> DatabaseJob:
    """A job whose source has made ``n`` a BIGINT."""
    job = DatabaseJob(folder, tables=SET_ASIDE, **sync)
    job.run(row(1, "int32"))
    job.run(row(2, "int64", 2**40))
    assert str(job.table("orders").schema.fields.field("n").data_type) == "BIGINT"
    return job


def keys(job: DatabaseJob) -> list[int]:
    return sorted(job.rows("orders"))


def test_records_from_before_the_widening_are_stored_and_later_ones_set_aside(
    tmp_path: Path,
) -> None:
    job = widened_job(tmp_path)
    job.run(
        row(3, "int32"),
        row(4, "int16", at_ms=LATER_MS),
        row(5, "int64", at_ms=LATER_MS),
        row(6, "string", "7", at_ms=LATER_MS),
        *creates("shop.items", [1]),
    )
    assert keys(job) == [1, 2, 3, 5]
    assert job.rows("items") == {1: "new 1"}
    assert job.quarantine("orders") == [
        "column 'n' stays BIGINT, and is SMALLINT in the source: a narrower type never replaces a "
        "wider one (narrowed-columns = quarantine)",
        "column 'n' stays BIGINT, and is STRING in the source: no type of the column's kind holds "
        "the values of both (narrowed-columns = quarantine)",
    ]
    assert {reason_kind(line) for line in job.quarantine("orders")} == {"narrowed-column"}


def test_a_column_that_is_widened_and_narrowed_in_one_epoch(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, tables=SET_ASIDE)
    job.run(row(1, "int32"), row(2, "int64", 2**40), row(3, "int32", at_ms=LATER_MS))
    assert (keys(job), len(job.quarantine("orders"))) == ([1, 2], 1)


def test_kafkas_time_counts_where_the_source_gives_none(tmp_path: Path) -> None:
    job = widened_job(tmp_path)
    key, value = row(3, "int16")
    assert value is not None
    job.run((key, value.replace(b'"ts_ms":1,', b"")))
    assert keys(job) == [1, 2, 3], "the topic of this job has no times"


@pytest.mark.parametrize(
    "naming_options", [{"case_sensitive": False}, {"type_mapping": ("to-nullable",)}], ids=str
)
def test_renamed_and_lower_case_columns_are_narrowed(
    tmp_path: Path, naming_options: dict[str, Any]
) -> None:
    job = widened_job(tmp_path, **naming_options)
    name = "N" if "case_sensitive" in naming_options else "n"
    job.run(change("shop.orders", {"id": 3, "v": "x", name: 5}, n="int16", at_ms=LATER_MS))
    assert (keys(job), len(job.quarantine("orders"))) == ([1, 2], 1)


def test_a_column_is_narrowed_under_its_alias(tmp_path: Path) -> None:
    job = widened_job(tmp_path)
    job.start(tables={**SET_ASIDE, "orders.column-aliases": TableSetting("note=n")})
    job.run(change("shop.orders", {"id": 3, "v": "x", "note": "5"}, at_ms=LATER_MS))
    assert (keys(job), len(job.quarantine("orders"))) == ([1, 2], 1)


def test_nothing_is_narrowed_without_the_option(tmp_path: Path) -> None:
    job = widened_job(tmp_path)
    job.start(tables={})
    job.run(row(3, "int16", at_ms=LATER_MS))
    assert (keys(job), job.quarantine("orders")) == ([1, 2, 3], [])


def test_a_replay_takes_what_fits(tmp_path: Path) -> None:
    job = widened_job(tmp_path)
    job.run(
        row(3, "int16", at_ms=LATER_MS),
        row(4, "string", "many", at_ms=LATER_MS),
        row(5, "int16", at_ms=LATER_MS),
        row(5, "int64", 2**40, at_ms=LATER_MS),
    )
    assert keys(job) == [1, 2, 5]
    assert replay(job, "orders") == {"orders": {"replayed": [2], "overtaken": [4], "bad": [3]}}
    assert keys(job) == [1, 2, 3, 5]
    assert replay(job, "orders") == {"orders": {"bad": [3]}}, "once"
