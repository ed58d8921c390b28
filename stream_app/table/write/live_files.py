"""How many data files a table has, and their bytes, kept up by what its committer sees anyway.

Part of `write_constraints`. A table without buckets is not read when it is opened, so its numbers
stay unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stream_app.model.bucket_change import BucketChange
from stream_app.model.manifest_entry import FileKind, ManifestEntry


@dataclass(slots=True)
class LiveFileCounts:
    """The numbers; not thread safe, but each may be read by any thread.

    Attributes:
        files, bytes: None: not known.
    """

    files: int | None = None
    bytes: int | None = None

    def begin(self, live: Iterable[ManifestEntry]) -> None:
        """These are all files of the table."""
        self.files = self.bytes = 0
        self.follow(live)

    def follow(self, entries: Iterable[ManifestEntry]) -> None:
        """Another writer has added and removed files."""
        for entry in entries:
            sign = 1 if entry.kind is FileKind.ADD else -1
            self._add(sign, sign * entry.file.file_size)

    def change(self, changes: Iterable[BucketChange]) -> None:
        """The table's committer has published changes."""
        for change in changes:
            self._add(
                len(change.added) - len(change.removed),
                sum(file.file_size for file in change.added)
                - sum(file.file_size for file in change.removed),
            )

    def _add(self, files: int, size: int) -> None:
        if self.files is not None and self.bytes is not None:
            self.files, self.bytes = self.files + files, self.bytes + size
