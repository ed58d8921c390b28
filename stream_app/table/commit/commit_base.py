"""The base of a commit, and the fields that the new snapshot takes from it.

`file_store_commit` makes a new base after each lost race.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


@dataclass(frozen=True, slots=True)
class CommitBase:
    """The snapshot and the schema on which a commit is based.

    Attributes:
        snapshot: the latest snapshot; None without snapshots.
        schema_id: of the table's latest schema.
    """

    table: FileStoreTable
    snapshot: Snapshot | None
    schema_id: int

    @property
    def next_id(self) -> int:
        """The number of the new snapshot."""
        return 1 if self.snapshot is None else self.snapshot.snapshot_id + 1

    @property
    def next_row_id(self) -> int:
        """The row id of the next row, in tables with row tracking."""
        return (self.snapshot.next_row_id if self.snapshot else None) or 0

    def total_records(self) -> int:
        """Return the number of rows of all files; count them if the snapshot does not record it."""
        if self.snapshot is None:
            return 0
        if self.snapshot.total_record_count is not None:
            return self.snapshot.total_record_count
        return sum(entry.file.row_count for entry in FileStoreScan(self.table).live(self.snapshot))

    def watermark(self, own_watermark: int | None) -> int | None:
        """Return the later of the snapshot's watermark and the given one; None without both."""
        watermarks = (own_watermark, self.snapshot.watermark if self.snapshot else None)
        return max((mark for mark in watermarks if mark is not None), default=None)
