"""Reads the rows of a snapshot, one split after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_app.model.snapshot import Snapshot
from stream_app.table.conditions.row_filter import RowFilter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.split_read import SplitRead
from stream_app.table.read.split_scan import SplitScan


@dataclass(frozen=True, slots=True)
class MergeRead:
    """A reader of a table's columns, with the attributes of `SplitRead`."""

    table: FileStoreTable
    columns: tuple[str, ...] | None = None
    row_filter: RowFilter | None = None

    def __post_init__(self) -> None:
        self._split_read()  # raises when columns or options are wrong

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return self._split_read().selection.schema

    def read(self, snapshot: Snapshot | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a snapshot, bucket by bucket; none without a snapshot.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        read = self._split_read()
        for split in SplitScan(self.table, self.row_filter).splits(snapshot):
            yield from read.read(split)

    def _split_read(self) -> SplitRead:
        return SplitRead(self.table, self.columns, self.row_filter)
