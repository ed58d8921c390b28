"""What would be compacted next in each bucket, and why: nothing is begun."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from stream_app.clock import local_wall_clock_ms
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact_coordinator import bucket_managers
from stream_app.table.file_store_scan import BucketId
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCompaction:
    """One unit; `levels` are those of its runs, newest first."""

    partition: str
    bucket: int
    sorted_runs: int
    reason: str
    levels: str
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
    local_ms = local_wall_clock_ms(table.clock)
    plan = []
    for bucket, manager in bucket_managers(table, snapshot, buckets).items():
        unit = manager.pick_full() if full else manager.pick(local_ms=local_ms)
        if unit is None:
            continue
        plan.append(
            PlannedCompaction(
                partition=table.paths.partition(bucket[0]),
                bucket=bucket[1],
                sorted_runs=manager.levels.number_of_sorted_runs(),
                reason=unit.reason,
                levels=" ".join(map(str, unit.levels)),
                output_level=unit.output_level,
                files=len(unit.files),
                bytes=unit.total_size,
            )
        )
    return sorted(plan, key=lambda each: (each.partition, each.bucket))
