"""Decoded changes of the demo's shop, as writers get them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pyarrow as pa

from stream_app.app.shop import COLUMNS, Shop
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.message_format import MessageFormat, message_format
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.data_type import parse_columns
from stream_app.model.table_schema import TableSchema, new_table_schema

BATCH_MESSAGES = 50_000


def shop_schema(**options: str) -> TableSchema:
    """The shop's table."""
    return new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=("dt", "id"),
        partition_keys=("dt",),
        options={"bucket": "2", "changelog-producer": "input", **options},
        time_millis=1,
    )


def shop_format(schema: TableSchema) -> MessageFormat:
    return message_format(
        "debezium-json",
        columns=schema.fields,
        arrow_schema=arrow_schema(schema.fields),
        primary_keys=schema.primary_keys,
        options={},
        keep_update_before=True,
    )


def message_batches(count: int, seed: int = 5) -> Iterator[pa.RecordBatch]:
    """Messages as Spark hands them to a task, in batches."""
    changes = Shop(Random(seed)).changes(count)
    offset = 0
    while chunk := list(islice(changes, BATCH_MESSAGES)):
        keys, values = zip(*chunk, strict=True)
        size = len(chunk)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(["bench"] * size),
                pa.array([0] * size, pa.int32()),
                pa.array(range(offset, offset + size), pa.int64()),
                pa.array([1] * size, pa.timestamp("us", "UTC")),
                pa.array(keys, pa.binary()),
                pa.array(values, pa.binary()),
            ],
            schema=MESSAGE_SCHEMA,
        )
        offset += size


def fresh_folder(folder: Path, name: str) -> str:
    """A place for a table that does not exist yet."""
    return str(folder / "bench.db" / name)
