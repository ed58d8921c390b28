"""A job fills columns of type ARRAY, MAP and ROW, and Paimon's reader reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stream_app.model.schema.data_type import parse_data_type
from stream_app.planning.schema.schema_changes import AddColumn
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import alter_table
from tests.support.engines.stream_app_source import frame, rows_of, source
from tests.support.jobs.job_harness import JobHarness, Message
from tests.support.jobs.table_writer import by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.sound_table import sound_report

__all__ = ["source"]
pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
COLUMNS = (
    "id BIGINT, tags ARRAY<STRING>, counts MAP<STRING, INT>, "
    "items ARRAY<ROW<sku INT NOT NULL, name STRING>>, at ROW<x DOUBLE, y DOUBLE>"
)
OPTIONS = {
    "bucket": "1", "merge-engine": "aggregation", "changelog-producer": "lookup",
    "fields.tags.aggregate-function": "collect", "fields.tags.distinct": "true",
    "fields.counts.aggregate-function": "merge_map",
    "fields.items.aggregate-function": "nested_update", "fields.items.nested-key": "sku",
}  # fmt: skip


def insert(key: int, **columns: Any) -> Message:
    value = json.dumps({"before": None, "after": {"id": key, **columns}, "op": "c"})
    return json.dumps({"id": key}).encode(), value.encode()


def delete(key: int, **columns: Any) -> Message:
    value = json.dumps({"before": {"id": key, **columns}, "after": None, "op": "d"})
    return json.dumps({"id": key}).encode(), value.encode()


@pytest.mark.variant
def test_messages_become_rows_that_paimon_merges_on(
    harness: JobHarness, pypaimon: PyPaimonReader, source: SparkSession
) -> None:
    """Epochs, a writer of Paimon's in between, a new column, bad records; four readers agree."""
    topic = harness.topic(
        [
            insert(1, tags=["a", "b"], counts={"x": 1}, items=[{"sku": 7, "name": "nut"}],
                   at={"x": 1.5, "y": 2}),
            insert(2, tags="[]", counts='{"y":2}', items='[{"sku":1}]', at='{"x":1}'),
            insert(1, tags=["b", "c"], counts='{"x":3,"z":4}',
                   items=[{"sku": 7, "name": "bolt"}, {"sku": 8, "name": None}], at=None),
            insert(3, tags=[["nested"]]),
            insert(4, items=[{"name": "without its number"}]),
        ]
    )  # fmt: skip
    harness.configure(
        topic,
        table={"columns": COLUMNS, **{f"options.{key}": text for key, text in OPTIONS.items()}},
        stream={"quarantine": str(harness.folder / "quarantine")},
    )
    harness.run()
    assert [line["reason"] for line in harness.quarantine()] == [
        "column 'tags' (ARRAY<STRING>): [[\"nested\"]] is not a value of that type",
        "column 'items' (ARRAY<ROW<`sku` INT NOT NULL, `name` STRING>>): "
        '[{"name":"without its number"}] is not a value of that type',
    ]
    theirs = {"id": 1, "tags": ["d"], "counts": [("x", 5)], "items": None, "at": None}
    harness.java.write(harness.table, [("+I", theirs)], identifier=1)
    alter_table(
        open_file_store_table(str(harness.table)),
        [AddColumn(name="more", data_type=parse_data_type("ARRAY<ROW<v INT>>"))],
    )
    harness.send(topic, [delete(1, tags=["a"], counts={"z": 0}, items=[{"sku": 8}], at=None)])
    harness.send(topic, [insert(2, counts={"y": None}, more=[{"v": 1}])])
    harness.run()
    expected = [
        {"id": 1, "tags": ["b", "c", "d"], "counts": [("x", 5)],
         "items": [{"sku": 7, "name": "bolt"}], "at": {"x": 1.5, "y": 2.0}, "more": None},
        {"id": 2, "tags": [], "counts": [("y", None)], "items": [{"sku": 1, "name": None}],
         "at": {"x": 1.0, "y": None}, "more": [{"v": 1}]},
    ]  # fmt: skip
    location = str(harness.table)
    assert sound_report(open_file_store_table(location)).file_count
    merged_rows = harness.java.read(location)
    harness.java.compact(harness.table)  # PyPaimon merges, but undoes nothing
    readers = {
        "Java": merged_rows,
        "PyPaimon": normal_rows(pypaimon.read(harness.table)),
        "Spark": rows_of(frame(source, location), location),
    }
    for name, rows in readers.items():
        sorted_tags = [{**row, "tags": sorted(row["tags"])} for row in rows]
        assert by_content(sorted_tags) == by_content(expected), name
