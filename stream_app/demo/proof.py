"""Proves by counts and checksums that the demo's tables equal their source.

The source's side comes from the shop's own memory, the table's side from the table's files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from stream_app.demo.connector import ShopTable, Value
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.split_read import SplitRead
from stream_app.table.read.split_scan import SplitScan


@dataclass(frozen=True, slots=True)
class TableSide:
    """One side of the comparison; the checksum is over all columns of all rows, sorted by key."""

    rows: int
    checksum: str


def source_side(source: ShopTable, schema: pa.Schema) -> TableSide:
    """Count and checksum the shop's rows, as values of the table's columns."""
    names = list(source.envelope.columns)
    if names != schema.names:
        return TableSide(len(source.rows), f"columns {', '.join(names)}")
    columns = zip(*source.rows.values(), strict=True) if source.rows else ((),) * len(names)
    arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return _side(pa.Table.from_arrays(arrays, schema=schema), source.envelope.key)


def _array(values: Sequence[Value], type_: pa.DataType) -> pa.Array:
    """Return a column as Arrow; the source has decimals as unscaled numbers and times as
    microseconds.
    """
    if pa.types.is_decimal(type_):
        return pa.array([None if v is None else Decimal(v).scaleb(-2) for v in values], type_)
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.timestamp("us")).cast(type_)
    return pa.array(values, type_)


def table_side(table: FileStoreTable, source: ShopTable) -> TableSide:
    """Count and checksum the table's newest snapshot."""
    read = SplitRead(table)
    splits = SplitScan(table).splits(table.snapshots.latest())
    batches = (batch for split in splits for batch in read.read(split))
    return _side(pa.Table.from_batches(batches, schema=read.selection.schema), source.envelope.key)


def iceberg_side(table: FileStoreTable, source: ShopTable) -> TableSide:
    """Count and checksum what PyIceberg reads of the table's newest Iceberg metadata."""
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - an extra

    folder = Path(table.location, "metadata")
    version = (folder / "version-hint.text").read_text()
    rows = StaticTable.from_metadata(f"{folder}/v{version}.metadata.json").scan().to_arrow()
    schema = SplitRead(table).selection.schema
    return _side(rows.select(schema.names).cast(schema), source.envelope.key)


def _side(rows: pa.Table, key: Sequence[str]) -> TableSide:
    ordered = rows.sort_by([(name, "ascending") for name in key])
    digest = hashlib.sha256()
    for name in ordered.column_names:
        # As text, so that the checksum does not depend on how Arrow lays values out.
        texts = ordered.column(name).cast(pa.string()).fill_null("\0").combine_chunks()
        digest.update("\n".join([name, *texts.to_pylist(), ""]).encode())
    return TableSide(ordered.num_rows, digest.hexdigest()[:16])
