"""Decides whether writes wait for compactions, because a bucket has too many sorted runs.

The stream's commit asks before each epoch and each commit. A table without sorted runs has no
managers here, or managers without a stop trigger. So its writes never wait.

Source: Paimon `mergetree/compact/MergeTreeCompactManager.java#shouldWaitForLatestCompaction`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stream_app.errors import CompactionError
from stream_app.filestore.path_factory import FileStorePathFactory
from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.model.bucket_id import BucketId
from stream_app.table.compact.compaction_failures import CompactionFailures


@dataclass(frozen=True, slots=True)
class BackPressure:
    """The back pressure of a coordinator's managers, which change over time."""

    paths: FileStorePathFactory
    managers: Mapping[BucketId, CompactManager]
    failures: CompactionFailures[BucketId]

    def sorted_run_counts(self) -> dict[BucketId, int]:
        """Return the number of sorted runs of each known bucket that has any."""
        return {
            bucket_id: count
            for bucket_id, manager in self.managers.items()
            if (count := manager.sorted_run_count) is not None
        }

    def sorted_run_count_max(self) -> int:
        """Return the maximum number of sorted runs of a known bucket."""
        return max(self.sorted_run_counts().values(), default=0)

    def buckets_over_stop_trigger(self) -> int:
        """Return the number of buckets that must be compacted before they take more files.

        It omits buckets whose compaction keeps failing, because the other buckets must not wait for
        them.
        """
        return sum(
            manager.should_wait_for_latest_compaction() and not self.failures.is_stuck(bucket_id)
            for bucket_id, manager in self.managers.items()
        )

    def check_not_stuck(self, buckets: Iterable[BucketId]) -> None:
        """Check that each bucket may take more files.

        Raises:
            CompactionError: a bucket has too many sorted runs and its compaction keeps failing, or
                no retry can succeed.
        """
        for bucket_id in buckets:
            manager = self.managers.get(bucket_id)
            if manager is None or not self.failures.is_stuck(bucket_id):
                continue
            must_wait = manager.should_wait_for_latest_compaction()
            if must_wait or self.failures.is_final(bucket_id):
                raise CompactionError(
                    f"bucket {manager.bucket} has {manager.levels.sorted_run_count} sorted "
                    f"runs and its compaction failed {self.failures.count(bucket_id)} times in a "
                    f"row, at last with: {self.failures.last_error_text(bucket_id)}",
                    where=self.paths.bucket_folder(*bucket_id),
                    fix="remove the cause, and start the job again; or set 'write-only' = 'true' "
                    "and compact with another job",
                )
