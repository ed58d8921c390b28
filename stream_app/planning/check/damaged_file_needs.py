"""The versions that need a damaged file, in words, and the next step.

`table.check.dependent_versions` finds the versions, `table.check.table_check` asks for the words.
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
        number: of its snapshot; None of a tag that cannot be read.
        tag: its name; empty unless it is a tag.
        branch: in which it lies; empty: the main one.
        is_changes: whether its changes are meant, not its rows.
    """

    kind: VersionKind
    number: int | None
    tag: str = ""
    branch: str = ""
    is_changes: bool = False


def needs_text(needs: Collection[VersionName]) -> str:
    """``snapshots 3 to 5, tag 'opening'; the changes of snapshot 4``."""
    parts = []
    for is_changes, branch in sorted({(one.is_changes, one.branch) for one in needs}):
        names = [one for one in needs if (one.is_changes, one.branch) == (is_changes, branch)]
        suffix = f" of branch {branch!r}" if branch else ""
        parts.append("the changes of " * is_changes + _names_text(names) + suffix)
    return "; ".join(parts)


def next_step(
    location: str,
    versions: Sequence[VersionName],
    needs: Collection[VersionName],
    damaged: Collection[VersionName],
) -> str:
    """What to do about a damaged file that versions need.

    Args:
        location: of the table.
        versions: all that the table has.
        needs: the versions that need the file.
        damaged: the versions that need any file found damaged so far; none of them is a target.
    """
    main = [one for one in versions if not one.branch and one.kind is not VersionKind.CHANGELOG]
    snapshots = [one for one in main if one.kind is VersionKind.SNAPSHOT]
    newest = max(snapshots, key=lambda one: one.number or 0, default=None)
    if newest not in needs:
        has_rows = any(not one.is_changes for one in needs)
        verdict = "the newest version does not need it" if has_rows else "no row depends on it"
        return (
            f"{verdict}; restore it from a backup, or give up the versions that need it: "
            "stream-app expire-snapshots, delete-tag"
        )
    # A tag of a damaged snapshot is no target: going back to it keeps the snapshot's own file.
    lost = {None, *(one.number for one in damaged if not one.branch and not one.is_changes)}
    target = max(
        (one for one in main if one.number not in lost),
        key=lambda one: (one.number or 0, one.kind is VersionKind.SNAPSHOT),
        default=None,
    )
    if target is None:
        return (
            "restore it from a backup: the newest version needs it, and no other version is whole"
        )
    how = f"--tag {shlex.quote(target.tag)}" if target.tag else f"--snapshot {target.number}"
    return (
        "the newest version needs it; restore it from a backup, or stop the table's writers and "
        f"roll back to an earlier version: stream-app rollback-to {shlex.quote(location)} {how}"
    )


def _names_text(names: Collection[VersionName]) -> str:
    """Numbers that follow each other as a range."""
    texts = []
    for kind, what in _NAMED_KINDS.items():
        numbers = sorted(one.number or 0 for one in names if one.kind is kind)
        if numbers:
            texts.append(f"{what}{'s' if len(numbers) > 1 else ''} {_ranges(numbers)}")
    tags = sorted(one.tag for one in names if one.kind is VersionKind.TAG)
    if tags:
        texts.append(f"tag{'s' if len(tags) > 1 else ''} {', '.join(map(repr, tags))}")
    return ", ".join(texts)


def _ranges(numbers: Sequence[int]) -> str:
    texts = []
    for _, run in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
        first, *others = [number for _, number in run]
        texts.append(f"{first} to {others[-1]}" if others else str(first))
    return ", ".join(texts)
