"""How much lies in each bucket and partition of a snapshot.

Source: Paimon `manifest/BucketEntry.java`, `manifest/PartitionEntry.java`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stream_app.model.bucket_id import BucketId
from stream_app.model.manifest_entry import ManifestEntry
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSummary:
    """Live files together.

    Attributes:
        rows: of all files, deletes and older versions included.
        updated_ms: when the newest file was made: the writer's local wall clock; None: not told.
    """

    rows: int
    bytes: int
    files: int
    updated_ms: int | None


def bucket_summaries(
    table: FileStoreTable, snapshot: Snapshot | None
) -> dict[BucketId, FilesSummary]:
    """By partition and bucket; partitions in the order of their folders' names."""
    found: dict[BucketId, list[ManifestEntry]] = {}
    for entry in FileStoreScan(table).live(snapshot):
        found.setdefault((entry.partition, entry.bucket), []).append(entry)
    order = sorted(found, key=lambda place: (table.paths.partition(place[0]), place[1]))
    return {place: _summary(found[place]) for place in order}


def partition_summaries(
    table: FileStoreTable, snapshot: Snapshot | None
) -> dict[bytes, tuple[int, FilesSummary]]:
    """By partition, in order: the number of buckets that have files, and all their files."""
    found: dict[bytes, list[FilesSummary]] = {}
    for (partition, _), summary in bucket_summaries(table, snapshot).items():
        found.setdefault(partition, []).append(summary)
    return {partition: (len(parts), _sum(parts)) for partition, parts in found.items()}


def _summary(entries: Iterable[ManifestEntry]) -> FilesSummary:
    return _sum(
        [
            FilesSummary(
                rows=entry.file.row_count,
                bytes=entry.file.file_size,
                files=1,
                updated_ms=entry.file.creation_time_ms,
            )
            for entry in entries
        ]
    )


def _sum(parts: list[FilesSummary]) -> FilesSummary:
    times = [part.updated_ms for part in parts if part.updated_ms is not None]
    return FilesSummary(
        rows=sum(part.rows for part in parts),
        bytes=sum(part.bytes for part in parts),
        files=sum(part.files for part in parts),
        updated_ms=max(times, default=None),
    )
