"""Captures what real connectors send of a table's life: `python -m tests.testbed.capture`.

Writes tests/fixtures/cdc/debezium_pg_alters.jsonl and debezium_mariadb_alters.jsonl anew. Each has
the same life twice: with schema envelopes (topics `envelope.…`), and without (`plain.…`).

`python -m tests.testbed.capture shop` writes demo/debezium.jsonl anew: the demo's three tables,
whose envelopes the demo repeats.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from stream_app.app.demo.embedded_broker import EmbeddedBroker
from stream_app.app.demo.shop import ALTERS
from stream_app.app.demo.shop import TABLES as SHOP_TABLES
from stream_app.app.demo.source_table import CAPTURED
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

SHOP = (
    "create table public.customers (id int primary key, name varchar(40), city varchar(20))",
    "create table public.orders (id bigint primary key, customer_id int, state varchar(10),"
    " total numeric(8, 2), changed_at timestamp)",
    "create table public.order_items (order_id bigint, line smallint, sku varchar(12),"
    " quantity int, primary key (order_id, line))",
    *(f"alter table public.{name} replica identity full" for name in SHOP_TABLES),
)
SHOP_LIFE = (
    "insert into public.customers values (1, 'Ada 00001', 'Kyōto')",
    "insert into public.orders values (1, 1, 'new', 999999.99, '2026-01-01 00:00:01.234567')",
    "insert into public.order_items values (1, 1, 'SKU-000001', 3)",
    "update public.orders set state = 'paid' where id = 1",
    "update public.order_items set line = 10 where order_id = 1",
    *(alter.replace("TABLE ", "TABLE public.") for alter in ALTERS),
    "update public.customers set email = 'ada@example.org', city = 'Lima' where id = 1",
    "update public.orders set total = 99999999.99 where id = 1",
    "delete from public.order_items where order_id = 1",
)


def main(words: Sequence[str]) -> None:
    if words == ["shop"]:
        _capture_shop()
    else:
        _capture_alters()


def _capture_shop() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="stream_app-capture-") as folder,
        EmbeddedBroker(Path(folder)) as broker,
        running_testbed(broker) as testbed,
        testbed.postgres_database("shop") as postgres,
    ):
        for statement in SHOP:
            postgres.execute(statement)
        settings = {
            "topic.prefix": "shop",
            "schema.include.list": "public,shop",
            "column.propagate.source.type": ".*",
            "key.converter.schemas.enable": "true",
            "value.converter.schemas.enable": "true",
        }
        postgres.start_connector(testbed.connect, settings)
        # The connector has left the snapshot behind when `done` has two rows.
        postgres.wait_until_sent(testbed.connect)
        for statement in SHOP_LIFE:
            postgres.execute(statement)
        postgres.wait_until_sent(testbed.connect)
        topics = [f"shop.public.{name}" for name in SHOP_TABLES]
        _write(CAPTURED, (each for topic in topics for each in _records(broker.bootstrap, topic)))


def _capture_alters() -> None:
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
    topics = [f"{prefix}.{name}.shop.story" for prefix in ("envelope", "plain")]
    records = (each for topic in topics for each in _records(testbed.broker.bootstrap, topic))
    _write(FIXTURES / f"debezium_{name}_alters.jsonl", records)


def _write(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    lines = (json.dumps(record) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8")


def _records(bootstrap: str, topic: str) -> Iterator[dict[str, Any]]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
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
    main(sys.argv[1:])
