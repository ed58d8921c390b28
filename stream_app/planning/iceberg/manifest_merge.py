"""Decides which manifests a commit rewrites: those that lose a file, and small ones.

Removing a file rewrites its manifest. So manifests stay short and grow with the table: removing a
file costs about a hundredth of all entries.

Source: Paimon `iceberg/IcebergCommitCallback.java#compactMetadataIfNeeded`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stream_app.model.iceberg_metadata import EntryStatus, IcebergEntry, IcebergManifest

_ENTRIES_LEAST, _ENTRIES_MOST = 100, 10_000
_FULL_MANIFESTS = 100


def entries_of_manifest(live_files: int) -> int:
    """Return the entries of a full manifest in a table with this number of live files."""
    return min(max(_ENTRIES_LEAST, live_files // _FULL_MANIFESTS), _ENTRIES_MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """The limits at which small manifests are merged.

    Attributes:
        target_size: the bytes of a full manifest.
        min_count, max_count: ``metadata.iceberg.compaction.*.file-num``.
    """

    target_size: int
    min_count: int
    max_count: int


def manifests_to_merge(
    manifests: Iterable[IcebergManifest], rule: MergeRule, full: int
) -> Sequence[IcebergManifest]:
    """Return the small manifests if they are many, or fill one together; else none.

    Args:
        full: the result of `entries_of_manifest`; a half full manifest is not small.
    """
    small = [
        manifest
        for manifest in manifests
        if manifest.length < rule.target_size * 2 // 3 and manifest.live_files < full // 2
    ]
    total = sum(manifest.length for manifest in small)
    is_due = len(small) >= rule.max_count or total >= rule.target_size
    return small if is_due and len(small) >= rule.min_count else ()


def carried_entries(
    entries: Iterable[IcebergEntry], removed: frozenset[str], snapshot_id: int
) -> list[IcebergEntry]:
    """Return the live entries of an older manifest, for a new one.

    Args:
        removed: the keys of the files that the snapshot deletes.
    """
    carried = []
    for entry in entries:
        if entry.status is EntryStatus.DELETED:
            continue
        if entry.file.key in removed:
            deleted = replace(entry, status=EntryStatus.DELETED, snapshot_id=snapshot_id)
            carried.append(deleted)
        else:
            carried.append(replace(entry, status=EntryStatus.EXISTING))
    return carried
