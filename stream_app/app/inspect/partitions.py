"""How much lies in each partition and bucket."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.app.output.listing import time_text
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.bucket_summary import bucket_summaries, partition_summaries


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition.

    Attributes:
        rows: of all files, deletes and older versions included.
        buckets: those that have files.
        updated: when its newest file was made, local time of the writer.
    """

    partition: str
    buckets: int
    files: int
    rows: int
    bytes: int
    updated: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRow:
    """One bucket; as a partition."""

    partition: str
    bucket: int
    files: int
    rows: int
    bytes: int
    updated: str | None


def partition_rows(table: FileStoreTable, snapshot: Snapshot | None) -> list[PartitionRow]:
    """Partitions by name."""
    return [
        PartitionRow(
            partition=table.paths.partition(partition),
            buckets=buckets,
            files=summary.files,
            rows=summary.rows,
            bytes=summary.bytes,
            updated=time_text(summary.updated_ms, zone=""),
        )
        for partition, (buckets, summary) in partition_summaries(table, snapshot).items()
    ]


def bucket_rows(table: FileStoreTable, snapshot: Snapshot | None) -> list[BucketRow]:
    """Buckets by partition and number."""
    return [
        BucketRow(
            partition=table.paths.partition(partition),
            bucket=bucket,
            files=summary.files,
            rows=summary.rows,
            bytes=summary.bytes,
            updated=time_text(summary.updated_ms, zone=""),
        )
        for (partition, bucket), summary in bucket_summaries(table, snapshot).items()
    ]
