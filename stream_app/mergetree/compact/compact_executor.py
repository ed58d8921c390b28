"""The port that runs a decided compaction elsewhere.

Implemented by `spark.compact_jobs` (a Spark job a unit) and by tests (in the caller).
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from stream_app.mergetree.compact.compact_unit import CompactUnit
from stream_app.model.bucket_change import BucketChange
from stream_app.model.data_file_meta import DataFileMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """A unit with everything that its executor needs.

    Attributes:
        partition, bucket, total_buckets: as in `BucketChange`.
        drop_deletes: no older row can lie below the output, so deletes may be left out.
        max_level: the bucket's highest level.
        rewrite_all: also rewrite files that could merely be upgraded.
        above: files of higher levels than the output, in which rows of the unit's keys are looked
            up.
        runs: sorted runs of the bucket when the unit was picked; more runs are more urgent.
    """

    partition: bytes
    bucket: int
    unit: CompactUnit
    drop_deletes: bool
    max_level: int
    total_buckets: int | None = None
    rewrite_all: bool = False
    above: tuple[DataFileMeta, ...] = ()
    runs: int = 1

    def change(
        self,
        *,
        removed: tuple[DataFileMeta, ...] = (),
        added: tuple[DataFileMeta, ...] = (),
        changelog: tuple[DataFileMeta, ...] = (),
    ) -> BucketChange:
        """The bucket's change by this request."""
        return BucketChange(
            partition=self.partition,
            bucket=self.bucket,
            total_buckets=self.total_buckets,
            removed=removed,
            added=added,
            changelog=changelog,
        )


class CompactExecutor(Protocol):
    """Runs requests, several at a time; no two of them may share a file."""

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        """Begin; the future holds the result or the failure."""
        ...
