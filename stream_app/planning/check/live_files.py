"""The live files of a table, followed from snapshot to snapshot.

Applying a snapshot costs what it changed, whatever the table's size. Used by the check of a table.

Source: Paimon `manifest/FileEntry.java#mergeEntries`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from stream_app.model.manifest_entry import FileIdentity, FileKind, ManifestEntry

Place = tuple[bytes, int]
"""Serialized partition, and bucket."""


@dataclass(slots=True)
class LiveFiles:
    """Files by bucket.

    Attributes:
        rows: of all files.
    """

    rows: int = 0
    _buckets: dict[Place, dict[FileIdentity, ManifestEntry]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _totals: dict[bytes, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def apply(self, delta: Iterable[ManifestEntry]) -> list[ManifestEntry]:
        """Take a snapshot's changes in; those that cannot be: added twice, or deleted unfound."""
        impossible = []
        delta = list(delta)
        for entry in delta:
            if entry.kind is FileKind.ADD:
                bucket = self._buckets[entry.partition, entry.bucket]
                if entry.identity in bucket:
                    impossible.append(entry)
                    continue
                bucket[entry.identity] = entry
                self._count(entry, 1)
        for entry in delta:
            if entry.kind is FileKind.DELETE:
                gone = self._buckets[entry.partition, entry.bucket].pop(entry.identity, None)
                if gone is None:
                    impossible.append(entry)
                else:
                    self._count(gone, -1)
        return impossible

    def bucket(self, place: Place) -> Collection[ManifestEntry]:
        """The live files of a bucket."""
        return self._buckets[place].values()

    def total_buckets(self, partition: bytes) -> list[int]:
        """For how many buckets the partition's files were written, ascending; at most one is right.

        Files that belong to no bucket, or not yet, are passed over.
        """
        totals = self._totals[partition]
        return sorted(total for total, files in totals.items() if files and total > 0)

    def _count(self, entry: ManifestEntry, sign: int) -> None:
        self.rows += sign * entry.file.row_count
        self._totals[entry.partition][entry.total_buckets] += sign
