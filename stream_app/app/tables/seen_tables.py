"""Finds facts beyond the schema in the first messages of each source table.

Messages of Debezium as JSON tell whether a row comes of the initial snapshot or of a change. Of
other messages nothing is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from stream_app.cdc.message_format import SourceReader
from stream_app.model.schema.mapping_options import MappingOptions
from stream_app.model.schema.origin import Origin
from stream_app.planning.sync.column_remarks import TableRemark, only_read
from stream_app.planning.sync.partition_roots import SeenTable

_READ = "r"


def seen_tables(parts: Mapping[Origin, pa.RecordBatch]) -> Mapping[Origin, SeenTable]:
    """Facts in the messages of each table; tables without a row are left out."""
    tables = {}
    for origin, part in parts.items():
        rows = [row for row in _rows(part) if row is not None]
        columns = frozenset[str]().union(*(row for _, row in rows))
        read = frozenset(
            orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for op, row in rows if op == _READ
        )
        if rows:
            changed = any(op != _READ for op, _ in rows)
            tables[origin] = SeenTable(columns=columns, read=read, is_changed=changed)
    return tables


def read_alone(
    reader: SourceReader, part: pa.RecordBatch, options: MappingOptions
) -> Iterable[TableRemark]:
    """Columns of one table that only rows of the initial snapshot have."""
    ops = [None if row is None else row[0] == _READ for row in _rows(part)]

    def described(*, is_read: bool) -> Any:
        at = [place for place, one in enumerate(ops) if one is is_read]
        return reader.describe(part.take(pa.array(at, pa.int32())), options) if at else None

    newest = max(np.flatnonzero([one is True for one in ops]).tolist(), default=-1)
    if ops[newest + 1 :].count(False) == 0:
        return []
    return only_read(described(is_read=True), described(is_read=False))


def _rows(part: pa.RecordBatch) -> Iterator[tuple[str, dict[str, Any]] | None]:
    """The op and the row after each change; None: a message has none."""
    for value in part.column("value").to_pylist():
        yield None if value is None else _row(value)


def _row(value: bytes) -> tuple[str, dict[str, Any]] | None:
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        document = document["payload"]
    if not isinstance(document, dict):
        return None
    op, after = document.get("op"), document.get("after")
    return (op, after) if isinstance(op, str) and isinstance(after, dict) else None
