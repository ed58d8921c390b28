"""Real engines read a job's table in a catalog on S3, which it also publishes to Iceberg.

Java reads it with Paimon's own file system of S3, and PyIceberg with Arrow's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from stream_app.fileio.store_registry import file_io_of
from tests.support.jobs.job_harness import JobHarness, change
from tests.support.judges.named_table import NamedTable
from tests.support.judges.paimon_java import PaimonJava
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
ICEBERG = {
    "metadata.iceberg.format-version": "3",
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "num-sorted-run.compaction-trigger": "2",
}


@pytest.mark.variant
@pytest.mark.parametrize(
    ("storage", "metadata"),
    [
        ("table-location", "db.db/t/metadata"),
        pytest.param("hadoop-catalog", "iceberg/db/t/metadata", marks=pytest.mark.variant),
    ],
)
def test_a_job_on_s3_in_a_catalog_is_read_by_java_and_pyiceberg(
    harness: JobHarness, s3: S3Server, java_on_s3: PaimonJava, storage: str, metadata: str
) -> None:
    warehouse = f"s3://{s3.new_bucket()}/warehouse"
    catalog = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{harness.folder}/catalog.db"}
    topic = harness.topic([change(key, f"v{key}") for key in range(300)])
    options = {**ICEBERG, "metadata.iceberg.storage": storage}
    harness.configure(
        topic,
        table={"warehouse": warehouse, **{f"options.{k}": v for k, v in options.items()}},
        catalog=catalog,
        **{"file-system": s3.options},
    )
    harness.run()
    harness.send(topic, [change(1, "new", "v1"), change(2, None, "v2"), change(1000, "late")])
    harness.run()
    compact_run = harness.server.compact(Path("t"), "--conf", str(harness.conf))
    assert compact_run.code == 0, compact_run.output

    expected = {key: f"v{key}" for key in range(300) if key != 2} | {1: "new", 1000: "late"}
    java_table = NamedTable(
        catalog={**catalog, "warehouse": warehouse, **s3.options}, database="db", table="t"
    )
    assert by_id(java_on_s3.read(java_table)) == expected
    snapshots = java_on_s3.snapshots(java_table)
    assert {snapshot["commitKind"] for snapshot in snapshots} == {"APPEND", "COMPACT"}
    folder = f"{warehouse}/{metadata}"
    assert by_id(read_by_pyiceberg(folder, s3)) == expected

    # Java commits under the catalog's lock, and the job continues behind it.
    row = {"id": 2000, "v": "java"}
    java_on_s3.write(java_table, [("+I", row)], identifier=0, options={"write-only": True})
    harness.send(topic, [change(2001, "after")])
    harness.run()
    compact_run = harness.server.compact(Path("t"), "--conf", str(harness.conf))
    assert compact_run.code == 0, compact_run.output
    expected |= {2000: "java", 2001: "after"}
    assert by_id(java_on_s3.read(java_table)) == expected
    assert by_id(read_by_pyiceberg(folder, s3)) == expected


def by_id(rows: list[dict[str, Any]]) -> Mapping[int, str]:
    """id → v; a row that is there twice fails."""
    rows_by_id = {row["id"]: row["v"] for row in rows}
    assert len(rows_by_id) == len(rows)
    return rows_by_id


def read_by_pyiceberg(folder: str, s3: S3Server) -> list[dict[str, Any]]:
    """The rows of the version that the hint names."""
    version = file_io_of(folder, s3.options)[1].read_bytes(f"{folder}/version-hint.text")
    login = {
        "s3.endpoint": s3.endpoint,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }
    path = f"{folder}/v{int(version)}.metadata.json"
    assert json.loads(file_io_of(folder, s3.options)[1].read_bytes(path))["format-version"] == 3
    rows: list[dict[str, Any]] = (
        StaticTable.from_metadata(path, login).scan().to_arrow().to_pylist()
    )
    return rows
