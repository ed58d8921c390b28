"""Reads the rows of a split of a streaming read, with their row kinds.

Source: Paimon `operation/MergeFileSplitRead.java`, `table/system/AuditLogTable.java`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_app.model.files.data_split import StreamContent, StreamSplit
from stream_app.table.conditions.row_filter import RowFilter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.incremental_read import IncrementalRead
from stream_app.table.read.selection import insert_kinds
from stream_app.table.read.split_read import SplitRead


@dataclass(frozen=True, slots=True)
class StreamRead:
    """A reader of the splits of `stream_scan`.

    Attributes:
        columns: names of columns in the order of the result; None: all. The column ``rowkind``
            precedes them.
        row_filter: the condition that rows of every kind must fulfil.
    """

    table: FileStoreTable
    columns: tuple[str, ...] | None = None
    row_filter: RowFilter | None = None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._changes.selection.schema

    def read(self, stream_split: StreamSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, without empty batches.

        The changes of a key come in their order of application, those of a file in the file's
        order. Without a primary key, rows come in the order in which they were written.

        Raises:
            UnsupportedTableError: stream_app cannot merge the split's version correctly.
            CorruptFileError: a file cannot be read.
        """
        split = stream_split.split
        match stream_split.content:
            case StreamContent.CHANGES:
                for file in split.files:
                    yield from self._changes.file(split.partition, split.bucket, file)
            case StreamContent.ROWS:
                for batch in SplitRead(self.table, self.columns, self.row_filter).read(split):
                    columns = [insert_kinds(batch.num_rows), *batch.columns]
                    yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @property
    def _changes(self) -> IncrementalRead:
        return IncrementalRead(self.table, self.columns, self.row_filter, shows_row_kinds=True)
