"""A table of the demo's source: its columns of the moment, and the rows that it holds.

A value is an int, a text or null: a NUMERIC is its unscaled number, a TIMESTAMP its microseconds.

What Debezium sends of a table beside its rows, the schemas of key and value, is repeated from
`debezium.jsonl`, which a real connector has sent (``python -m tests.testbed.capture shop``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

CAPTURED = Path(__file__).with_name("debezium.jsonl")
DECIMAL = "org.apache.kafka.connect.data.Decimal"

Value = int | str | None
Row = tuple[Value, ...]
Key = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Envelope:
    """The schemas of a table's messages, from one ALTER to the next.

    Attributes:
        columns: name → Connect's name of the type, for types that have one.
        key_schema: JSON, as is the value's.
    """

    columns: Mapping[str, str]
    key: tuple[str, ...]
    key_schema: str
    value_schema: str


@dataclass(slots=True)
class ShopTable:
    """A table and its rows by primary key; the key's columns stand first.

    Attributes:
        topic: of its messages.
        envelopes: from its first state on; the next one comes with an ALTER.
    """

    topic: str
    envelopes: list[Envelope]
    rows: dict[Key, Row] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Without the schema."""
        return self.topic.rpartition(".")[2]

    @property
    def envelope(self) -> Envelope:
        """Of the moment."""
        return self.envelopes[0]

    def key_of(self, row: Row) -> Key:
        """A row's primary key."""
        return row[: len(self.envelope.key)]

    def alter(self) -> None:
        """ALTER TABLE: rows have null in columns that it adds."""
        self.envelopes = self.envelopes[1:]
        width = len(self.envelope.columns)
        self.rows = {key: (*row, *[None] * (width - len(row))) for key, row in self.rows.items()}


def captured_tables() -> dict[str, ShopTable]:
    """The tables of the capture by name, without rows, before their ALTERs."""
    tables: dict[str, ShopTable] = {}
    for line in CAPTURED.read_text("utf-8").splitlines():
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
    of_key, of_value = json.loads(key)["schema"], json.loads(value)["schema"]
    [image] = [field for field in of_value["fields"] if field["field"] == "after"]
    return Envelope(
        columns={column["field"]: column.get("name", "") for column in image["fields"]},
        key=tuple(column["field"] for column in of_key["fields"]),
        key_schema=_json(of_key),
        value_schema=_json(of_value),
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
