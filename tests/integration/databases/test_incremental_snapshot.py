"""Debezium reads a table again by a signal, while the table changes: the warehouse equals it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.support.ingest_process import write_conf
from tests.support.ingest_server import IngestServer
from tests.support.paimon_java import PaimonJava
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NAME = "again"
KEYS = range(60)
SIGNAL = json.dumps({"data-collections": ["shop.a"], "type": "incremental"})


def test_a_table_is_read_again_by_a_signal_while_it_changes(
    tmp_path: Path, testbed: Testbed, ingest_server: IngestServer, paimon_java: PaimonJava
) -> None:
    """The connector sends no rows that were there before, so only the snapshot brings them."""
    with testbed.postgres_database(NAME) as database:
        columns = "id varchar(64) primary key, type varchar(32) not null, data varchar(2048)"
        database.execute(f"create table signals ({columns})")
        database.execute("create table a (id int primary key, v text)")
        for key in KEYS:
            database.execute(f"insert into a values ({key}, 'old')")
        database.start_connector(
            testbed.connect,
            {
                "snapshot.mode": "no_data",
                "signal.data.collection": "shop.signals",
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
        wait_until_completed(testbed)
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
    done = ingest_server.run(conf)
    assert done.code == 0, done.output
    tables = tmp_path / "warehouse" / "ods.db"
    assert [path.name for path in tables.iterdir()] == ["a"]
    found = {row["id"]: row["v"] for row in paimon_java.read(tables / "a")}
    assert found == expected
    assert set(found.values()) == {"old", "changed", "new"}


def wait_until_completed(testbed: Testbed) -> None:
    """Wait until Debezium says that the snapshot is complete."""
    consumer = KafkaConsumer(bootstrap_servers=testbed.broker.bootstrap)
    place = TopicPartition(f"{NAME}-notices", 0)
    consumer.assign([place])

    def is_complete() -> bool:
        consumer.seek(place, 0)
        batches = consumer.poll(timeout_ms=500).values()
        told = [record.value for records in batches for record in records]
        return any(b"COMPLETED" in each and b"Incremental Snapshot" in each for each in told)

    testbed.connect.wait_until(is_complete, "the snapshot to complete", NAME)
    consumer.close()
