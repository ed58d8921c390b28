"""A signal makes Debezium read a changing table again, and the warehouse equals the table."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.ingest_process import write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.judges.paimon_java import PaimonJava
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NAME = "again"
KEYS = range(60)
SIGNAL = json.dumps({"data-collections": ["shop.a"], "type": "incremental"})
BY_KAFKA = {
    "id": "2",
    "type": "execute-snapshot",
    "data": {"data-collections": ["shop.b"], "type": "incremental"},
}
AGAIN_S = 5.0
"""A signal that comes before the connector reads its topic may be lost."""


@pytest.mark.variant
def test_a_table_is_read_again_by_a_signal_while_it_changes(
    tmp_path: Path, testbed: Testbed, ingest_server: IngestServer, paimon_java: PaimonJava
) -> None:
    """The connector sends no rows that were there before, so only the snapshot brings them."""
    with testbed.postgres_database(NAME) as database:
        columns = "id varchar(64) primary key, type varchar(32) not null, data varchar(2048)"
        database.execute(f"create table signals ({columns})")
        for table in "ab":
            database.execute(f"create table {table} (id int primary key, v text)")
        for key in KEYS:
            for table in "ab":
                database.execute(f"insert into {table} values ({key}, 'old')")
        signals = new_topic(testbed.broker)
        database.start_connector(
            testbed.connect,
            {
                "snapshot.mode": "no_data",
                "signal.data.collection": "shop.signals",
                "signal.enabled.channels": "source,kafka",
                "signal.kafka.topic": signals,
                "signal.kafka.bootstrap.servers": testbed.broker.bootstrap,
                "incremental.snapshot.chunk.size": "7",
                "notification.enabled.channels": "sink",
                "notification.sink.topic.name": f"{NAME}-notices",
            },
        )
        database.execute(f"insert into signals values ('1', 'execute-snapshot', '{SIGNAL}')")
        for key in KEYS[::4]:
            database.execute(f"update a set v = 'changed' where id = {key}")
            database.execute(f"delete from a where id = {key + 1}")
            database.execute(f"insert into a values ({key + 1000}, 'new')")
        wait_until_completed(testbed, "a")
        wait_until_completed(testbed, "b", signals)
        database.wait_until_sent(testbed.connect)
        expected = dict(database.query("select id, v from a"))
    conf = write_conf(
        tmp_path / "job.toml",
        source={
            "bootstrap-servers": testbed.broker.bootstrap,
            "topic-pattern": rf"{NAME}\.shop\..*",
        },
        sync={
            "warehouse": str(tmp_path / "warehouse"),
            "database": "ods",
            "excluding-tables": "signals|done",
        },
        stream={"checkpoint": str(tmp_path / "checkpoint"), "trigger": "availableNow"},
        spark={"spark.master": "local[2]"},
    )
    result = ingest_server.run(conf)
    assert result.code == 0, result.output
    tables = tmp_path / "warehouse" / "ods.db"
    assert sorted(path.name for path in tables.iterdir()) == ["a", "b"]
    rows = {row["id"]: row["v"] for row in paimon_java.read(tables / "a")}
    assert rows == expected
    assert set(rows.values()) == {"old", "changed", "new"}
    by_kafka = [(row["id"], row["v"]) for row in paimon_java.read(tables / "b")]
    assert sorted(by_kafka) == [(key, "old") for key in KEYS]


def wait_until_completed(testbed: Testbed, table: str, signals: str | None = None) -> None:
    """Wait until Debezium says that it has read a table again.

    Args:
        signals: the topic that gets the signal, until then.
    """
    consumer = KafkaConsumer(bootstrap_servers=testbed.broker.bootstrap)
    place = TopicPartition(f"{NAME}-notices", 0)
    consumer.assign([place])
    sent_at = 0.0

    def is_complete() -> bool:
        nonlocal sent_at
        if signals is not None and time.monotonic() - sent_at > AGAIN_S:
            produce(testbed.broker, signals, [(NAME.encode(), json.dumps(BY_KAFKA).encode())])
            sent_at = time.monotonic()
        consumer.seek(place, 0)
        batches = consumer.poll(timeout_ms=500).values()
        payloads = [
            json.loads(record.value)["payload"] for records in batches for record in records
        ]
        return any(
            payload["type"] == "TABLE_SCAN_COMPLETED"
            and payload["additional_data"]["scanned_collection"] == f"shop.{table}"
            for payload in payloads
        )

    testbed.connect.wait_until(is_complete, f"the snapshot of {table}", NAME)
    consumer.close()
