"""Decides which manifests a commit merges.

`table.commit.manifest_merger` reads and writes the manifests.

Source: Paimon `operation/ManifestFileMerger.java`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.model.files.manifest_entry import ManifestFileMeta

MergeGroup = tuple[ManifestFileMeta, ...]


def manifest_groups(
    manifests: Sequence[ManifestFileMeta], *, target_size: int, min_count: int
) -> list[MergeGroup]:
    """Divide consecutive manifests into groups, each of which the caller merges into one manifest.

    Neighbours form a group when they reach `target_size` bytes. The remaining small manifests are a
    group if there are at least `min_count`. The order is kept, because a DELETE must follow its
    ADD.
    """
    groups: list[MergeGroup] = []
    group: list[ManifestFileMeta] = []
    size = 0
    for manifest in manifests:
        group.append(manifest)
        size += manifest.file_size
        if size >= target_size:
            groups.append(tuple(group))
            group, size = [], 0
    # A manifest larger than all that follow stays alone, or every merge would rewrite it.
    while len(group) > 1 and group[0].file_size > size - group[0].file_size:
        size -= group[0].file_size
        groups.append((group.pop(0),))
    if len(group) >= min_count:
        groups.append(tuple(group))
    else:
        groups += [(manifest,) for manifest in group]
    return groups


def full_merge_names(
    manifests: Sequence[ManifestFileMeta], *, target_size: int, threshold: int
) -> frozenset[str]:
    """Return the names of the manifests that a full merge rewrites; empty if none is due.

    It rewrites manifests with DELETEs and small ones, and is due when these have `threshold` bytes.
    Other manifests are rewritten only if one of their files is deleted.
    """
    rewritten_manifests = [
        manifest
        for manifest in manifests
        if manifest.num_deleted_files or manifest.file_size < target_size
    ]
    if (
        len(manifests) < 2
        or sum(manifest.file_size for manifest in rewritten_manifests) < threshold
    ):
        return frozenset()
    return frozenset(manifest.file_name for manifest in rewritten_manifests)
