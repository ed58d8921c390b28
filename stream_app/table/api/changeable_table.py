"""Lets a Python program change a table: its rows and its statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stream_app.table.analyze.analysis import analyze, analyzed_columns
from stream_app.table.api.read_arguments import chosen_columns, reading_threads
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import require_writable
from stream_app.table.overwrite.overwrite import overwrite


@dataclass(frozen=True)
class ChangeableTable:
    """The part of `PaimonTable` that commits."""

    table: FileStoreTable

    def analyze(
        self, *, columns: Sequence[str] | None = None, threads: int | None = None
    ) -> int | None:
        """Publish statistics of the latest version as Spark's ANALYZE does.

        Returns the number of the ANALYZE snapshot; None if the table has no snapshot.
        ``system("statistics")`` shows the statistics.

        Args:
            columns: names of columns that get statistics; None: all columns that are not nested.
            threads: the number of reading threads; None: as in `read`.

        Raises:
            UsageError: a column is unknown or nested.
            UnsupportedTableError: the table uses a feature that stream_app cannot read or write.
            CorruptFileError: a file is missing or damaged.
            CommitError: other writers won every race; nothing has changed.
        """
        table = require_writable(self.table)
        fields = analyzed_columns(table.schema, chosen_columns(columns))
        snapshot = analyze(table, fields, threads=reading_threads(threads, None))
        return snapshot.snapshot_id if snapshot else None

    def overwrite(self, rows: object, *, partition: Mapping[str, str] | None = None) -> int | None:
        """Replace partitions or the whole table by other rows, as INSERT OVERWRITE does.

        Returns the number of the snapshot; None if there is nothing to replace. No changelog
        records the change.

        Args:
            rows: an Arrow table or stream, which is held in memory. A missing column is null, or
                gets its value from `partition`.
            partition: ``{"dt": "2026-01-31"}`` replaces the partitions that match, even if there
                are no rows. None replaces the partitions of the rows. It replaces the whole table
                if that has no partitions or ``dynamic-partition-overwrite`` is false.

        Raises:
            UsageError: the rows do not fit the table, or belong to another partition.
            UnsupportedTableError: stream_app cannot write or overwrite the table.
            CommitError: other writers won every race; nothing has changed.
        """
        snapshot = overwrite(require_writable(self.table), pa.table(rows), partition)
        return snapshot.snapshot_id if snapshot else None
