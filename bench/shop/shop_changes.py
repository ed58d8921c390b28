"""Makes messages and decoded changes of the shop, as tasks get them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from bench.shop.shop_orders import COLUMNS, Shop
from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.pipeline import Pipeline
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema

BATCH_MESSAGES = 50_000
_STATUSES = ["new", "paid", "packed", "shipped"]


def shop_schema(**options: str) -> TableSchema:
    """Return the schema of the shop's table."""
    return new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=("dt", "id"),
        partition_keys=("dt",),
        options={"bucket": "2", "changelog-producer": "input", **options},
        time_ms=1,
    )


def shop_format(schema: TableSchema) -> Pipeline:
    return format_pipeline(
        "debezium-json",
        FormatSetup(
            columns=schema.fields,
            arrow_schema=arrow_schema(schema.fields),
            primary_keys=schema.primary_keys,
            options={},
            keeps_update_before=True,
        ),
    )


def message_batches(count: int, seed: int = 5) -> Iterator[pa.RecordBatch]:
    """Yield messages in batches, as a task gets them."""
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
    """Return a path for a table that does not exist yet."""
    return str(folder / "bench.db" / name)


def random_orders(
    rng: np.random.Generator, rows: int, schema: TableSchema, *, ids: int
) -> pa.RecordBatch:
    """Return inserts of orders of one day, unsorted, with ids below `ids`."""
    fields = arrow_schema(schema.fields)
    numbers = rng.integers(0, ids, rows)
    amounts = pa.array(rng.integers(100, 99_999, rows)).cast(pa.decimal128(21, 2))
    columns = [
        pa.array(np.zeros(rows, np.int8)),
        pa.array(numbers),
        pa.array([f"customer {number % 99_991:05}" for number in numbers.tolist()]),
        amounts.cast(fields.field("amount").type),
        pa.array(_STATUSES).take(pa.array(rng.integers(0, len(_STATUSES), rows))),
        pa.array(rng.integers(0, 10**12, rows) + 1_767_225_600_000_000).cast(pa.timestamp("us")),
        pa.array(["2026-01-01"] * rows),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["_VALUE_KIND", *fields.names])
