"""Converts a quarantined record to a line of JSON, and back.

Bytes that are not text are under ``key_base64`` and ``value_base64``. The timestamp is in
milliseconds since 1970.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

QUARANTINE_FILE = "epoch-{epoch}.jsonl"
REPLACED_FILE = "epoch-{epoch}.old-{number}.jsonl"
"""An earlier file of the same epoch with other content."""
_PLAIN_FIELDS = ("topic", "partition", "offset", "timestamp", "reason")


def is_quarantine_file(name: str) -> bool:
    """Return whether a file of a quarantine's folder has records."""
    return name.endswith(".jsonl")


def is_replaced_file(name: str) -> bool:
    """Return whether a file has been replaced by another one of its epoch."""
    return ".old-" in name


def lines_of(bad_records: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of bad records, which are few; of `BAD_RECORD_SCHEMA`."""
    for batch in bad_records.to_batches():
        column_index = batch.schema.get_field_index("timestamp")
        timestamps_ms = (
            batch.column(column_index).cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        )
        for row in batch.set_column(column_index, "timestamp", timestamps_ms).to_pylist():
            line: dict[str, Any] = {name: row[name] for name in _PLAIN_FIELDS}
            for name in ("key", "value"):
                line |= _bytes_member(name, row[name])
            yield line


def fields_of_line(line: bytes) -> dict[str, Any]:
    """Return the fields of a line's record; key and value are bytes.

    Raises:
        ValueError, KeyError, TypeError: the line is not a record of a quarantine.
    """
    document = {"timestamp": None, **json.loads(line)}  # lines of older jobs have no timestamp
    data = {name: _bytes(document, name) for name in ("key", "value")}
    return {**{name: document[name] for name in _PLAIN_FIELDS}, **data}


def _bytes_member(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _bytes(document: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in document:
        return base64.b64decode(document[f"{name}_base64"])
    text = document[name]
    return None if text is None else str(text).encode()
