"""Computes the checksums of a version of a table, as one side of a comparison."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from stream_app.errors import UsageError
from stream_app.format.row_hash.key_groups import GroupSums, HashedRows, hashed_rows
from stream_app.format.row_hash.row_texts import PlacedColumn
from stream_app.model.checksum.row_sum import RowSum
from stream_app.model.checksum.sum_conditions import has_text, text_kind, why_unsummed
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.interleaved_batches import interleaved
from stream_app.table.read.split_read import SplitRead
from stream_app.table.read.split_scan import SplitScan
from stream_app.table.versions.base_sum_record import base_sum_record
from stream_app.table.versions.time_travel import Version, at_version
from stream_app.table.versions.waiting_row_count import count_waiting_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSide:
    """One table's side of a comparison, which sums up the rows of a version.

    Implements `SummedSide`.

    Attributes:
        version: the version; the latest one moves with the table's commits.
        keys, columns: columns of this table, with their indices in the table that is compared.
        has_all: whether `columns` are all columns of this table, at their own indices.
    """

    table: FileStoreTable
    version: Version
    keys: tuple[PlacedColumn, ...]
    columns: tuple[PlacedColumn, ...]
    has_all: bool

    @property
    def label(self) -> str:
        """The table's location and its snapshot."""
        table, snapshot = self._open()
        version_text = "no snapshot" if snapshot is None else f"snapshot {snapshot.snapshot_id}"
        return f"{table.location}, {version_text}"

    def total(self) -> RowSum | None:
        """Return the checksum in the snapshot, or None if it does not cover what readers get."""
        table, snapshot = self._open()
        if not self.has_all or snapshot is None or why_unsummed(table.schema):
            return None
        record = base_sum_record(table, snapshot)
        if not record.is_whole or count_waiting_rows(table, snapshot, counts_newest_epoch=True):
            return None
        return record.total

    def groups(self) -> Mapping[int, RowSum]:
        """Read all rows, and sum them up by group."""
        sums = GroupSums(self.keys, self.columns)
        for batch in self._batches():
            sums.add(batch)
        return sums.sums()

    def rows(self, groups: Collection[int]) -> HashedRows:
        """Read all rows, and hash those of the groups."""
        return hashed_rows(self._batches(), self.keys, self.columns, groups)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        table, snapshot = self._open()
        names = dict.fromkeys(field.name for _, field in (*self.keys, *self.columns))
        split_read = SplitRead(table, tuple(names))
        splits = SplitScan(table).splits(snapshot)
        threads = os.cpu_count() or 1
        return interleaved((partial(split_read.read, split) for split in splits), threads)

    def _open(self) -> tuple[FileStoreTable, Snapshot | None]:
        return at_version(self.table, self.version)


def both_sides(
    table: FileStoreTable, other_table: FileStoreTable, version: Version
) -> tuple[TableSide, TableSide, list[str]]:
    """Return both sides of a comparison of tables, for the columns of the same kind in both.

    The third value lists the columns that are left out, with the reasons.

    Args:
        version: the version of the other table.

    Raises:
        UsageError: a column of the key cannot be compared, or the version does not exist.
    """
    version_table, _ = at_version(other_table, version)
    other_fields = {field.name: field for field in version_table.schema.fields}
    columns = []
    left_out_columns = list[str]()
    for index, field in enumerate(table.schema.fields):
        other_field = other_fields.pop(field.name, None)
        if other_field is None or text_kind(other_field.data_type) != text_kind(field.data_type):
            kind = (
                "not there"
                if other_field is None
                else f"{field.data_type} and {other_field.data_type}"
            )
            left_out_columns.append(f"{field.name} ({kind})")
        elif not has_text(field.data_type):
            left_out_columns.append(f"{field.name} ({field.data_type})")
        else:
            columns.append((index, field, other_field))
    left_out_columns += [f"{name} (only there)" for name in other_fields]
    names = [field.name for _, field, _ in columns]
    if missing_keys := [name for name in table.schema.primary_keys if name not in names]:
        raise UsageError(
            f"column {missing_keys[0]!r} of the key cannot be compared",
            where=version_table.location,
            fix="name a table that has the same key",
        )
    keys = [column for column in columns if column[1].name in table.schema.primary_keys]
    has_all = not left_out_columns and names == list(version_table.schema.fields.names)
    table_side = TableSide(
        table=table,
        version=Version(),
        keys=tuple((index, field) for index, field, _ in keys or columns),
        columns=tuple((index, field) for index, field, _ in columns),
        has_all=len(columns) == len(table.schema.fields),
    )
    other_side = TableSide(
        table=other_table,
        version=version,
        keys=tuple((index, other_field) for index, _, other_field in keys or columns),
        columns=tuple((index, other_field) for index, _, other_field in columns),
        has_all=has_all,
    )
    return table_side, other_side, left_out_columns


def newest_side(table: FileStoreTable, names: Collection[str]) -> TableSide:
    """Return the side of a table at its latest version, for some of its columns."""
    columns = [pair for pair in enumerate(table.schema.fields) if pair[1].name in names]
    keys = [pair for pair in columns if pair[1].name in table.schema.primary_keys]
    return TableSide(
        table=table,
        version=Version(),
        keys=tuple(keys or columns),
        columns=tuple(columns),
        has_all=len(columns) == len(table.schema.fields),
    )
