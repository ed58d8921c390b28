"""Debezium's events in Avro."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, TableTraits
from stream_app.cdc.message_format import FormatSetup
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns

DECIMAL = {
    "type": "bytes", "scale": 2, "precision": 12, "connect.version": 1,
    "connect.parameters": {"scale": "2"}, "logicalType": "decimal",
    "connect.name": "org.apache.kafka.connect.data.Decimal",
}  # fmt: skip
TIME = "io.debezium.time."
ROW: dict[str, Any] = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": ["null", DECIMAL], "default": None},
        {"name": "at", "type": ["null", {"type": "long", "connect.name": f"{TIME}MicroTimestamp"}]},
        {"name": "day", "type": ["null", {"type": "int", "connect.name": f"{TIME}Date"}]},
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "flag", "type": ["null", "boolean"]},
        {"name": "score", "type": ["null", "double"]},
        {"name": "ratio", "type": ["null", "float"]},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
        {"name": "mood", "type": ["null", {"type": "enum", "name": "M", "symbols": ["ok", "bad"]}]},
    ],
}  # fmt: skip
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.mysql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": [{"type": "string", "connect.default": "false"}, "null"]},
        {"name": "db", "type": "string"},
        {"name": "table", "type": ["null", "string"]},
    ],
}
ENVELOPE: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
PLACEHOLDER = "__debezium_unavailable_value"


def setup_of(
    columns: str, keys: tuple[str, ...], options: dict[str, str], keeps: bool = True
) -> FormatSetup:
    row_type = parse_columns(columns)
    return FormatSetup(
        columns=row_type,
        arrow_schema=arrow_schema(row_type),
        primary_keys=keys,
        options=options,
        keeps_update_before=keeps,
        traits=TableTraits(),
    )


def batch(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
) -> pa.RecordBatch:
    keys = keys or [None] * len(values)
    rows = [
        {"topic": "t", "partition": 0, "offset": index, "key": key, "value": value}
        for index, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def a_row(rng: random.Random) -> dict[str, Any]:
    columns = {
        "name": rng.choice(["Ada", "李雷 🚀", "", PLACEHOLDER, "x" * 200]),
        "amount": rng.choice([b"\x01\xe2", b"\xff", b"\x7f" * 5, b"\x7f" * 20, b""]),
        "at": rng.choice([0, 1709251199123456, -1, 2**63 - 1]),
        "day": rng.choice([0, 19000, -800000]),
        "raw": rng.choice([b"", b"\x00\xff", b"abc", PLACEHOLDER.encode()]),
        "flag": rng.choice([True, False]),
        "score": rng.choice([0.1, 1e300, float("nan"), float("inf"), -2.0]),
        "ratio": rng.choice([0.5, 9.899999618530273, float("-inf")]),
        "tags": rng.choice([[], ["a", None], ["b"] * 300]),
        "mood": rng.choice(["ok", "bad"]),
    }
    row = {name: value if rng.random() < 0.8 else None for name, value in columns.items()}
    return {"id": rng.choice([0, 1, -1, 64, 2**40, -(2**63)]), **row}


def event(rng: random.Random) -> dict[str, Any]:
    op = rng.choice("cruuudtmx")
    before = a_row(rng) if op in "ud" and rng.random() < 0.9 else None
    after = a_row(rng) if op in "cru" and rng.random() < 0.95 else None
    source = {
        "version": "3", "connector": rng.choice(["mysql", "postgresql"]), "ts_ms": 1,
        "snapshot": rng.choice([None, "false"]), "db": "shop",
        "table": rng.choice(["orders", None]),
    }  # fmt: skip
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": None}
