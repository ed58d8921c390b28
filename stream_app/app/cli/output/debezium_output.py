"""Writes changes as Debezium's JSON messages, built in columns.

=====================  ======================================================
rows                   message
=====================  ======================================================
+I                     op c, the row as ``after``; op r of rows read first
-U and then +U         op u with ``before`` and ``after``
-U alone, -D           op d, the row as ``before``
+U alone               op c: without the old row an op u would be refused
=====================  ======================================================

Values are those of `value_text`, and decimals are texts. Debezium writes them so with
``decimal.handling.mode = string`` and ``time.precision.mode = isostring``. There is no schema
envelope and there are no tombstones.

Source: Debezium documentation, "Data change events"; Flink's
`DebeziumJsonDeserializationSchema.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stream_app import __version__
from stream_app.app.text.value_text import json_lines, plain_texts
from stream_app.model.row_kind import RowKind
from stream_app.table.follow.changelog_follow import ChangelogBatch
from stream_app.table.read.selection import ROW_KIND_NAME

_NULL = "null"
_ROW_KINDS = pa.array([kind.short for kind in RowKind])


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumConverter:
    """A converter of one table's changes to messages.

    Attributes:
        table: the table's folder, …/db.db/table, for the field ``source``.
        keys: columns of the primary key; without any, messages have no key.
    """

    table: str
    keys: tuple[str, ...]

    def keys_and_values(self, batch: ChangelogBatch) -> tuple[pa.Array, pa.Array]:
        """Return keys (null without a primary key) and values of the messages, as strings."""
        rows = batch.rows
        kinds = pc.index_in(rows.column(ROW_KIND_NAME), value_set=_ROW_KINDS).to_numpy()
        begins_pair = self._pairs(rows, kinds)
        row_indices = np.flatnonzero(~_is_second_of_pair(begins_pair))
        texts = _row_texts(rows, [name for name in rows.schema.names if name != ROW_KIND_NAME])
        nulls = pa.nulls(len(row_indices), pa.string())
        is_pair = begins_pair[row_indices]
        is_old = kinds[row_indices] & 1 == 1  # -U is 1, and -D is 3
        own_texts = texts.take(pa.array(row_indices))
        next_indices = pa.array(np.minimum(row_indices + 1, len(kinds) - 1))
        before = pc.if_else(pa.array(is_old), own_texts, nulls)
        after = pc.if_else(pa.array(is_old), nulls, own_texts)
        after = pc.if_else(pa.array(is_pair), texts.take(next_indices), after)
        ops = np.where(is_pair, "u", np.where(is_old, "d", "r" if batch.is_full else "c"))
        values = pc.binary_join_element_wise(
            '{"before":',
            before.fill_null(_NULL),
            ',"after":',
            after.fill_null(_NULL),
            ',"op":"',
            pa.array(ops),
            self._message_tail(batch),
            "",
        )
        if not self.keys:
            return nulls, values
        return _row_texts(rows, self.keys).take(pa.array(row_indices)), values

    def _pairs(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Mark each -U row whose next row is the +U of the same key."""
        is_pair = np.zeros(len(kinds), dtype=bool)
        is_pair[:-1] = (kinds[:-1] == RowKind.UPDATE_BEFORE) & (kinds[1:] == RowKind.UPDATE_AFTER)
        if not self.keys or not is_pair.any():
            return np.zeros(len(kinds), dtype=bool)
        for name in self.keys:
            column = rows.column(name)
            is_same = pc.equal(column.slice(0, len(kinds) - 1), column.slice(1))
            is_pair[:-1] &= is_same.to_numpy(zero_copy_only=False).astype(bool)
        return is_pair

    def _message_tail(self, batch: ChangelogBatch) -> str:
        path = PurePosixPath(self.table)
        source = {
            "version": __version__,
            "connector": "stream_app",
            "ts_ms": batch.commit_time_ms,
            "snapshot": "true" if batch.is_full else "false",
            "db": path.parent.name.removesuffix(".db"),
            "table": path.name,
            "snapshot_id": batch.snapshot_id,
        }
        return f'","ts_ms":{batch.commit_time_ms},"source":{orjson.dumps(source).decode()}}}'


def _is_second_of_pair(begins_pair: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Mark the +U rows that belong to a pair, and so have no separate message."""
    is_second = np.zeros_like(begins_pair)
    is_second[1:] = begins_pair[:-1]
    return is_second


def _row_texts(rows: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    columns = (rows.column(name) for name in names)
    return json_lines(
        names,
        [plain_texts(column) if pa.types.is_decimal(column.type) else column for column in columns],
    )
