"""Messages, and plans by which a task routes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.message_format import FormatSetup
from stream_app.clock import SystemClock
from stream_app.epochs.stages.epoch_plan import EpochPlan, EpochSettings, TablePlan
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.table.file_store_table import FileStoreTable

COLUMNS = "k BIGINT, p STRING, offset_ BIGINT"
Message = tuple[str, int, int, dict[str, Any] | None]


def a_schema(
    columns: str = COLUMNS,
    keys: Sequence[str] = ("p", "k"),
    partition_keys: Sequence[str] = ("p",),
    buckets: int = 4,
) -> TableSchema:
    return new_table_schema(
        columns=parse_columns(columns),
        primary_keys=tuple(keys),
        partition_keys=tuple(partition_keys),
        options={"bucket": str(buckets)},
        time_ms=0,
    )


def table_plan(schema: TableSchema | None = None, location: str = "/nowhere") -> TablePlan:
    """Return a table that no task writes: only its schema counts."""
    schema = schema or a_schema()
    decode = format_pipeline(
        "debezium-json",
        FormatSetup(
            columns=schema.fields,
            arrow_schema=arrow_schema(schema.fields),
            primary_keys=schema.primary_keys,
            options={},
            keeps_update_before=False,
        ),
    )
    table = FileStoreTable(location, schema, LocalFileIO(), SystemClock())
    return TablePlan(table=table, pipeline=decode)


def a_plan(schema: TableSchema | None = None, *, tasks: int = 3, **limits: Any) -> EpochPlan:
    return EpochPlan(
        table_plans={0: table_plan(schema)}, settings=EpochSettings(task_count=tasks, **limits)
    )


def batch_of(messages: Iterable[Message]) -> pa.RecordBatch:
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "value": None
            if row is None
            else json.dumps({"before": None, "after": row, "op": "c"}).encode(),
        }
        for topic, partition, offset, row in messages
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def a_message(offset: int, *, key: int = 0, topic: str = "t", partition: int = 0) -> Message:
    return topic, partition, offset, {"k": key, "p": f"day {key % 3}", "offset_": offset}
