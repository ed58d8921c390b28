"""Decides which manifests a commit merges.

`table.commit.manifest_merger` reads and writes the manifests.

Source: Paimon `operation/ManifestFileMerger.java`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.model.files.manifest_entry import ManifestFileMeta

MergeGroup = tuple[ManifestFileMeta, ...]


def manifest_groups(
    metas: Sequence[ManifestFileMeta], *, target_size: int, count_min: int
) -> list[MergeGroup]:
    """Divide consecutive manifests into groups, each of which the caller merges into one manifest.

    Neighbours form a group when they reach `target_size` bytes. The remaining small manifests are a
    group if there are at least `count_min`. The order is kept, because a DELETE must follow its
    ADD.
    """
    groups: list[MergeGroup] = []
    group: list[ManifestFileMeta] = []
    size = 0
    for meta in metas:
        group.append(meta)
        size += meta.file_size
        if size >= target_size:
            groups.append(tuple(group))
            group, size = [], 0
    # A manifest larger than all that follow stays alone, or every merge would rewrite it.
    while len(group) > 1 and group[0].file_size > size - group[0].file_size:
        size -= group[0].file_size
        groups.append((group.pop(0),))
    if len(group) >= count_min:
        groups.append(tuple(group))
    else:
        groups += [(meta,) for meta in group]
    return groups


def full_merge_names(
    metas: Sequence[ManifestFileMeta], *, target_size: int, threshold: int
) -> frozenset[str]:
    """Return the names of the manifests that a full merge rewrites; empty if none is due.

    It rewrites manifests with DELETEs and small ones, and is due when these have `threshold` bytes.
    Other manifests are rewritten only if one of their files is deleted.
    """
    rewritten_metas = [
        meta for meta in metas if meta.num_deleted_files or meta.file_size < target_size
    ]
    if len(metas) < 2 or sum(meta.file_size for meta in rewritten_metas) < threshold:
        return frozenset()
    return frozenset(meta.file_name for meta in rewritten_metas)
