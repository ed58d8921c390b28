"""The demo's messages are those that a real Debezium sends, and its shop remembers their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from random import Random
from typing import Any

from stream_app.demo.connector import CAPTURED_MESSAGES, Connector, Message, captured_tables
from stream_app.demo.shop import ALTERS, TABLES, Shop

PLACED = 1_767_225_601_234_567
VARYING = {"ts_ms", "ts_us", "ts_ns", "txId", "lsn", "sequence"}


def life_again() -> Iterator[Message]:
    """Repeat what tests/testbed/capture.py did in PostgreSQL."""
    tables, connector = captured_tables(), Connector(PLACED)
    customers, orders, items = (tables[name] for name in TABLES)
    yield connector.insert(customers, (1, "Ada 00001", "Kyōto"))
    yield connector.insert(orders, (1, 1, "new", 99_999_999, PLACED))
    yield connector.insert(items, (1, 1, "SKU-000001", 3))
    yield connector.update(orders, (1, 1, "paid", 99_999_999, PLACED))
    yield from connector.update_key(items, (1, 1), (1, 10, "SKU-000001", 3))
    customers.alter()
    orders.alter()
    yield connector.update(customers, (1, "Ada 00001", "Lima", "ada@example.org"))
    yield connector.update(orders, (1, 1, "paid", 9_999_999_999, PLACED))
    yield from connector.delete(items, (1, 10))


def without_what_varies(text: bytes | str | None) -> Any:
    if text is None:
        return None
    document = json.loads(text)
    for part in (document["payload"], document["payload"].get("source", {})):
        for name in VARYING & part.keys():
            assert isinstance(part.pop(name), int | str), name
    return document


def test_messages_are_those_that_debezium_sent() -> None:
    captured_pairs: dict[str, list[tuple[Any, Any]]] = {}
    for line in CAPTURED_MESSAGES.read_text("utf-8").splitlines():
        record = json.loads(line)
        pair = without_what_varies(record["key"]), without_what_varies(record["value"])
        captured_pairs.setdefault(record["topic"], []).append(pair)
    generated_pairs: dict[str, list[tuple[Any, Any]]] = {}
    for topic, key, value in life_again():
        generated_pairs.setdefault(topic, []).append(
            (without_what_varies(key), without_what_varies(value))
        )
    assert generated_pairs.keys() == captured_pairs.keys()
    for topic, messages in generated_pairs.items():
        for message, expected in zip_longest(messages, captured_pairs[topic]):
            assert message == expected


def test_the_shop_remembers_what_its_messages_lead_to() -> None:
    shop = Shop(Random(7))
    messages = [*shop.messages(3001)]
    shop.alter()
    messages += shop.messages(3000)
    rows: dict[str, dict[str, Any]] = {topic: {} for topic, _, _ in messages}
    kinds = set()
    for topic, key, value in messages:
        if value is None:
            kinds.add("tombstone")
            continue
        payload = json.loads(value)["payload"]
        kinds.add(payload["op"])
        place = json.dumps(json.loads(key)["payload"])
        assert payload["before"] is None or rows[topic][place].items() <= payload["before"].items()
        rows[topic].pop(place, None)
        if payload["after"] is not None:
            rows[topic][place] = payload["after"]
    assert kinds == {"c", "u", "d", "tombstone"}
    for name, table in shop.tables.items():
        assert len(rows[table.topic]) == len(table.rows) > 100, name
    customers = {(row["id"], row.get("email")) for row in rows["shop.public.customers"].values()}
    assert customers == {(row[0], row[3]) for row in shop.tables["customers"].rows.values()}
    totals = [row[3] for row in shop.tables["orders"].rows.values()]
    assert max(total for total in totals if isinstance(total, int)) > 99_999_999, (
        "wider than it was"
    )


def test_an_alter_is_captured_for_each_table_that_changes() -> None:
    tables = captured_tables()
    assert tuple(tables) == TABLES
    altered_names = [name for name, table in tables.items() if len(table.envelopes) == 2]
    assert altered_names == [statement.split()[2] for statement in ALTERS]
