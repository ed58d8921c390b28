"""Writes a bucket of a table without a primary key, without sort, merge or buffer.

A writing task calls it. It never compacts, because the driver decides on compactions after the
commit.

Source: Paimon `append/AppendOnlyWriter.java`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from stream_app.errors import UnsupportedTableError
from stream_app.filestore.data.bucket_files import BucketFiles
from stream_app.filestore.data.rolling_file_writer import RollingFileWriter
from stream_app.mergetree.file_access import WrittenFiles
from stream_app.mergetree.key_value_batch import retract_mask, rows_at
from stream_app.mergetree.write.row_kinds import accepted_mask
from stream_app.model.files.data_file_meta import FileSource
from stream_app.model.row_kind import RowKind


@dataclass(slots=True)
class AppendOnlyWriter:
    """The writer of one bucket, for one epoch.

    Attributes:
        next_sequence_number: the sequence number of the first row.
        ignored_kinds: the row kinds that are dropped (``ignore-delete``, ``ignore-update-before``).
    """

    bucket_files: BucketFiles
    next_sequence_number: int
    ignored_kinds: frozenset[RowKind] = frozenset()
    _writer: RollingFileWriter | None = field(init=False, default=None)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows (`_VALUE_KIND` and the table's columns) in their order of arrival.

        Raises:
            UnsupportedTableError: a row retracts another, which append files cannot express.
        """
        if retract_mask(rows).any():
            rows = self._without_ignored_rows(rows)
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = self.bucket_files.row_writer(
                first_sequence_number=self.next_sequence_number, file_source=FileSource.APPEND
            )
        self.next_sequence_number += rows.num_rows
        self._writer.write(
            pa.RecordBatch.from_arrays(
                rows.columns[1:], schema=pa.schema(list(rows.schema)[1:], rows.schema.metadata)
            )
        )

    def prepare_commit(self) -> WrittenFiles:
        """Finish the files, and return those since the last call."""
        new_files = () if self._writer is None else self._writer.close()
        self._writer = None
        return WrittenFiles(new_files)

    def abort(self) -> None:
        """Delete the files that `prepare_commit` has not returned."""
        if self._writer is not None:
            self._writer.abort()
            self._writer = None

    def _without_ignored_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        is_accepted = accepted_mask(rows, self.ignored_kinds)
        rows = rows if is_accepted.all() else rows_at(rows, np.flatnonzero(is_accepted))
        if retract_mask(rows).any():
            raise UnsupportedTableError(
                "a table without a primary key cannot take a row back, but a -U or -D row arrived",
                where=self.bucket_files.folder,
                fix="send only inserts, or set 'ignore-delete' = 'true' to drop such rows",
            )
        return rows
