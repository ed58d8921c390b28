"""``partition.timestamp-format.strict`` makes records bad whose partition has no time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_app.cdc.pipeline import Pipeline, StepPlace
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.table.pipeline_steps.refused_partitions import dated_partition_step
from tests.support.messages.debezium_messages import a_format, messages, reasons_of, rows_of

STRICT = {"partition.timestamp-format.strict": "true"}
FORMATTER = {"partition.timestamp-formatter": "yyyyMMdd"}


def a_schema(columns: str, keys: tuple[str, ...], options: dict[str, str]) -> TableSchema:
    return new_table_schema(
        columns=parse_columns(columns), primary_keys=(*keys, "k"), partition_keys=keys,
        options={"bucket": "1", **options}, time_ms=0,
    )  # fmt: skip


def dated_pipeline(columns: str, keys: tuple[str, ...], options: dict[str, str]) -> Pipeline:
    step = dated_partition_step(a_schema(columns, keys, {**STRICT, **options}))
    assert step is not None
    return a_format(columns, (*keys, "k")).with_steps({StepPlace.DATED_PARTITIONS: step})


def create_event(**after: Any) -> str:
    return json.dumps({"op": "c", "before": None, "after": after})


def test_partition_values_must_match_the_timestamp_formatter() -> None:
    decode = dated_pipeline("k INT, dt STRING", ("dt",), FORMATTER)
    days = ["20260131", "2026-01-31", "20260131", "20261301", "", "20260201"]
    decoded_batch = decode.decode(messages("rubbish", *(create_event(k=1, dt=day) for day in days)))
    reasons = reasons_of(decoded_batch)
    assert list(reasons) == [0, 2, 4, 5]
    assert "a partition without a time" in reasons[2]
    assert reasons[2].endswith(": dt=2026-01-31")
    assert reasons[4].endswith(": dt=20261301")
    assert [row[3] for row in rows_of(decoded_batch)] == ["20260131", "20260131", "20260201"]


def test_the_timestamp_pattern_chooses_the_columns_of_the_time() -> None:
    options = {
        "partition.timestamp-pattern": "$dt $hh",
        "partition.timestamp-formatter": "yyyyMMdd H",
    }
    decode = dated_pipeline("k INT, dt STRING, hh INT", ("dt", "hh"), options)
    times = [("20260131", 7), ("20260131", 24), ("2026", 7), ("20260131", 23)]
    decoded_batch = decode.decode(messages(*(create_event(k=1, dt=dt, hh=hh) for dt, hh in times)))
    assert list(reasons_of(decoded_batch)) == [1, 2]


@pytest.mark.parametrize(
    ("keys", "options"),
    [(("dt",), {}), (("dt",), STRICT), (("dt",), FORMATTER), ((), {**STRICT, **FORMATTER})],
    ids=["neither", "no formatter", "not strict", "no partitions"],
)
def test_other_tables_accept_any_partition_value(
    keys: tuple[str, ...], options: dict[str, str]
) -> None:
    assert dated_partition_step(a_schema("k INT, dt STRING", keys, options)) is None


def test_a_batch_without_rows_is_left_as_it_is() -> None:
    decoded_batch = dated_pipeline("k INT, dt STRING", ("dt",), FORMATTER).decode(
        messages("rubbish")
    )
    assert list(reasons_of(decoded_batch)) == [0]
