"""Columns of key-value rows, and their order by key and age.

A key-value batch holds `_SEQUENCE_NUMBER` (int64), `_VALUE_KIND` (int8) and then the table's
columns; the key is among these and is not repeated. Used by the write buffer, the merge and the
compaction. Everything here works on whole columns.

Source: Paimon `KeyValue.java`; order of keys: `codegen/GenerateUtils.scala`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.model.table_schema import SEQUENCE_NUMBER, VALUE_KIND

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class KeyValueLayout:
    """Which columns are the key, and which of two versions of a key is the newer.

    Attributes:
        schema: of a key-value batch.
        key_names: columns of the trimmed primary key, in key order.
        sequence_fields: columns that decide before the sequence number; nulls are oldest.
        sequence_descending: the smallest value of the sequence fields is the newest.
    """

    schema: pa.Schema
    key_names: tuple[str, ...]
    sequence_fields: tuple[str, ...] = ()
    sequence_descending: bool = False


def integer_view(column: pa.Array) -> pa.Array:
    """Temporal columns as the integers they are; every other column as it is."""
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.view(pa.int32())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return column.view(pa.int64())
    return column


def integer_keys(batch: pa.RecordBatch, layout: KeyValueLayout) -> list[npt.NDArray[Any]] | None:
    """The key columns as NumPy integers, most significant first; None when one is no integer."""
    columns = [integer_view(batch.column(name)) for name in layout.key_names]
    if not all(pa.types.is_integer(column.type) and not column.null_count for column in columns):
        return None
    return [column.to_numpy(zero_copy_only=False) for column in columns]


def order_by_key(batch: pa.RecordBatch, layout: KeyValueLayout) -> Indices:
    """Row indices that sort a batch by (key, sequence fields, sequence number)."""
    if not layout.sequence_fields:
        keys = integer_keys(batch, layout)
        if keys is not None:
            sequence = batch.column(SEQUENCE_NUMBER).to_numpy()
            # lexsort is stable and merges presorted runs, so sorted input costs one pass.
            return np.lexsort((sequence, *reversed(keys)))
    newest_last = "descending" if layout.sequence_descending else "ascending"
    sort_keys = [(name, "ascending") for name in layout.key_names]
    sort_keys += [(name, newest_last) for name in layout.sequence_fields]
    sort_keys.append((SEQUENCE_NUMBER, "ascending"))
    order = pc.sort_indices(batch, sort_keys=sort_keys, null_placement="at_start")
    return order.to_numpy().astype(np.int64)


def last_of_key(batch: pa.RecordBatch, order: Indices | None, layout: KeyValueLayout) -> Mask:
    """For each row in key order: is it the last (newest) of its key? `order=None`: as it lies."""
    count = batch.num_rows
    last = np.ones(count, dtype=np.bool_)
    if count < 2:
        return last
    same = np.ones(count - 1, dtype=np.bool_)
    for name in layout.key_names:
        column = integer_view(batch.column(name))
        if pa.types.is_integer(column.type) and not column.null_count:
            values = column.to_numpy(zero_copy_only=False)
            values = values if order is None else values[order]
            same &= values[1:] == values[:-1]
            continue
        column = column if order is None else column.take(pa.array(order))
        equal = pc.equal(column.slice(1), column.slice(0, count - 1))
        same &= equal.to_numpy(zero_copy_only=False).astype(np.bool_)
    last[:-1] = ~same
    return last


def take(batch: pa.RecordBatch, indices: Indices | None) -> pa.RecordBatch:
    """The rows at `indices`; all of them, uncopied, when it is None."""
    return batch if indices is None else batch.take(pa.array(indices))


def is_retract(batch: pa.RecordBatch) -> Mask:
    """Which rows are -U or -D."""
    kinds = batch.column(VALUE_KIND).to_numpy()
    return (kinds & 1).astype(np.bool_)


def key_tuple(batch: pa.RecordBatch, row: int, layout: KeyValueLayout) -> tuple[Any, ...]:
    """The key of one row as Python values that compare as keys do."""
    return tuple(integer_view(batch.column(name))[row].as_py() for name in layout.key_names)
