"""Decides which manifests of a base list are rewritten into fewer.

Every commit brings a small manifest. Merged in groups (`manifest_groups`), a table's base list
stays short however many commits it has seen, and each entry is rewritten only a few times. Groups
leave entries of deleted files whose ADD and DELETE are in different large manifests: a `full_merge`
removes all of these at once.

Source: Paimon `operation/ManifestFileLegacyMerger.java` (``manifest.target-file-size``,
``manifest.merge-min-count``, ``manifest.full-compaction-threshold-size``).
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.model.manifest_entry import ManifestFileMeta

Group = tuple[ManifestFileMeta, ...]


def manifest_groups(
    metas: Sequence[ManifestFileMeta], *, target_size: int, min_count: int
) -> list[Group]:
    """Consecutive manifests in groups; a group of more than one is to be merged into one.

    Neighbours gather until they reach `target_size` bytes. The rest at the end, without the large
    ones at its beginning, is merged only if it has at least `min_count`. The order is kept, since a
    DELETE must come after its ADD.
    """
    groups: list[Group] = []
    gathered: list[ManifestFileMeta] = []
    size = 0
    for meta in metas:
        gathered.append(meta)
        size += meta.file_size
        if size >= target_size:
            groups.append(tuple(gathered))
            gathered, size = [], 0
    # One that outweighs all behind it waits for its like, else every merge would rewrite it.
    while len(gathered) > 1 and gathered[0].file_size > size - gathered[0].file_size:
        size -= gathered[0].file_size
        groups.append((gathered.pop(0),))
    if len(gathered) >= min_count:
        groups.append(tuple(gathered))
    else:
        groups += [(meta,) for meta in gathered]
    return groups


def full_merge(
    metas: Sequence[ManifestFileMeta], *, target_size: int, threshold: int
) -> frozenset[str]:
    """Names of the manifests that a full merge rewrites; none when it is not due.

    These are the ones with DELETEs, and the small ones; it is due when they have `threshold` bytes
    together. Others are rewritten only if one of their files is gone.
    """
    rewritten = [meta for meta in metas if meta.num_deleted_files or meta.file_size < target_size]
    if len(metas) < 2 or sum(meta.file_size for meta in rewritten) < threshold:
        return frozenset()
    return frozenset(meta.file_name for meta in rewritten)
