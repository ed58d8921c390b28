"""Messages of a database of many tables, as Debezium sends them with the converter's schema.

Each table has a key ``id BIGINT``, a column ``v STRING`` and a column ``n INT``. Rows may have a
further column ``note STRING``. Names of columns may have any case.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]
Message = tuple[bytes | None, bytes | None]
_TYPES = {"id": "int64", "v": "string", "n": "int32", "note": "string"}
HEARTBEAT: Message = (b'{"serverName":"shop"}', b'{"ts_ms":1709251199123}')
MARKER: Message = (
    b'{"id":"571"}',
    b'{"status":"END","id":"571","event_count":1,"data_collections":[],"ts_ms":1709251199123}',
)
GARBAGE: Message = (b'{"id":1}', b'{"before":null,"after":{"id":1')


@functools.cache
def _schema(names: tuple[str, ...], n: str) -> dict[str, Any]:
    types = {**_TYPES, "n": n}
    fields = [
        {"type": types[name.lower()], "optional": name.lower() != "id", "field": name}
        for name in names
    ]
    row = {"type": "struct", "fields": fields, "optional": True}
    source = {"type": "struct", "fields": [], "optional": False, "field": "source"}
    return {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            source,
            {"type": "string", "optional": False, "field": "op"},
        ],
        "optional": False,
        "name": "Envelope",
    }


def change(
    origin: str,
    row: Row,
    before: Row | None = None,
    *,
    op: str | None = None,
    lsn: int = 7,
    n: str = "int32",
    at_ms: int = 1,
) -> Message:
    """Return a change of a row of ``database.table``: a create; with `before` an update; or a
    delete.

    Args:
        n: the type of that column.
        at_ms: when the source made the change.
    """
    database, _, table = origin.partition(".")
    op = op or ("c" if before is None else "u")
    old, new = (row, None) if op == "d" else (before, row)
    source: dict[str, Any] = {
        "version": "3.5.0.Final",
        "connector": "mariadb",
        "name": "shop",
        "ts_ms": at_ms,
    }
    source |= {"snapshot": "false", "db": database, "sequence": None, "table": table, "pos": lsn}
    payload: dict[str, Any] = {
        "before": old,
        "after": new,
        "source": source,
        "transaction": None,
        "op": op,
    }
    payload |= {"ts_ms": 1709251199123}
    document = {"schema": _schema(tuple(row), n), "payload": payload}
    [name] = [name for name in row if name.lower() == "id"]
    key = {"schema": {"type": "struct"}, "payload": {name: row[name]}}
    return _json(key), _json(document)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def creates(origin: str, keys: Iterable[int], text: str = "new") -> list[Message]:
    """Return new rows of ``database.table``."""
    return [change(origin, a_row(key, text), lsn=key) for key in keys]


def a_row(key: int, text: str = "new") -> dict[str, Any]:
    """Return the row of a key."""
    return {"id": key, "v": f"{text} {key}", "n": key % 100}


def rows(keys: Iterable[int], text: str = "new") -> list[dict[str, Any]]:
    """Return the rows of keys."""
    return [a_row(key, text) for key in keys]


def bad(origin: str, key: int) -> Message:
    """Return a change whose ``n`` is not a number."""
    return change(origin, {**a_row(key), "n": "none"})


def with_time_of_day(origin: str, key: int) -> Message:
    """Return a row whose n is a time of day with microseconds, too fine for Paimon's TIME."""
    name, value = change(origin, {"id": key, "v": "a", "n": 5})
    assert value is not None
    document = json.loads(value)
    for image in document["schema"]["fields"][:2]:
        [n] = [field for field in image["fields"] if field["field"] == "n"]
        n |= {"type": "int64", "name": "io.debezium.time.MicroTime"}
    return name, json.dumps(document).encode()
