"""The compactions of all buckets that a job touches, of a table without keys.

Owned by `stream_commit`. Only what is picked differs from a table with keys; when compactions are
triggered, how they fail and what becomes of their results is the same.

Source: Paimon `operation/BucketedAppendFileStoreWrite.java#getCompactManager`.
"""

from __future__ import annotations

from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.mergetree.levels import Levels
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.table.bucketed_append_compact_manager import BucketedAppendCompactManager
from stream_app.table.compact_coordinator import CompactCoordinator
from stream_app.table.file_store_scan import BucketId


class BucketedAppendCompactCoordinator(CompactCoordinator):
    """Managers of the touched buckets."""

    def sorted_runs(self) -> dict[BucketId, int]:
        """None: files without keys are no runs."""
        return {}

    def _manager(self, bucket: BucketId, files: list[DataFileMeta]) -> CompactManager:
        schema, options = self.table.schema, self.table.options
        # Files above level 0 are those that another engine has clustered: they stay as they are.
        level0 = [file for file in files if file.level == 0]
        return BucketedAppendCompactManager(
            partition=bucket[0],
            bucket=bucket[1],
            levels=Levels(level0, num_levels=1, key_of=self.table.key_of),
            policy=None,
            stop_trigger=options.stop_trigger,
            rewrite_all=options.boolean("compaction.force-rewrite-all-files"),
            target_file_size=schema.target_file_size,
            compaction_file_size=schema.compaction_file_size,
            min_file_num=options.integer("compaction.min.file-num"),
            writes_only=options.boolean("write-only"),
        )
