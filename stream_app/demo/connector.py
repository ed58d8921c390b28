"""Writes the shop's changes as Debezium's PostgreSQL connector and Connect's JSON converter do.

Messages have the schema envelope (``schemas.enable``), the database's own types
(``column.propagate.source.type``) and whole old rows (REPLICA IDENTITY FULL). A tombstone follows
each delete. An update of a key is a delete and an insert. Decimals are base64 of their bytes, and
timestamps are microseconds. tests/unit/demo/test_demo_shop.py compares these messages with those of
a real connector.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

CAPTURED_MESSAGES = Path(__file__).with_name("debezium.jsonl")
"""Messages of a real connector, with its schemas (``python -m tests.testbed.capture shop``)."""
DECIMAL_SCHEMA = "org.apache.kafka.connect.data.Decimal"

Value = int | str | None
"""A NUMERIC is its unscaled number, a TIMESTAMP its microseconds."""
Row = tuple[Value, ...]
Key = tuple[Value, ...]
Message = tuple[str, bytes, bytes | None]
"""The topic, the key, and the value; a tombstone has none."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The JSON schemas of a table's messages, which are valid from one ALTER to the next.

    Attributes:
        columns: name → Connect's name of the type; empty for types without a name.
        key_schema, value_schema: the JSON schema of a message's key and of its value.
    """

    columns: Mapping[str, str]
    key: tuple[str, ...]
    key_schema: str
    value_schema: str


@dataclass(slots=True)
class ShopTable:
    """A table and its rows by primary key; the key's columns come first.

    Attributes:
        topic: the topic of the table's messages.
        envelopes: the present envelope, and then the envelope after each later ALTER.
    """

    topic: str
    envelopes: list[Envelope]
    rows: dict[Key, Row] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The table's name without its database schema."""
        return self.topic.rpartition(".")[2]

    @property
    def envelope(self) -> Envelope:
        """The envelope of the table's present columns."""
        return self.envelopes[0]

    def key_of(self, row: Row) -> Key:
        """Return the primary key of a row."""
        return row[: len(self.envelope.key)]

    def alter(self) -> None:
        """Switch to the columns after the next ALTER TABLE.

        Existing rows have null in added columns.
        """
        self.envelopes = self.envelopes[1:]
        width = len(self.envelope.columns)
        self.rows = {key: (*row, *[None] * (width - len(row))) for key, row in self.rows.items()}


def captured_tables() -> dict[str, ShopTable]:
    """Return name → table, for the captured messages: without rows, and before the ALTERs."""
    tables: dict[str, ShopTable] = {}
    for line in CAPTURED_MESSAGES.read_text("utf-8").splitlines():
        record = json.loads(line)
        if record["value"] is None:
            continue
        table = ShopTable(record["topic"], [])
        table = tables.setdefault(table.name, table)
        envelope = _envelope(record["key"], record["value"])
        if envelope not in table.envelopes:
            table.envelopes.append(envelope)
    return tables


def _envelope(key: str, value: str) -> Envelope:
    key_schema, value_schema = json.loads(key)["schema"], json.loads(value)["schema"]
    [image] = [field for field in value_schema["fields"] if field["field"] == "after"]
    return Envelope(
        columns={column["field"]: column.get("name", "") for column in image["fields"]},
        key=tuple(column["field"] for column in key_schema["fields"]),
        key_schema=_json(key_schema),
        value_schema=_json(value_schema),
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@dataclass(slots=True)
class Connector:
    """A connector that changes a table's rows, and returns the messages about each change."""

    now_us: int
    _transaction: int = field(init=False, default=743)
    _lsn: int = field(init=False, default=24_000_000)

    def begin(self, microseconds: int) -> None:
        """Begin a transaction, some microseconds after the previous one."""
        self.now_us += microseconds
        self._transaction += 1

    def insert(self, table: ShopTable, row: Row) -> Message:
        """Insert a row."""
        table.rows[table.key_of(row)] = row
        return self._change(table, "c", None, row)

    def update(self, table: ShopTable, row: Row) -> Message:
        """Change columns of a row outside its key."""
        key = table.key_of(row)
        before = table.rows[key]
        table.rows[key] = row
        return self._change(table, "u", before, row)

    def delete(self, table: ShopTable, key: Key) -> Iterator[Message]:
        """Delete a row; yield the change and its tombstone."""
        topic, message_key, value = self._change(table, "d", table.rows.pop(key), None)
        yield topic, message_key, value
        yield topic, message_key, None

    def update_key(self, table: ShopTable, old_key: Key, row: Row) -> Iterator[Message]:
        """Change the key of a row: Debezium sends a delete and an insert."""
        yield from self.delete(table, old_key)
        yield self.insert(table, row)

    def _change(self, table: ShopTable, op: str, before: Row | None, after: Row | None) -> Message:
        """Return the message that Debezium's connector for PostgreSQL would send about a change."""
        self._lsn += 56
        image = after or before
        assert image is not None
        prefix, schema, name = table.topic.split(".")
        sent_us = self.now_us
        received_us = self.now_us + 3000
        source = (
            f'{{"version":"3.5.0.Final","connector":"postgresql","name":"{prefix}",'
            f'"ts_ms":{sent_us // 1000},"snapshot":null,"db":"shop",'
            f'"sequence":"[\\"{self._lsn - 56}\\",\\"{self._lsn}\\"]",'
            f'"ts_us":{sent_us},"ts_ns":{sent_us}000,"schema":"{schema}","table":"{name}",'
            f'"txId":{self._transaction},"lsn":{self._lsn},'
            f'"xmin":null,"origin":null,"origin_lsn":null}}'
        )
        payload = (
            f'{{"before":{_image(table, before)},"after":{_image(table, after)},'
            f'"source":{source},"transaction":null,"op":"{op}","ts_ms":{received_us // 1000},'
            f'"ts_us":{received_us},"ts_ns":{received_us}000}}'
        )
        value = f'{{"schema":{table.envelope.value_schema},"payload":{payload}}}'
        key_row = _image(table, table.key_of(image))
        key = f'{{"schema":{table.envelope.key_schema},"payload":{key_row}}}'
        return table.topic, key.encode(), value.encode()


def _image(table: ShopTable, row: Row | None) -> str:
    """Return the JSON object of a row; a key has only the first columns."""
    if row is None:
        return "null"
    columns = table.envelope.columns.items()
    named_values = zip(columns, row, strict=False)
    return (
        "{"
        + ",".join(
            f'"{name}":{_json_value(type_name, value)}' for (name, type_name), value in named_values
        )
        + "}"
    )


def _json_value(type_name: str, value: Value) -> str:
    if type_name == DECIMAL_SCHEMA and isinstance(value, int):
        length = value.bit_length() // 8 + 1
        value = base64.b64encode(value.to_bytes(length, "big", signed=True)).decode()
    return str(value) if isinstance(value, int) else json.dumps(value, ensure_ascii=False)
