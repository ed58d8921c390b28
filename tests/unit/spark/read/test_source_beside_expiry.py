"""Spark's source protects the version that it reads, and unread ones, from expiry."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.spark.read.data_source import BatchReader
from stream_app.spark.read.stream_reader import StreamReader
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from tests.support.engines.stream_app_source import a_reader, a_stream
from tests.support.tables.small_table import TIME_MS, SmallTable, StandingClock, small_table

pytestmark = pytest.mark.usefixtures("unsynced")
HOUR_NS = 3600 * 10**9


def a_table(folder: Path, **options: str) -> SmallTable:
    """Three snapshots of a row."""
    table = small_table(folder / "db.db" / "t", "k INT, v STRING", ("k",), **options)
    for value in "abc":
        table.commit(("+I", {"k": 1, "v": value}))
    return table


def read(reader: BatchReader, parts: Sequence[InputPartition]) -> list[dict[str, Any]]:
    """Parts read by a copy of the reader, as in a task."""
    in_task = pickle.loads(pickle.dumps(reader))
    return [row for part in parts for batch in in_task.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("version", [{}, {"scan.snapshot-id": "3"}])
def test_a_planned_version_is_kept_for_as_long_as_was_asked(
    tmp_path: Path, version: dict[str, str]
) -> None:
    table = a_table(tmp_path)
    reader = a_reader(table.path, **{"read.protect": "1 h"}, **version)
    assert table.table.tags.names() == [], "it is not planned yet"
    parts = reader.partitions()
    (tag,) = table.table.tags.tags()
    assert (tag.snapshot.snapshot_id, tag.time_retained_ms) == (3, 3_600_000)
    table.commit(("+U", {"k": 1, "v": "new"}))
    for _ in range(5):  # compactions replace what was read
        table.commit(("+U", {"k": 1, "v": "new"}))
    table.compact()
    expiry = ExpireSnapshots(table.table)
    expiry.execute(expiry.plan(expire_config(table.table.options, num_max=1, num_min=1)))
    earliest = table.table.snapshots.earliest_id()
    assert earliest is not None
    assert earliest > 3
    assert read(reader, parts) == [{"k": 1, "v": "c"}]


def test_a_query_on_a_quiet_table_is_not_forgotten(tmp_path: Path) -> None:
    table = a_table(tmp_path, consumer__expiration_time="1 h")
    written = Path(table.path) / "consumer" / "consumer-spark"
    clock = StandingClock()

    def look(query: StreamReader) -> bool:
        """Age the file, and return whether the query writes its sign of life again."""
        os.utime(written, ns=(TIME_MS * 10**6 - HOUR_NS,) * 2)
        query.latestOffset()
        return written.stat().st_mtime_ns > TIME_MS * 10**6

    def query() -> StreamReader:
        return a_stream(table.path, clock, consumer_id="spark")

    waiting = query()
    waiting.commit(waiting.latestOffset())
    for seconds, says_so in ((1000, False), (1200, True), (2300, False), (2400, True)):
        clock.millis = TIME_MS + 1000 * seconds
        assert look(waiting) == says_so, seconds
    assert look(query()), "one that goes on after a restart says so at once"
    assert table.table.consumers.next_snapshot_id("spark") == 4
    table.table.consumers.delete("spark")
    query().latestOffset()
    assert not written.exists(), "a forgotten consumer holds nothing before it has read"
