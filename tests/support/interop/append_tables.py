"""Tables without a primary key, and inserts for them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open
from tests.support.histories.random_changes import RandomChanges
from tests.support.interop.every_type import EVERY_TYPE
from tests.support.tables.small_table import TIME_MS, Change, SteppingClock

TABLES: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    "unaware": (f"k INT, {EVERY_TYPE}", (), {}),
    "buckets": (f"k INT, {EVERY_TYPE}", (), {"bucket": "3", "bucket-key": "k,v11"}),
    "partitions": ("a INT, dt STRING, d DATE, k BIGINT, b STRING", ("dt", "d"), {}),
    "partitioned buckets": (
        "a INT, dt STRING, k BIGINT", ("dt",), {"bucket": "2", "bucket-key": "k"},
    ),
}  # fmt: skip
SOON: dict[str, Any] = {"compaction.min.file-num": "2"}


def a_table(folder: Path, columns: str, by: tuple[str, ...] = (), **options: Any) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns(columns),
        primary_keys=(),
        partition_keys=by,
        options=options,
        time_ms=TIME_MS,
    )
    return create_or_open(str(folder / "db.db" / "t"), schema, SteppingClock())


def some_inserts(
    table: FileStoreTable, seed: int, counts: tuple[int, ...]
) -> Iterator[list[Change]]:
    """Yield rows of every kind of value, nulls and repetitions among them."""
    changes = RandomChanges(table.schema, random.Random(seed))
    for count in counts:
        inserts = [("+I", row) for kind, row in changes.epoch(4 * count) if kind == "+I"]
        yield inserts[:count]
