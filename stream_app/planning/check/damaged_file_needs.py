"""Describes which versions need a damaged file, and how to repair the table.

`table.check.dependent_versions` determines the versions. `table.check.table_check` uses the texts.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from stream_app.model.snapshot import VersionKind

_NAMED_KINDS = {
    VersionKind.SNAPSHOT: "snapshot",
    VersionKind.CHANGELOG: "long-lived changelog",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionName:
    """One version, or its changes.

    Attributes:
        snapshot_id: the number of its snapshot; None for an unreadable tag.
        tag: the tag's name; empty unless it is a tag.
        branch: the branch's name; empty for the main branch.
        is_changes: whether it stands for the version's changes, rather than its rows.
    """

    kind: VersionKind
    snapshot_id: int | None
    tag: str = ""
    branch: str = ""
    is_changes: bool = False


def needs_text(versions: Collection[VersionName]) -> str:
    """Describe versions: ``snapshots 3 to 5, tag 'opening'; the changes of snapshot 4``."""
    parts = []
    for is_changes, branch in sorted(
        {(version.is_changes, version.branch) for version in versions}
    ):
        key = (is_changes, branch)
        group = [version for version in versions if (version.is_changes, version.branch) == key]
        suffix = f" of branch {branch!r}" if branch else ""
        parts.append("the changes of " * is_changes + _names_text(group) + suffix)
    return "; ".join(parts)


def next_step(
    location: str,
    versions: Sequence[VersionName],
    dependents: Collection[VersionName],
    damaged_versions: Collection[VersionName],
) -> str:
    """Return the next step for a damaged file that versions need.

    Args:
        location: the location of the table.
        versions: all versions of the table.
        dependents: the versions that need the file.
        damaged_versions: the versions that need any known damaged file, none of which can be the
            target of a rollback.
    """
    main_versions = [
        version
        for version in versions
        if not version.branch and version.kind is not VersionKind.CHANGELOG
    ]
    snapshots = [version for version in main_versions if version.kind is VersionKind.SNAPSHOT]
    latest_version = max(snapshots, key=lambda version: version.snapshot_id or 0, default=None)
    if latest_version not in dependents:
        has_rows = any(not dependent_version.is_changes for dependent_version in dependents)
        verdict = "the latest version does not need it" if has_rows else "no row depends on it"
        return (
            f"{verdict}; restore it from a backup, or give up the versions that need it: "
            "stream-app expire-snapshots, delete-tag"
        )
    # A tag of a damaged snapshot is no target, because a rollback to it keeps the snapshot's file.
    lost_versions = {
        None,
        *(
            version.snapshot_id
            for version in damaged_versions
            if not version.branch and not version.is_changes
        ),
    }
    target_version = max(
        (version for version in main_versions if version.snapshot_id not in lost_versions),
        key=lambda version: (version.snapshot_id or 0, version.kind is VersionKind.SNAPSHOT),
        default=None,
    )
    if target_version is None:
        return (
            "restore it from a backup: the latest version needs it, and no other version is whole"
        )
    flag = (
        f"--tag {shlex.quote(target_version.tag)}"
        if target_version.tag
        else f"--snapshot {target_version.snapshot_id}"
    )
    return (
        "the latest version needs it; restore it from a backup, or stop the table's writers and "
        f"roll back to an earlier version: stream-app rollback-to {shlex.quote(location)} {flag}"
    )


def _names_text(versions: Collection[VersionName]) -> str:
    """Return the names of versions, with consecutive numbers as a range."""
    texts = []
    for kind, noun in _NAMED_KINDS.items():
        snapshot_ids = sorted(
            version.snapshot_id or 0 for version in versions if version.kind is kind
        )
        if snapshot_ids:
            texts.append(f"{noun}{'s' if len(snapshot_ids) > 1 else ''} {_ranges(snapshot_ids)}")
    tags = sorted(version.tag for version in versions if version.kind is VersionKind.TAG)
    if tags:
        texts.append(f"tag{'s' if len(tags) > 1 else ''} {', '.join(map(repr, tags))}")
    return ", ".join(texts)


def _ranges(snapshot_ids: Sequence[int]) -> str:
    texts = []
    for _, run in groupby(enumerate(snapshot_ids), key=lambda item: item[1] - item[0]):
        first_id, *other_ids = [snapshot_id for _, snapshot_id in run]
        texts.append(f"{first_id} to {other_ids[-1]}" if other_ids else str(first_id))
    return ", ".join(texts)
