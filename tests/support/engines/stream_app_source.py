"""Reads tables by the source `stream_app`: in the tests' Spark, or as Spark's processes call it.

In names of options a dot can be written as two underscores and a hyphen as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from stream_app.clock import Clock
from stream_app.model.schema.data_type import TypeRoot
from stream_app.spark.read.data_source import NAME, BatchReader, PaimonDataSource, register
from stream_app.spark.read.stream_reader import StreamReader
from stream_app.table.opening import open_file_store_table
from tests.support.judges.normal_rows import Row, normal_rows


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> SparkSession:
    """Return a session with settings of its own, in which the source is registered."""
    session = spark.newSession()
    register(session)
    return session


def frame(source: SparkSession, path: str, **options: str) -> DataFrame:
    return source.read.format(NAME).options(**_named(options)).load(path)


def rows_of(frame: DataFrame, location: str) -> list[Row]:
    """Return all rows in the normal form, in which a TIME is a time again."""
    times = {
        field.name
        for field in open_file_store_table(location).schema.fields
        if field.data_type.root is TypeRoot.TIME
    }
    table = frame.toArrow()
    for name in times & set(table.column_names):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table.column(name).cast(pa.time32("ms")))
    return normal_rows(table)


def a_source(path: str, clock: Clock | None = None, /, **options: str) -> PaimonDataSource:
    return PaimonDataSource({"path": path, **_named(options)}, clock)


def a_reader(path: str, **options: str) -> BatchReader:
    source = a_source(path, **options)
    return source.reader(source.schema())


def a_stream(path: str, clock: Clock | None = None, /, **options: str) -> StreamReader:
    source = a_source(path, clock, **options)
    return source.streamReader(source.schema())


def micro_batches(stream: StreamReader, *names: str) -> list[list[tuple[Any, ...]]]:
    """Return the micro-batches that Spark requests until there are none, sorted by column."""
    taken: list[list[tuple[Any, ...]]] = []
    while True:
        start = stream._last_end or stream.initialOffset()
        end = stream.latestOffset()
        if end == start:
            return taken
        parts = stream.partitions(start, end)
        rows = [row for part in parts for batch in stream.read(part) for row in batch.to_pylist()]
        taken.append(values(rows, *names))


def values(rows: Sequence[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in names) for row in rows)


def _named(options: dict[str, str]) -> dict[str, str]:
    return {key.replace("__", ".").replace("_", "-"): text for key, text in options.items()}
