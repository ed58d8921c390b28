"""Tables read by our source in a real Spark, as Paimon's Java reader reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop import test_append_tables as append
from tests.interop.test_reading import written
from tests.support.normal_rows import without_nanoseconds
from tests.support.paimon_java import PaimonJava
from tests.support.spark_source import frame, rows_of, source
from tests.support.table_writer import TableWriter, by_content

__all__ = ["source"]
pytestmark = [pytest.mark.java, pytest.mark.spark, pytest.mark.usefixtures("unsynced")]


@pytest.mark.parametrize("name", ["every type", "nanoseconds", "partitions", "thin"])
def test_rows_are_those_that_java_reads(
    source: SparkSession, paimon_java: PaimonJava, tmp_path: Path, seed: int, name: str
) -> None:
    """Of one key or several, with partitions or without, compacted in part."""
    location = written(tmp_path, name, seed).location
    found = rows_of(frame(source, location), location)
    assert by_content(found) == by_content(without_nanoseconds(paimon_java.read(location)))


def test_rows_of_append_tables_are_those_that_java_reads(
    source: SparkSession, paimon_java: PaimonJava, tmp_path: Path, seed: int
) -> None:
    table = append.a_table(tmp_path, "a INT, dt STRING, k BIGINT, v STRING", ("dt",))
    writer = TableWriter(table)
    for changes in append.some_inserts(table, seed, (9, 9, 9)):
        writer.write(changes)
    found = rows_of(frame(source, table.location), table.location)
    assert by_content(found) == by_content(paimon_java.read(table.location))


def test_rows_of_a_table_whose_columns_have_changed(
    source: SparkSession, paimon_java: PaimonJava, tmp_path: Path, seed: int
) -> None:
    location = str(tmp_path / "db.db" / "t")
    paimon_java.create(
        location, [("k", "INT NOT NULL"), ("a", "INT"), ("b", "STRING")], primary_keys=("k",),
        options={"bucket": 1},
    )  # fmt: skip
    paimon_java.write(location, [("+I", {"k": 1, "a": 2, "b": "x"})], identifier=0)
    paimon_java.alter(location, ("type", "a", "BIGINT"), ("rename", "b", "c"), ("add", "d", "INT"))
    new = {"k": 2, "a": 2**40, "c": "y", "d": 3}
    paimon_java.write(location, [("+I", new)], identifier=1)
    assert by_content(rows_of(frame(source, location), location)) == by_content(
        paimon_java.read(location)
    )
    first = frame(source, location, scan__snapshot_id="1")
    assert first.schema.simpleString() == "struct<k:int,a:int,b:string>"
    assert [tuple(row) for row in first.collect()] == [(1, 2, "x")]
