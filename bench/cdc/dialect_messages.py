"""Makes changes of a shop's orders, as Canal, Maxwell, GoldenGate, DMS or plain rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
_UPDATES, _DELETES = 0.6, 0.05
_TIME = "2024-03-01 12:13:14"


def dialect_values(name: str, count: int) -> list[bytes]:
    """Return changes in a format, always the same, of which most are updates."""
    rng = random.Random(7)
    make = _MESSAGES[name]
    return [
        json.dumps(make(rng, number), separators=(",", ":")).encode() for number in range(count)
    ]


def _row(rng: random.Random, number: int) -> Row:
    return {
        "id": number,
        "customer": f"customer-{rng.randrange(99999):05}",
        "amount": rng.randrange(-(10**9), 10**10) / 100,
        "updated_at": f"{_TIME}.{rng.randrange(10**6):06}",
        "dt": f"2024-03-{rng.randrange(1, 29):02}",
    }


def _kind(rng: random.Random) -> str:
    draw = rng.random()
    return "update" if draw < _UPDATES else "delete" if draw < _UPDATES + _DELETES else "insert"


def _maxwell(rng: random.Random, number: int) -> Row:
    kind, row = _kind(rng), _row(rng, number)
    message = {"database": "shop", "table": "orders", "type": kind, "ts": 1795232574}
    message |= {"xid": 744 + number, "commit": True, "data": row}
    if kind == "update":
        old = _row(rng, number)
        message["old"] = {name: old[name] for name in ("amount", "updated_at")}
    return message


def _canal(rng: random.Random, number: int) -> Row:
    kind, row = _kind(rng), _texts_of(_row(rng, number))
    types = {"id": "bigint", "customer": "varchar(255)", "amount": "decimal(12,2)"}
    message: Row = {"data": [row], "database": "shop", "es": 1795232574000, "id": number}
    message |= {"isDdl": False, "mysqlType": types | {"updated_at": "datetime(6)", "dt": "date"}}
    old_values = None
    if kind == "update":
        old_row = _texts_of(_row(rng, number))
        old_values = [{name: old_row[name] for name in ("amount", "updated_at")}]
    message |= {"old": old_values, "pkNames": ["id"], "sql": ""}
    message |= {"sqlType": {"id": -5, "customer": 12, "amount": 3, "updated_at": 93, "dt": 91}}
    return message | {"table": "orders", "ts": 1795232574433, "type": kind.upper()}


def _texts_of(row: Row) -> Row:
    return {name: str(value) for name, value in row.items()}


def _ogg(rng: random.Random, number: int) -> Row:
    kind = _kind(rng)
    message: Row = {"table": "SHOP.ORDERS", "op_type": kind[0].upper(), "op_ts": _TIME}
    message |= {"current_ts": _TIME, "pos": f"{number:020}"}
    if kind != "insert":
        message["before"] = _row(rng, number)
    if kind != "delete":
        message["after"] = _row(rng, number)
    return message


def _dms(rng: random.Random, number: int) -> Row:
    kind, data = _kind(rng), _row(rng, number)
    if kind == "update":
        data |= {f"BI_{name}": value for name, value in _row(rng, number).items()}
    metadata = {
        "timestamp": "2024-03-01T12:13:14.000000Z",
        "record-type": "data",
        "operation": kind,
        "partition-key-type": "schema-table",
        "schema-name": "shop",
        "table-name": "orders",
        "transaction-id": number,
    }
    return {"data": data, "metadata": metadata}


_MESSAGES: dict[str, Callable[[random.Random, int], Row]] = {
    "json": _row,
    "canal-json": _canal,
    "maxwell-json": _maxwell,
    "ogg-json": _ogg,
    "aws-dms-json": _dms,
}
_ROW = [
    ("id", pa.int64()),
    ("customer", pa.string()),
    ("amount", pa.decimal128(12, 2)),
    ("updated_at", pa.string()),
    ("dt", pa.string()),
]
_ROW_OF_TEXTS = [("id", pa.string()), *_ROW[1:]]
_BEFORE = [(f"BI_{name}", kind) for name, kind in _ROW]


def _texts(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.string()) for name in names]


PARSED: dict[str, pa.Schema] = {
    "json": pa.schema(_ROW),
    "canal-json": pa.schema(
        [
            *_texts("database", "table", "type"),
            ("mysqlType", pa.struct(_texts("customer", "dt"))),
            ("data", pa.list_(pa.struct(_ROW_OF_TEXTS))),
            ("old", pa.list_(pa.struct(_ROW_OF_TEXTS))),
        ]
    ),
    "maxwell-json": pa.schema(
        [
            *_texts("database", "table", "type"),
            ("data", pa.struct(_ROW)),
            ("old", pa.struct(_ROW)),
        ]
    ),
    "ogg-json": pa.schema(
        [*_texts("table", "op_type"), ("before", pa.struct(_ROW)), ("after", pa.struct(_ROW))]
    ),
    "aws-dms-json": pa.schema(
        [
            ("data", pa.struct([*_ROW, *_BEFORE])),
            (
                "metadata",
                pa.struct(_texts("record-type", "operation", "schema-name", "table-name")),
            ),
        ]
    ),
}
"""Format → the columns that the bare parse of its messages reads."""
