"""How many rows of a table wait for a compaction, by its manifests.

Source: none; `planning.compact.waiting_rows` has the rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.model.manifest_entry import ManifestEntry
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.planning.compact.waiting_rows import SeenAt, counted_rows, waiting_buckets
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


def rows_that_wait(
    table: FileStoreTable, latest: Snapshot | None, live: Sequence[ManifestEntry] | None = None
) -> int:
    """Committed rows that readers, or followers of the changelog, do not get yet.

    Rows of an epoch that was committed a moment ago do not count: its compaction is under way.

    Args:
        latest: the newest snapshot.
        live: its files; None: they are read where rows may wait.

    Raises:
        CorruptFileError: a manifest is missing or damaged.
    """
    rule = table.seen_at
    if latest is None or rule is SeenAt.ANY_LEVEL:
        return 0
    if live is None:
        live = FileStoreScan(table).live(latest)
    waiting = sum(waiting_buckets(live, rule, table.options.num_levels).values())
    is_epoch = latest.commit_kind is CommitKind.APPEND
    return counted_rows(
        waiting,
        newest=max(0, latest.delta_record_count or 0) if is_epoch else 0,
        age_s=(table.clock.now_ms() - latest.time_millis) / 1000,
    )
