"""Proof that the demo's table equals its source: by count and by checksum.

The source's side is made from the shop's own memory, the table's side is read from its files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from demo.shop import Order
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.merge_read import MergeRead


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison; the checksum is over all columns of all rows, sorted by key."""

    rows: int
    checksum: str


def source_side(orders: Iterable[Order], schema: pa.Schema) -> Side:
    """The shop's orders."""
    columns = zip(*(order.values() for order in orders), strict=True)
    arrays = [
        pa.array(values, pa.int64()).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else pa.array(values, field.type)
        for values, field in zip(columns, schema, strict=True)
    ]
    return _side(pa.Table.from_arrays(arrays, schema=schema))


def table_side(table: FileStoreTable) -> Side:
    """The table's newest snapshot."""
    read = MergeRead(table)
    batches = read.read(table.snapshots.latest())
    return _side(pa.Table.from_batches(batches, schema=read.schema))


def _side(rows: pa.Table) -> Side:
    ordered = rows.sort_by([("dt", "ascending"), ("id", "ascending")])
    digest = hashlib.sha256()
    for name in ordered.column_names:
        # As text, so that the checksum does not depend on how Arrow lays values out.
        texts = ordered.column(name).cast(pa.string()).combine_chunks()
        digest.update("\n".join(texts.to_pylist()).encode())
    return Side(ordered.num_rows, digest.hexdigest()[:16])
