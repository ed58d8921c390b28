"""Decides which manifests a commit rewrites: those that lose a file, and small ones.

Removing a file rewrites its manifest. So a full manifest has a hundredth of the table's entries,
but at least 100 and at most 10,000.

Source: Paimon `iceberg/IcebergCommitCallback.java#compactMetadataIfNeeded`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stream_app.model.iceberg_metadata import EntryStatus, IcebergEntry, IcebergManifest

_ENTRIES_MIN, _ENTRIES_MAX = 100, 10_000
_FULL_MANIFEST_COUNT = 100


def full_manifest_entry_count(live_file_count: int) -> int:
    """Return the entries of a full manifest in a table with this number of live files."""
    return min(max(_ENTRIES_MIN, live_file_count // _FULL_MANIFEST_COUNT), _ENTRIES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestMergeLimits:
    """The limits at which small manifests are merged.

    Attributes:
        target_size: the bytes of a full manifest.
        count_min, count_max: ``metadata.iceberg.compaction.*.file-num``.
    """

    target_size: int
    count_min: int
    count_max: int


def manifests_to_merge(
    manifests: Iterable[IcebergManifest], limits: ManifestMergeLimits, full_entry_count: int
) -> Sequence[IcebergManifest]:
    """Return the small manifests if they are many, or fill one together; else none.

    Args:
        full_entry_count: the entries of a full manifest; a half full one is not small.
    """
    small_manifests = [
        manifest
        for manifest in manifests
        if manifest.length < limits.target_size * 2 // 3
        and manifest.live_file_count < full_entry_count // 2
    ]
    total_size = sum(manifest.length for manifest in small_manifests)
    is_due = len(small_manifests) >= limits.count_max or total_size >= limits.target_size
    return small_manifests if is_due and len(small_manifests) >= limits.count_min else ()


def carried_entries(
    entries: Iterable[IcebergEntry], removed_keys: frozenset[str], snapshot_id: int
) -> list[IcebergEntry]:
    """Return the live entries of an older manifest, for a new one.

    Args:
        removed_keys: the keys of the files that the snapshot deletes.
    """
    new_entries = []
    for entry in entries:
        if entry.status is EntryStatus.DELETED:
            continue
        if entry.file.key in removed_keys:
            deleted_entry = replace(entry, status=EntryStatus.DELETED, snapshot_id=snapshot_id)
            new_entries.append(deleted_entry)
        else:
            new_entries.append(replace(entry, status=EntryStatus.EXISTING))
    return new_entries
