"""A compaction of one bucket: the decided unit, and the driver's request to execute the unit.

`mergetree.compact` and `table.compact` decide a unit. A task answers a request with a
`BucketChange`.

Source: Paimon `mergetree/compact/CompactUnit.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.row_order import RowOrder


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """The decision to merge files into a level, before its execution.

    Attributes:
        reason: names the rule, for logs and for `inspect`.
        is_forced: whether the unit moves level 0 up although no universal rule asks for it.
    """

    output_level: int
    files: tuple[DataFileMeta, ...]
    reason: str
    is_forced: bool = False

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of the sorted runs, newest first."""
        level0 = [0 for file in self.files if file.level == 0]
        return (*level0, *sorted({file.level for file in self.files if file.level > 0}))

    @property
    def total_size(self) -> int:
        """The bytes of the files that the compaction reads."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """A unit with all data that its executor needs.

    Attributes:
        partition: the serialized BinaryRow of the partition columns.
        total_buckets: the partition's number of buckets; None: the number in its options.
        drops_deletes: whether deletes may be dropped, because no older row exists above the output.
        max_level: the bucket's highest level.
        rewrites_all: whether to rewrite even files that could be upgraded.
        files_above: the files above the output level, in which the unit's keys are looked up.
        sorted_run_count: the bucket's number of sorted runs at the pick; more runs are more urgent.
        order: the order in which rows of a table without keys are written; None to keep their
            order.
    """

    partition: bytes
    bucket: int
    unit: CompactUnit
    drops_deletes: bool
    max_level: int
    total_buckets: int | None = None
    rewrites_all: bool = False
    files_above: tuple[DataFileMeta, ...] = ()
    sorted_run_count: int = 1
    order: RowOrder | None = None

    @property
    def bucket_id(self) -> BucketId:
        """The bucket to compact."""
        return BucketId(self.partition, self.bucket)

    def change(
        self,
        *,
        removed_files: tuple[DataFileMeta, ...] = (),
        added_files: tuple[DataFileMeta, ...] = (),
        changelog_files: tuple[DataFileMeta, ...] = (),
    ) -> BucketChange:
        """Return the bucket's change by this request."""
        return BucketChange(
            partition=self.partition,
            bucket=self.bucket,
            total_buckets=self.total_buckets,
            removed_files=removed_files,
            added_files=added_files,
            changelog_files=changelog_files,
        )
