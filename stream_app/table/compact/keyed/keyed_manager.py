"""Makes the compaction manager of a bucket with keys.

`BucketCoordinator` calls it for each bucket that it restores. The manager picks
compactions and starts them on the executor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.mergetree.compact.picker import MergeTreePicker
from stream_app.mergetree.levels import Levels
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.options.compaction_options import (
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    WRITE_ONLY,
)
from stream_app.table.compact.buckets.idle_buckets import LiveBucket
from stream_app.table.compact.expired_rows import expired_rows_predicate
from stream_app.table.compact.strategy_choice import compact_strategy
from stream_app.table.file_store_table import FileStoreTable


def keyed_manager(
    table: FileStoreTable, bucket_id: BucketId, live_bucket: LiveBucket
) -> CompactManager:
    """Return the manager of a keyed bucket."""
    partition, bucket = bucket_id
    options = table.options
    return CompactManager(
        partition=partition,
        bucket=bucket,
        levels=Levels(live_bucket.files, num_levels=options.num_levels, key_of=table.key_of),
        picker=None if options[WRITE_ONLY] else _picker(table),
        stop_trigger=options.stop_trigger,
        total_buckets=live_bucket.total_buckets,
        looks_up=options.looks_up,
        keeps_no_deletes=table.merges_by_vectors,
    )


def _picker(table: FileStoreTable) -> MergeTreePicker:
    return MergeTreePicker(
        strategy=compact_strategy(table.options),
        rewrites_all=table.options[COMPACTION_FORCE_REWRITE_ALL_FILES],
        make_rewrite_predicate=_make_rewrite_predicate(table),
    )


def _make_rewrite_predicate(table: FileStoreTable) -> Callable[[], Callable[[DataFileMeta], bool]]:
    """Return a function that makes a pick's predicate of files.

    The predicate finds expired rows, and rows that deletion vectors mark. A pick reads the latest
    snapshot at most once.
    """
    has_expired_rows = expired_rows_predicate(table)
    if not table.merges_by_vectors:
        return lambda: has_expired_rows

    def predicate_of_pick() -> Callable[[DataFileMeta], bool]:
        marked_names = functools.cache(lambda: _marked_names(table))
        return lambda file: file.file_name in marked_names() or has_expired_rows(file)

    return predicate_of_pick


def _marked_names(table: FileStoreTable) -> frozenset[str]:
    """Return the names of files of which the latest snapshot's deletion vectors mark rows."""
    latest_snapshot = table.snapshots.latest()
    if latest_snapshot is None:
        return frozenset()
    entries = table.manifests.read_index_manifest(latest_snapshot.index_manifest)
    return frozenset(name for entry in entries for name in entry.index_file.data_file_names)
