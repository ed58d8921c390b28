"""The compactions of all buckets that a job touches, of a table without keys.

Owned by `stream_commit`. Only what is picked differs from a table with keys; when compactions are
triggered, how they fail and what becomes of their results is the same.

Source: Paimon `operation/BucketedAppendFileStoreWrite.java#getCompactManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.mergetree.levels import Levels
from stream_app.model.bucket_id import BucketId
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.bucketed_append import BucketedAppendCompactManager
from stream_app.table.compact.coordinator import CompactCoordinator, files_by_bucket
from stream_app.table.file_store_table import FileStoreTable


class BucketedAppendCompactCoordinator(CompactCoordinator):
    """Managers of the touched buckets."""

    def sorted_runs(self) -> dict[BucketId, int]:
        """None: files without keys are no runs."""
        return {}

    def _read_managers(
        self, buckets: Collection[BucketId], snapshot: Snapshot | None
    ) -> Mapping[BucketId, CompactManager]:
        return bucketed_append_managers(self.table, snapshot, buckets)


def bucketed_append_managers(
    table: FileStoreTable, snapshot: Snapshot | None, buckets: Collection[BucketId] | None = None
) -> dict[BucketId, CompactManager]:
    """A manager for each bucket as it is in a snapshot; None: for those that have files."""
    schema, options = table.schema, table.options
    return {
        bucket: BucketedAppendCompactManager(
            partition=bucket[0],
            bucket=bucket[1],
            # Files above level 0 are those that another engine has clustered: they stay.
            levels=Levels(
                [file for file in files if file.level == 0], num_levels=1, key_of=table.key_of
            ),
            policy=None,
            stop_trigger=options.stop_trigger,
            total_buckets=total_buckets,
            rewrite_all=options.boolean("compaction.force-rewrite-all-files"),
            target_file_size=schema.target_file_size,
            compaction_file_size=schema.compaction_file_size,
            min_file_num=options.integer("compaction.min.file-num"),
            writes_only=options.boolean("write-only"),
        )
        for bucket, (total_buckets, files) in files_by_bucket(table, snapshot, buckets).items()
    }
