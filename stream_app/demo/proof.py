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
class DemoSide:
    """One side of the comparison, with a checksum of all columns of all rows, sorted by key."""

    row_count: int
    checksum: str


def source_side(shop_table: ShopTable, schema: pa.Schema) -> DemoSide:
    """Count and checksum the shop's rows, as values of the table's columns."""
    names = list(shop_table.envelope.columns)
    if names != schema.names:
        return DemoSide(len(shop_table.rows), f"columns {', '.join(names)}")
    columns = zip(*shop_table.rows.values(), strict=True) if shop_table.rows else ((),) * len(names)
    arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return _side(pa.Table.from_arrays(arrays, schema=schema), shop_table.envelope.key)


def _array(values: Sequence[Value], arrow_type: pa.DataType) -> pa.Array:
    """Return a column as Arrow, from unscaled numbers as decimals and microseconds as times."""
    if pa.types.is_decimal(arrow_type):
        return pa.array(
            [None if cents is None else Decimal(cents).scaleb(-2) for cents in values], arrow_type
        )
    if pa.types.is_timestamp(arrow_type):
        return pa.array(values, pa.timestamp("us")).cast(arrow_type)
    return pa.array(values, arrow_type)


def table_side(table: FileStoreTable, shop_table: ShopTable) -> DemoSide:
    """Count and checksum the table's latest snapshot."""
    split_read = SplitRead(table)
    splits = SplitScan(table).splits(table.snapshots.latest())
    batches = (batch for split in splits for batch in split_read.read(split))
    return _side(
        pa.Table.from_batches(batches, schema=split_read.selection.schema), shop_table.envelope.key
    )


def iceberg_side(table: FileStoreTable, shop_table: ShopTable) -> DemoSide:
    """Count and checksum what PyIceberg reads of the table's latest Iceberg metadata."""
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - an extra

    folder = Path(table.location, "metadata")
    version = (folder / "version-hint.text").read_text()
    rows = StaticTable.from_metadata(f"{folder}/v{version}.metadata.json").scan().to_arrow()
    schema = SplitRead(table).selection.schema
    return _side(rows.select(schema.names).cast(schema), shop_table.envelope.key)


def _side(rows: pa.Table, key: Sequence[str]) -> DemoSide:
    sorted_rows = rows.sort_by([(name, "ascending") for name in key])
    digest = hashlib.sha256()
    for name in sorted_rows.column_names:
        # As text, so that the checksum does not depend on Arrow's layout of values.
        texts = sorted_rows.column(name).cast(pa.string()).fill_null("\0").combine_chunks()
        digest.update("\n".join([name, *texts.to_pylist(), ""]).encode())
    return DemoSide(sorted_rows.num_rows, digest.hexdigest()[:16])
