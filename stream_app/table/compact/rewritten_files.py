"""Files that a full compaction rewrites although they lie where they should.

Source: Paimon `mergetree/compact/CompactStrategy.java#pickFullCompaction`.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_app.model.data_file_meta import DataFileMeta
from stream_app.table.compact.record_expiry import has_expired_rows
from stream_app.table.file_store_table import FileStoreTable


def must_rewrite(table: FileStoreTable) -> Callable[[DataFileMeta], bool]:
    """Whether a file has rows that are too old, or that deletion vectors mark."""
    expired = has_expired_rows(table)
    if not table.merges_by_vectors:
        return expired
    known: dict[int, frozenset[str]] = {}

    def check(file: DataFileMeta) -> bool:
        latest = table.snapshots.latest()
        if latest is None:
            return expired(file)
        if latest.snapshot_id not in known:
            known.clear()
            entries = table.manifests.read_index_manifest(latest.index_manifest)
            names = (name for entry in entries for name in entry.index_file.data_file_names)
            known[latest.snapshot_id] = frozenset(names)
        return file.file_name in known[latest.snapshot_id] or expired(file)

    return check
