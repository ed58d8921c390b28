"""How much lies in each bucket and partition of a snapshot.

Source: Paimon `manifest/BucketEntry.java`, `manifest/PartitionEntry.java`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from stream_app.model.bucket_id import BucketId
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSummary:
    """The live files of one bucket, or of all buckets of a partition.

    Attributes:
        partition: serialized.
        bucket: its number; -1 for a whole partition.
        buckets: how many have files.
        rows: physical rows of all files; deletes and older versions count.
        updated_ms: creation time of the newest file on its writer's wall clock; None: unknown.
    """

    partition: bytes
    bucket: int
    buckets: int
    rows: int
    bytes: int
    files: int
    updated_ms: int | None


def bucket_summaries(table: FileStoreTable, snapshot: Snapshot | None) -> list[FilesSummary]:
    """By partition and bucket; partitions in the order of their folders' names."""
    by_bucket: dict[BucketId, list[DataFileMeta]] = {}
    for entry in FileStoreScan(table).live(snapshot):
        by_bucket.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    order = sorted(by_bucket, key=lambda place: (table.paths.partition(place[0]), place[1]))
    return [
        FilesSummary(
            partition=place[0],
            bucket=place[1],
            buckets=1,
            rows=sum(file.row_count for file in by_bucket[place]),
            bytes=sum(file.file_size for file in by_bucket[place]),
            files=len(by_bucket[place]),
            updated_ms=_newest(file.creation_time_ms for file in by_bucket[place]),
        )
        for place in order
    ]


def partition_summaries(table: FileStoreTable, snapshot: Snapshot | None) -> list[FilesSummary]:
    """By partition, in the order of their folders' names."""
    summaries = bucket_summaries(table, snapshot)
    return [_sum(list(members)) for _, members in groupby(summaries, key=attrgetter("partition"))]


def _sum(parts: list[FilesSummary]) -> FilesSummary:
    return FilesSummary(
        partition=parts[0].partition,
        bucket=-1,
        buckets=len(parts),
        rows=sum(part.rows for part in parts),
        bytes=sum(part.bytes for part in parts),
        files=sum(part.files for part in parts),
        updated_ms=_newest(part.updated_ms for part in parts),
    )


def _newest(times: Iterable[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)
