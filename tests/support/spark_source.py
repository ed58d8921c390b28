"""Tables read by the source `stream_app` of the tests' Spark session."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from stream_app.model.data_type import TypeRoot
from stream_app.spark.data_source import NAME, register
from stream_app.table.file_store_table import open_table
from tests.support.normal_rows import Row, normal_rows


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> SparkSession:
    """A session with settings of its own, in which the source is registered."""
    session = spark.newSession()
    register(session)
    return session


def frame(source: SparkSession, path: str, **options: str) -> DataFrame:
    """A batch read; a dot in an option's name is written as two underscores, a hyphen as one."""
    named = {key.replace("__", ".").replace("_", "-"): text for key, text in options.items()}
    return source.read.format(NAME).options(**named).load(path)


def rows_of(found: DataFrame, location: str) -> list[Row]:
    """All rows in the normal form; a TIME is one again."""
    times = {
        field.name
        for field in open_table(location).schema.fields
        if field.data_type.root is TypeRoot.TIME
    }
    table = found.toArrow()
    for name in times & set(table.column_names):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table.column(name).cast(pa.time32("ms")))
    return normal_rows(table)
