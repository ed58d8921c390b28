"""Decides whether changes still fit a table that others have changed meanwhile.

Source: Paimon `operation/commit/ConflictDetection.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from stream_app.model.manifest_entry import FileKind, ManifestEntry

KeyOrder = Callable[[bytes], Any]


def conflict(
    live: Iterable[ManifestEntry], changes: Sequence[ManifestEntry], key_of: KeyOrder
) -> str | None:
    """What stands against committing `changes` on top of `live`, in words; None when nothing does.

    Args:
        live: live files of at least the partitions that the changes touch.
        changes: entries about to be committed.
        key_of: makes serialized keys comparable.

    The rules: a deleted file must be live, at that level; a partition keeps its number of
    buckets; files of a level above 0 do not overlap.
    """
    by_identity = {entry.identity: entry for entry in live}
    buckets = {entry.partition: entry.total_buckets for entry in by_identity.values()}
    for change in changes:
        total = buckets.get(change.partition, change.total_buckets)
        if total > 0 and change.kind is FileKind.ADD and total != change.total_buckets:
            return f"the partition has {total} buckets, not {change.total_buckets}"
    for change in changes:
        if change.kind is FileKind.DELETE and by_identity.pop(change.identity, None) is None:
            return f"file {change.file.file_name} of level {change.file.level} is gone"
    touched = set()
    for change in changes:
        if change.kind is FileKind.ADD:
            by_identity[change.identity] = change
            touched.add((change.partition, change.bucket, change.file.level))
    return _overlap(by_identity.values(), touched, key_of)


def _overlap(
    entries: Iterable[ManifestEntry], touched: set[tuple[bytes, int, int]], key_of: KeyOrder
) -> str | None:
    levels: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for entry in entries:
        where = (entry.partition, entry.bucket, entry.file.level)
        if entry.file.level > 0 and where in touched:
            levels.setdefault(where, []).append(entry)
    for (_, bucket, level), members in levels.items():
        files = sorted((entry.file for entry in members), key=lambda file: key_of(file.min_key))
        for left, right in pairwise(files):
            if key_of(left.max_key) >= key_of(right.min_key):
                return (
                    f"{left.file_name} and {right.file_name} overlap in bucket {bucket}, "
                    f"level {level}"
                )
    return None
