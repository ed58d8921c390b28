"""Lets a Python program change a table: its rows and its statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stream_app.table.analyze.analysis import analyze, analyzed_columns
from stream_app.table.api.read_arguments import chosen_columns, reading_threads
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_for_writing
from stream_app.table.overwrite.overwrite import overwrite


@dataclass(frozen=True)
class ChangeableTable:
    """The part of `PaimonTable` that commits."""

    store: FileStoreTable

    def analyze(
        self, *, columns: Sequence[str] | None = None, threads: int | None = None
    ) -> int | None:
        """Publish statistics of the newest version, as Spark's ANALYZE; the snapshot's number.

        ``system("statistics")`` has them. None: the table has no snapshot.

        Args:
            columns: that get statistics; None: all that are not nested.
            threads: number of reading threads; None: as in `read`.

        Raises:
            UsageError: an unknown or a nested column.
            UnsupportedTableError: the table uses what we do not read rightly, or cannot write.
            CorruptFileError: a file is missing or damaged.
            CommitError: other writers won every race; nothing has changed.
        """
        store = open_for_writing(self.store)
        chosen = analyzed_columns(store.schema, chosen_columns(columns))
        snapshot = analyze(store, chosen, threads=reading_threads(threads, None))
        return snapshot.snapshot_id if snapshot else None

    def overwrite(self, rows: object, *, partition: Mapping[str, str] | None = None) -> int | None:
        """Replace partitions, or the table, by other rows, as INSERT OVERWRITE; the snapshot.

        No changelog has the change. None: nothing is to be replaced.

        Args:
            rows: a table or a stream of Arrow, which is held in memory. A column that it lacks is
                null, or has the value of `partition`.
            partition: ``{"dt": "2026-01-31"}`` replaces these partitions, also by no rows. None:
                those of the rows, or the table if it has no partitions or
                ``dynamic-partition-overwrite`` is false.

        Raises:
            UsageError: the rows do not fit the table, or belong to another partition.
            UnsupportedTableError: stream_app cannot write or overwrite the table.
            CommitError: other writers won every race; nothing has changed.
        """
        snapshot = overwrite(open_for_writing(self.store), pa.table(rows), partition)
        return snapshot.snapshot_id if snapshot else None
