"""What would be compacted next in each bucket, and why: nothing is begun."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from stream_app.mergetree.compact.compact_executor import CompactRequest
from stream_app.model.bucket_id import BucketId
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.registry import kind_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCompaction:
    """One unit.

    Attributes:
        sorted_runs: of the bucket; None without a primary key.
        levels: of the unit's runs, newest first; None likewise.
    """

    partition: str
    bucket: int
    sorted_runs: int | None
    reason: str
    levels: str | None
    output_level: int
    files: int
    bytes: int


def planned_compactions(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    buckets: Collection[BucketId] | None = None,
    *,
    full: bool = False,
) -> list[PlannedCompaction]:
    """The units that would be begun now, by partition and bucket.

    Args:
        buckets: None: all.
        full: each bucket is to be merged whole.
    """
    requests = kind_of(table.schema).planned_compactions(table, snapshot, buckets, full=full)
    plan = [_planned(table, request) for request in requests]
    return sorted(plan, key=lambda compaction: (compaction.partition, compaction.bucket))


def _planned(table: FileStoreTable, request: CompactRequest) -> PlannedCompaction:
    unit, has_runs = request.unit, table.kind.merges_by_key
    return PlannedCompaction(
        partition=table.paths.partition(request.partition),
        bucket=request.bucket,
        sorted_runs=request.runs if has_runs else None,
        reason=unit.reason,
        levels=" ".join(map(str, unit.levels)) if has_runs else None,
        output_level=unit.output_level,
        files=len(unit.files),
        bytes=unit.total_size,
    )
