"""A whole job reads every format through a real broker and Spark, and PyPaimon reads the rows.

The messages of Maxwell were captured from MariaDB; the others are those of Paimon's own tests.
"""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers.schema_registry import confluent_message, schema_registry
from tests.support.jobs.job_harness import JobHarness
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.messages.avro_events import ENVELOPE, a_row, event
from tests.support.messages.debezium_messages import captured_messages

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]

PRODUCT = "id INT NOT NULL, name STRING, description STRING, weight DOUBLE, age INT, address STRING"
LINES = "order_id BIGINT NOT NULL, line INT NOT NULL, qty INT"
APPENDED = {"options.bucket": "-1", "options.changelog-producer": "none"}
CUSTOMER = "id INT NOT NULL, name STRING, balance DECIMAL(12,2), joined DATE, raw BYTES"


def send(harness: JobHarness, file: str, topic: str, only: bytes = b"") -> str:
    rows = captured_messages(file, topic).to_pylist()
    return harness.topic((row["key"], row["value"]) for row in rows if only in row["value"])


def run(
    harness: JobHarness, folder: Path, topic: str, name: str, columns: str, *keys: str, **more: str
) -> JobHarness:
    own_harness = replace(harness, folder=folder)
    folder.mkdir()
    own_harness.configure(
        topic,
        source={"format": name, **more},
        table={"columns": columns} | ({"primary-keys": list(keys)} if keys else APPENDED),
        stream={"quarantine": str(folder / "quarantine")},
    )
    own_harness.run(*([] if keys else ["table.primary-keys="]))
    assert own_harness.quarantine() == []
    return own_harness


def pypaimon_rows(
    reader: PyPaimonReader, harness: JobHarness, *names: str
) -> list[tuple[Any, ...]]:
    rows = reader.read(harness.table).to_pylist()
    return sorted(tuple(row[name] for name in names) for row in rows)


def test_each_format_gives_the_tables_rows(
    harness: JobHarness, pypaimon: PyPaimonReader, tmp_path: Path
) -> None:
    topic = send(harness, "maxwell", "maxwell", b'"order_lines"')
    job = run(harness, tmp_path / "maxwell", topic, "maxwell-json", LINES, "order_id", "line")
    assert pypaimon_rows(pypaimon, job, "order_id", "line", "qty") == [(9007199254740993, 2, 7)]

    topic = send(harness, "canal", "shop")
    more = {"canal.truncate": "ignore"}
    job = run(harness, tmp_path / "canal", topic, "canal-json", CUSTOMER, "id", **more)
    assert pypaimon_rows(pypaimon, job, "id", "name", "balance", "raw") == [
        (3, "Ada Novak", Decimal("1234.50"), None),
        (20, "李雷 🚀", Decimal("-0.01"), b"\x00\xff\x10"),
    ]

    topic = send(harness, "paimon_cdc_tests", "ogg.evolution")
    job = run(harness, tmp_path / "ogg", topic, "ogg-json", PRODUCT, "id")
    after: list[tuple[Any, ...]] = [
        (102, 8.1, None, None),
        (103, 0.8, 18, None),
        (104, 0.75, 24, None),
        (105, 0.875, None, "Beijing"),
        (107, 5.3, None, None),
    ]
    assert pypaimon_rows(pypaimon, job, "id", "weight", "age", "address") == after

    topic = send(harness, "paimon_cdc_tests", "dms.evolution")
    job = run(harness, tmp_path / "dms", topic, "aws-dms-json", PRODUCT, "id")
    after[1:3] = [(103, None, None, None), (104, 0.75, None, None)]  # without a column
    assert pypaimon_rows(pypaimon, job, "id", "weight", "age", "address") == after

    topic = harness.topic([(b'{"id":1}', b'{"v":"a"}'), (b'{"id":1}', b'{"v":"b"}')])
    columns = "id INT NOT NULL, v STRING"
    more = {"json.key-columns": "id"}
    job = run(harness, tmp_path / "json", topic, "json", columns, "id", **more)
    assert pypaimon_rows(pypaimon, job, "id", "v") == [(1, "b")]

    with schema_registry() as registry:
        number = registry.add(ENVELOPE)
        rng = random.Random(1)
        rows = [{**a_row(rng), "id": key, "amount": b"\x01\xe2", "name": "Ada"} for key in (1, 2)]
        changes = [("c", None, rows[0]), ("c", None, rows[1]), ("d", rows[0], None)]
        events = ({**event(rng), "op": op, "before": old, "after": new} for op, old, new in changes)
        source = {"connector": "mysql", "table": "orders"}
        values = [{**message, "source": {**message["source"], **source}} for message in events]
        topic = harness.topic(
            (None, confluent_message(number, ENVELOPE, value)) for value in values
        )
        more = {"debezium.schema.registry.url": registry.url}
        columns = "id BIGINT NOT NULL, name STRING, amount DECIMAL(12,2)"
        job = run(harness, tmp_path / "avro", topic, "debezium-avro", columns, "id", **more)
    assert pypaimon_rows(pypaimon, job, "id", "name", "amount") == [(2, "Ada", Decimal("4.82"))]

    topic = send(harness, "paimon_cdc_tests", "json.evolution")
    job = run(harness, tmp_path / "append", topic, "json", "a STRING, c STRING")
    assert pypaimon_rows(pypaimon, job, "a") == [("a1",), ("a2",), ("a3",), ("a4",)]
