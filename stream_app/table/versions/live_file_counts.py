"""Counts the live data files and bytes of a table whose committer sees each change of its files.

`table.write.write_constraints` keeps the counts beside the constraints of the same files, and
`table.job.compaction_publisher` reports them as metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry


@dataclass(slots=True)
class LiveFileCounts:
    """The counts of a table's live data files and bytes, by the files that its committer sees.

    A table without buckets is not read when it is opened, so its counts stay unknown. Not thread
    safe, but any thread may read a count.

    Attributes:
        file_count, byte_count: the counts; None if unknown.
    """

    file_count: int | None = None
    byte_count: int | None = None

    def begin(self, live_entries: Iterable[ManifestEntry]) -> None:
        """Begin with all live files of the table."""
        self.file_count = self.byte_count = 0
        self.follow(live_entries)

    def follow(self, entries: Iterable[ManifestEntry]) -> None:
        """Count files that another writer has added and removed."""
        for entry in entries:
            sign = 1 if entry.kind is FileKind.ADD else -1
            self._add(sign, sign * entry.file.file_size)

    def change(self, changes: Iterable[BucketChange]) -> None:
        """Count changes that the table's committer has published."""
        for change in changes:
            self._add(
                len(change.added_files) - len(change.removed_files),
                sum(file.file_size for file in change.added_files)
                - sum(file.file_size for file in change.removed_files),
            )

    def _add(self, file_count: int, byte_count: int) -> None:
        if self.file_count is not None and self.byte_count is not None:
            self.file_count = self.file_count + file_count
            self.byte_count = self.byte_count + byte_count
