"""Captures what real connectors send of a table's life: `python -m tests.testbed.capture`.

Rewrites tests/fixtures/cdc/debezium_pg_alters.jsonl and debezium_mariadb_alters.jsonl. Each has
the same life twice: with schema envelopes (topics `envelope.…`), and without (`plain.…`).

`python -m tests.testbed.capture shop` rewrites demo/debezium.jsonl: the demo's three tables,
whose envelopes the demo repeats. `python -m tests.testbed.capture settings` rewrites
tests/fixtures/cdc/debezium_pg_settings.jsonl: one row's life under each setting that changes
messages, in topics `SETTING.shop.typed`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.demo.connector import CAPTURED_MESSAGES
from stream_app.demo.shop import ALTERS
from stream_app.demo.shop import TABLES as SHOP_TABLES
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

TYPED = (
    "create extension hstore with schema shop",
    "create table typed (id int primary key, n numeric(10, 2), d date, t time(6),"
    ' ts timestamp(6), tz timestamptz, i interval, h hstore, b bytea, "odd-name" text)',
    "insert into typed values (1, 12.34, '2024-02-29', '23:59:59.123456',"
    " '2024-02-29 23:59:59.123456', '2024-02-29 23:59:59.123456+02',"
    " '1 day 02:03:04.5', 'a=>1,b=>NULL', '\\xfbff10', 'x')",
    "create table signal (id varchar(42) primary key, type varchar(32), data varchar(2048))",
    "create table outbox (id uuid primary key, aggregatetype varchar(40), aggregateid varchar(40),"
    " type varchar(40), payload jsonb)",
)
TYPED_LIFE = (
    "update typed set \"odd-name\" = 'y' where id = 1",
    "insert into typed (id, n) values (2, 1)",
    "delete from typed where id = 2",
    "update typed set \"odd-name\" = 'x' where id = 1",
)
MORE_LIFE = {
    "life_whole": (
        "select pg_logical_emit_message(true, 'prefix', 'hello')",
        "insert into signal values ('a', 'execute-snapshot',"
        ' \'{"data-collections": ["shop.typed"], "type": "incremental"}\')',
    ),
    "life_outbox": (
        "insert into outbox values (gen_random_uuid(), 'order', '7', 'paid',"
        ' \'{"id": 7, "total": 1.5}\')',
    ),
}
PLAIN = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
ONLY_TYPED = {"table.include.list": "shop.typed,shop.done"}
ENVELOPE = {"value.converter.schemas.enable": "true"}
MODES = {
    "default": {},
    "text": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "binary.handling.mode": "hex",
        "interval.handling.mode": "string",
    },
    "double": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "connect",
        "binary.handling.mode": "base64",
        "hstore.handling.mode": "map",
    },
    "micros": {
        "time.precision.mode": "microseconds",
        "binary.handling.mode": "base64-url-safe",
    },
    "nanos": {"time.precision.mode": "nanoseconds"},
    "clock": {"time.precision.mode": "adaptive_time_microseconds"},
    "numeric": {"value.converter.decimal.format": "NUMERIC"},
    "named": {"field.name.adjustment.mode": "avro", "schema.name.adjustment.mode": "avro"},
    "propagated": {"column.propagate.source.type": ".*"},
}
FLAT = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.add.fields": "op,db,schema,table",
}
_DELETES = "transforms.unwrap.delete.tombstone.handling.mode"
TYPED_ONLY = {
    "predicates": "typed",
    "predicates.typed.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.typed.pattern": ".*typed",
}
SETTINGS: dict[str, dict[str, str]] = {
    **{f"plain_{name}": mode for name, mode in MODES.items()},
    **{f"envelope_{name}": {**mode, **ENVELOPE} for name, mode in MODES.items()},
    "life_whole": {
        "provide.transaction.metadata": "true",
        "heartbeat.interval.ms": "100",
        "signal.data.collection": "shop.signal",
        "table.include.list": "shop.typed,shop.done,shop.signal",
    },
    "life_no_tombstones": {"tombstones.on.delete": "false"},
    "life_skipped": {"skipped.operations": "d,t"},
    "life_text_keys": {"key.converter": "org.apache.kafka.connect.storage.StringConverter"},
    "life_cloud_events": {
        "value.converter": "io.debezium.converters.CloudEventsConverter",
        "value.converter.serializer.type": "json",
        "value.converter.data.serializer.type": "json",
    },
    **{
        f"life_flat_{mode.replace('-', '_')}": {**FLAT, _DELETES: mode}
        for mode in (
            "drop",
            "tombstone",
            "rewrite",
            "rewrite-with-tombstone",
            "delete-to-tombstone",
        )
    },
    "life_flat_bare": {**FLAT, "transforms.unwrap.add.fields": ""},
    "life_flat_prefix": {**FLAT, "transforms.unwrap.add.fields.prefix": "x_", _DELETES: "rewrite"},
    "life_router": {
        **TYPED_ONLY,
        "transforms": "route",
        "transforms.route.type": "io.debezium.transforms.ByLogicalTableRouter",
        "transforms.route.predicate": "typed",
        "transforms.route.topic.regex": "(.*)typed",
        "transforms.route.topic.replacement": "$1all",
    },
    "life_router_field": {
        **TYPED_ONLY,
        "transforms": "route",
        "transforms.route.type": "io.debezium.transforms.ByLogicalTableRouter",
        "transforms.route.predicate": "typed",
        "transforms.route.topic.regex": "(.*)typed",
        "transforms.route.topic.replacement": "$1all",
        "transforms.route.key.field.name": "origin",
    },
    "life_outbox": {
        "predicates": "outbox",
        "predicates.outbox.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.outbox.pattern": ".*outbox",
        "transforms": "events",
        "transforms.events.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.events.predicate": "outbox",
        "transforms.events.table.expand.json.payload": "true",
        "table.include.list": "shop.done,shop.outbox",
    },
    "life_tokyo": {
        **TYPED_ONLY,
        "transforms": "zone",
        "transforms.zone.type": "io.debezium.transforms.TimezoneConverter",
        "transforms.zone.predicate": "typed",
        "transforms.zone.converted.timezone": "Asia/Tokyo",
    },
    "life_inserted": {
        "transforms": "place",
        "transforms.place.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.place.topic.field": "from_topic",
    },
    "life_hoisted": {
        "transforms": "hoist",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "row",
    },
}


def main(words: Sequence[str]) -> None:
    if words == ["shop"]:
        _capture_shop()
    elif words == ["settings"]:
        _capture_settings()
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
        _write(
            CAPTURED_MESSAGES,
            (record for topic in topics for record in _records(broker.bootstrap, topic)),
        )


def _capture_settings() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="stream_app-capture-") as folder,
        EmbeddedBroker(Path(folder)) as broker,
        running_testbed(broker) as testbed,
        testbed.postgres_database("shop") as postgres,
    ):
        for statement in TYPED:
            postgres.execute(statement)
        for name, settings in SETTINGS.items():
            usual = {"topic.prefix": name, "slot.drop.on.stop": "true", **PLAIN, **ONLY_TYPED}
            postgres.start_connector(testbed.connect, {**usual, **settings}, connector=name)
            postgres.wait_until_sent(testbed.connect)
            common = TYPED_LIFE if name.startswith("life_") else ()
            for statement in (*common, *MORE_LIFE.get(name, ())):
                postgres.execute(statement)
            postgres.wait_until_sent(testbed.connect)
            postgres.end_connector(testbed.connect, name)
        _write(FIXTURES / "debezium_pg_settings.jsonl", _all_records(broker.bootstrap))


def _all_records(bootstrap: str) -> Iterator[dict[str, Any]]:
    """Yield the records of all topics but `done`; of a heartbeat's topic only the first."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    topics = sorted(name for name in consumer.topics() if not name.endswith(".done"))
    consumer.close()
    for topic in topics:
        records = _records(bootstrap, topic)
        yield from islice(records, 1 if "heartbeat" in topic else None)


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
    records = (record for topic in topics for record in _records(testbed.broker.bootstrap, topic))
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
