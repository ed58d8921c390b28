"""Batch reads read the version that a table's own options name, as those of Paimon's Java do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stream_app
from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.spark.read.source_options import read_source_options
from stream_app.spark.read.table_scan import table_scan
from tests.support.judges.normal_rows import normal_rows, sorted_rows
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.tables.small_table import TIME_MS

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


@pytest.fixture
def path(tmp_path: Path, paimon_java: PaimonJava) -> Path:
    """Three APPENDs with a new value each, a column from the second on, a compaction, a tag."""
    path = tmp_path / "db.db" / "t"
    paimon_java.create(
        path, [("k", "INT NOT NULL"), ("v", "STRING")], primary_keys=["k"], options={"bucket": 1}
    )
    paimon_java.write(path, [("+I", {"k": 1, "v": "one"})], identifier=0)
    paimon_java.tag(path, "7", 1)
    paimon_java.alter(path, ("add", "w", "INT"))
    paimon_java.write(path, [("+I", {"k": 1, "v": "two", "w": 2})], identifier=1)
    paimon_java.compact(path)
    paimon_java.write(path, [("+I", {"k": 1, "v": "four", "w": 4})], identifier=2)
    for number in range(1, 5):
        file = path / "snapshot" / f"snapshot-{number}"
        content = json.loads(file.read_text())
        file.write_text(json.dumps({**content, "watermark": 100 * number}))
    return path


def store(path: Path, options: dict[str, Any]) -> None:
    schema = max((path / "schema").glob("schema-*"))
    content = json.loads(schema.read_text())
    content["options"].update({key: str(value) for key, value in options.items()})
    schema.write_text(json.dumps(content))


def java(paimon_java: PaimonJava, path: Path) -> list[Any]:
    return sorted_rows(paimon_java.read(path))


def our_rows(path: Path, **version: Any) -> list[Any]:
    return sorted_rows(normal_rows(stream_app.open_table(path).read(**version).read_all()))


def spark(path: Path) -> list[Any]:
    """Return the rows that the Spark source plans on the driver and reads in its tasks."""
    scan = table_scan(stream_app.open_table(path).table, "", read_source_options({}))
    columns = scan.schema.names
    batches = [batch for part in scan.parts(columns) for batch in scan.read(part, columns)]
    return sorted_rows(normal_rows(pa.Table.from_batches(batches, scan.schema)))


OPTIONS: dict[str, Callable[[list[int]], dict[str, Any]]] = {
    "snapshot": lambda _: {"scan.snapshot-id": 2},
    "an older schema": lambda _: {"scan.snapshot-id": 1},
    "mode and snapshot": lambda _: {"scan.mode": "from-snapshot", "scan.snapshot-id": 2},
    "full mode and snapshot": lambda _: {"scan.mode": "from-snapshot-full", "scan.snapshot-id": 2},
    "tag": lambda _: {"scan.tag-name": "7"},
    "time": lambda times: {"scan.timestamp-millis": times[1]},
    "mode and time": lambda times: {
        "scan.mode": "from-timestamp", "scan.timestamp-millis": times[1],
    },
    "a former name": lambda times: {"log.scan.timestamp-millis": times[1]},
    "watermark": lambda _: {"scan.watermark": 150},
    "version by tag": lambda _: {"scan.version": "7"},
    "version by number": lambda _: {"scan.version": "2"},
    "version by watermark": lambda _: {"scan.version": "watermark-150"},
    "compacted": lambda _: {"scan.mode": "compacted-full"},
    "latest": lambda _: {"scan.mode": "latest"},
    "full": lambda _: {"scan.mode": "full"},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_a_batch_read_reads_the_version_that_the_options_name(
    paimon_java: PaimonJava, path: Path, name: str
) -> None:
    times = [snapshot["timeMillis"] for snapshot in paimon_java.snapshots(path)]
    newest = our_rows(path)
    store(path, OPTIONS[name](times))
    expected = java(paimon_java, path)
    assert (expected == newest) == (name in ("latest", "full"))
    assert our_rows(path) == expected
    assert spark(path) == expected
    # A version that is given counts over the stored one.
    assert our_rows(path, snapshot=4) == newest


def test_several_versions_are_refused_as_java_does(paimon_java: PaimonJava, path: Path) -> None:
    store(path, {"scan.snapshot-id": 1, "scan.tag-name": "7"})
    with pytest.raises(PaimonError):
        java(paimon_java, path)
    with pytest.raises(UsageError, match=r"-id and scan\.tag-name each name a version"):
        our_rows(path)


@pytest.mark.parametrize(
    "options",
    [
        {"scan.bucket": "0"},
        {"batch-scan-mode": "compact"},
        {"incremental-between": "1,2"},
        {"scan.mode": "incremental", "incremental-between": "1,2"},
        {"scan.creation-time-millis": TIME_MS},
        {"scan.file-creation-time-millis": TIME_MS},
        {"scan.fallback-branch": "other"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_the_reader_names_the_option_that_it_refuses(path: Path, options: dict[str, Any]) -> None:
    store(path, options)
    with pytest.raises(UnsupportedTableError, match=next(iter(options))):
        our_rows(path)
