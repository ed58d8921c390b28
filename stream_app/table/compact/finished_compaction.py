"""A compaction that has finished and waits to be committed."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.mergetree.compact.compact_unit import CompactResult, CompactUnit
from stream_app.model.bucket_id import BucketId
from stream_app.model.commit_message import CommitMessage


@dataclass(frozen=True, slots=True)
class FinishedCompaction:
    """What was asked for and what came of it.

    `is_overtaken`: another writer changed the bucket meanwhile; `total_buckets`: of the partition;
    see `CompactManager`.
    """

    bucket: BucketId
    unit: CompactUnit
    result: CompactResult
    is_overtaken: bool
    total_buckets: int | None = None

    @property
    def message(self) -> CommitMessage:
        """What the committer is to publish."""
        return CommitMessage(
            partition=self.bucket[0],
            bucket=self.bucket[1],
            total_buckets=self.total_buckets,
            compact_before=self.result.before,
            compact_after=self.result.after,
        )
