"""Decides which manifests a commit writes anew, because a file goes or because they are small.

Source: Paimon `iceberg/IcebergCommitCallback.java#compactMetadataIfNeeded`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stream_app.model.iceberg.metadata import EntryStatus, IcebergEntry, IcebergManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """When small manifests are merged.

    Attributes:
        target_size: bytes of a full manifest.
        min_count, max_count: ``metadata.iceberg.compaction.*.file-num``.
    """

    target_size: int
    min_count: int
    max_count: int


def manifests_to_merge(
    manifests: Iterable[IcebergManifest], rule: MergeRule
) -> Sequence[IcebergManifest]:
    """The small manifests, if they are many, or fill one together; else none."""
    small = [one for one in manifests if one.length < rule.target_size * 2 // 3]
    total = sum(one.length for one in small)
    is_due = len(small) >= rule.max_count or total >= rule.target_size
    return small if is_due and len(small) >= rule.min_count else ()


def carried_entries(
    entries: Iterable[IcebergEntry], removed: frozenset[str], snapshot_id: int
) -> list[IcebergEntry]:
    """The live entries of an older manifest, in a new one.

    Args:
        removed: keys of the files that the snapshot deletes.
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
