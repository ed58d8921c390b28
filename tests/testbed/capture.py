"""Captures what real connectors send of one table's life: `python -m tests.testbed.capture`.

Writes tests/fixtures/cdc/debezium_pg_alters.jsonl and debezium_mariadb_alters.jsonl anew. Each has
the same life twice: with schema envelopes (topics `envelope.…`), and without (`plain.…`).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from demo.embedded_broker import EmbeddedBroker
from tests.testbed.source_database import SourceDatabase
from tests.testbed.testbed import Testbed, running_testbed

FIXTURES = Path(__file__).parents[1] / "fixtures" / "cdc"
LONG = Random(1).randbytes(1500).hex()
"""What PostgreSQL keeps out of its row, and does not send when it is unchanged."""

BEFORE = (
    "create table story (id int not null primary key, name varchar(10), amount numeric(8, 2))",
    "insert into story values (1, 'Ada', 1.50), (2, null, -0.01)",
)
LIFE = (
    "update story set amount = 2.50 where id = 1",
    "update story set id = 3 where id = 2",
    "alter table story add column phone varchar(20)",
    "insert into story values (4, 'Bob', 4, '+44 1')",
    "alter table story add column level int not null default 7",
    "insert into story (id, name) values (5, 'Cyd')",
    "alter table story {type} amount {to} numeric(10, 2)",
    "alter table story {type} name {to} varchar(40)",
    "update story set amount = 12345678.90, name = 'Augusta Ada King' where id = 1",
    "alter table story rename column name to title",
    "update story set level = 8 where id = 1",
    "alter table story drop column phone",
    "insert into story values (6, 'Dan', 6, 6)",
    "alter table story add column body {text}",
    "update story set body = '{long}' where id = 6",
    "update story set level = 9 where id = 6",
    "alter table story {type} level {to} varchar(5)",
    "delete from story where id = 5",
    "truncate table story",
    "insert into story (id, title) values (7, 'Eve')",
)


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="stream_app-capture-") as folder,
        EmbeddedBroker(Path(folder)) as broker,
        running_testbed(broker) as testbed,
        testbed.postgres_database("shop") as postgres,
        testbed.mariadb_database("shop") as mariadb,
    ):
        _capture(testbed, postgres, {"type": "alter column", "to": "type", "text": "text"}, "pg")
        _capture(testbed, mariadb, {"type": "modify", "to": "", "text": "longtext"}, "mariadb")


def _capture(testbed: Testbed, database: SourceDatabase, words: dict[str, str], name: str) -> None:
    for statement in BEFORE:
        database.execute(statement)
    for prefix in ("envelope", "plain"):
        with_schema = str(prefix == "envelope").lower()
        database.start_connector(
            testbed.connect,
            {
                "topic.prefix": f"{prefix}.{name}",
                "key.converter.schemas.enable": with_schema,
                "value.converter.schemas.enable": with_schema,
            },
            connector=f"{name}_{prefix}",
        )
    # The second row of `done` is sent only when the connectors have left the snapshot behind.
    database.wait_until_sent(testbed.connect)
    for statement in LIFE:
        database.execute(statement.format(long=LONG, **words))
    database.wait_until_sent(testbed.connect)
    topics = [f"{prefix}.{name}" for prefix in ("envelope", "plain")]
    records = [record for topic in topics for record in _records(testbed.broker.bootstrap, topic)]
    lines = (json.dumps(record) + "\n" for record in records)
    (FIXTURES / f"debezium_{name}_alters.jsonl").write_text("".join(lines), encoding="utf-8")


def _records(bootstrap: str, prefix: str) -> Iterator[dict[str, Any]]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    topics = [each for each in consumer.topics() if each.startswith(f"{prefix}.")]
    [topic] = [each for each in topics if each.endswith(".story")]
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    end = consumer.end_offsets([place])[place]
    for record in consumer:
        yield {
            "topic": topic,
            "partition": 0,
            "offset": record.offset,
            "key": record.key and record.key.decode(),
            "value": record.value and record.value.decode(),
        }
        if record.offset + 1 == end:
            break
    consumer.close()


if __name__ == "__main__":
    main()
