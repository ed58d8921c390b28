"""A job is killed while its source's columns change in the middle of an epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.table.opening import open_file_store_table
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.ingest_process import IngestProcess, job_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.jobs.table_writer import by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]

KEY = {"type": "int32", "optional": False, "field": "id"}
INT = {"type": "int32", "optional": True, "field": "qty"}
LONG = {**INT, "type": "int64"}
NOTE = {"type": "string", "optional": True, "field": "note"}
OF_EACH = 300
"""Rows of each version of the source's table."""
VERSIONS: tuple[list[Any], ...] = ([KEY, INT], [KEY, INT, NOTE], [KEY, LONG, NOTE])


def messages() -> Iterator[tuple[bytes, bytes]]:
    """Three versions of a table: a column is added, then another one widened."""
    for number, row in enumerate(rows()):
        fields = VERSIONS[number // OF_EACH]
        image = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
        names = [field["field"] for field in fields]
        after = {name: row[name] for name in names}
        value = {
            "schema": {"type": "struct", "fields": [image], "optional": False},
            "payload": {"before": None, "after": after, "source": {}, "op": "c"},
        }
        key = json.dumps({"id": row["id"]}, separators=(",", ":"))
        yield key.encode(), json.dumps(value, separators=(",", ":")).encode()


def rows() -> list[Mapping[str, Any]]:
    """The rows of all versions, in the columns of the last one."""
    return [
        {
            "id": number,
            "qty": 2**31 + number if version == 2 else number,
            "note": None if version == 0 else f"note {number}",
        }
        for version in range(3)
        for number in range(version * OF_EACH, (version + 1) * OF_EACH)
    ]


def wait_for_schema(job: IngestProcess, table: Path, number: int) -> None:
    schema = table / "schema" / f"schema-{number}"
    job.wait_for(lambda _: schema.exists(), every=0.001)


@pytest.mark.variant
def test_a_job_follows_its_source_and_is_killed_behind_a_new_schema(
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
    pypaimon: PyPaimonReader,
) -> None:
    topic = new_topic(kafka_broker, partitions=2)
    conf = job_conf(
        tmp_path,
        source={
            "bootstrap-servers": kafka_broker.bootstrap,
            "topics": [topic],
            "max-offsets-per-trigger": 400,
            "debezium.unknown-columns": "evolve",
        },
        table={"columns": "id INT, qty INT", "options.num-sorted-run.compaction-trigger": "2"},
        stream={"trigger": "0 seconds"},
    )
    table = tmp_path / "warehouse" / "db.db" / "t"
    produce(kafka_broker, topic, messages())
    job = IngestProcess(conf, tmp_path)
    for number in (1, 2):
        job.start()
        wait_for_schema(job, table, number)
        job.kill()
    rest = ingest_server.run(conf, "stream.trigger=availableNow")
    assert rest.code == 0, rest.output

    assert paimon_java.types(table) == [
        ("id", "INT NOT NULL"),
        ("qty", "BIGINT"),
        ("note", "STRING"),
    ]
    expected = by_content(rows())
    assert by_content(paimon_java.read(table)) == expected
    assert by_content(normal_rows(pypaimon.read(table))) == expected
    snapshots = paimon_java.snapshots(table)
    appends = [
        snapshot["commitIdentifier"] for snapshot in snapshots if snapshot["commitKind"] == "APPEND"
    ]
    assert appends == list(range(len(appends))), "each epoch once, in order"
    assert sorted({snapshot["schemaId"] for snapshot in snapshots})[-1] == 2
    changes = [change for plan in paimon_java.changelog(table) for change in plan.changes]
    assert len(changes) == len(rows()), "no row twice"
    assert open_file_store_table(str(table)).schemas.ids() == [0, 1, 2]
    sound_report(open_file_store_table(str(table)))
