"""What would be compacted next in each bucket, and why: nothing is begun."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from stream_app.clock import local_wall_clock_ms
from stream_app.mergetree.compact.compact_unit import CompactUnit
from stream_app.model.bucket_id import BucketId
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.append_planner import append_compact_requests
from stream_app.table.compact.coordinator import bucket_managers
from stream_app.table.file_store_table import FileStoreTable


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
    if table.schema.has_primary_key:
        plan = _of_sorted_runs(table, snapshot, buckets, full=full)
    else:
        partitions = None if buckets is None else {partition for partition, _ in buckets}
        requests = append_compact_requests(table, snapshot, partitions=partitions, full=full)
        plan = [
            _planned(table, (one.partition, one.bucket), one.unit, sorted_runs=None)
            for one in requests
        ]
    return sorted(plan, key=lambda each: (each.partition, each.bucket))


def _of_sorted_runs(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    buckets: Collection[BucketId] | None,
    *,
    full: bool,
) -> list[PlannedCompaction]:
    local_ms = local_wall_clock_ms(table.clock)
    plan = []
    for bucket, manager in bucket_managers(table, snapshot, buckets).items():
        unit = manager.pick_full() if full else manager.pick(local_ms=local_ms)
        if unit is not None:
            runs = manager.levels.number_of_sorted_runs()
            plan.append(_planned(table, bucket, unit, sorted_runs=runs))
    return plan


def _planned(
    table: FileStoreTable, bucket: BucketId, unit: CompactUnit, *, sorted_runs: int | None
) -> PlannedCompaction:
    return PlannedCompaction(
        partition=table.paths.partition(bucket[0]),
        bucket=bucket[1],
        sorted_runs=sorted_runs,
        reason=unit.reason,
        levels=" ".join(map(str, unit.levels)) if table.schema.has_primary_key else None,
        output_level=unit.output_level,
        files=len(unit.files),
        bytes=unit.total_size,
    )
