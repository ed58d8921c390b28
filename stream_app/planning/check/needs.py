"""The versions that need a damaged file, in words, and the next step.

`table.check.dependent_versions` finds the versions, `table.check.table_check` asks for the words.

Source: none; the commands are those of stream-app.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from stream_app.model.version_kind import VersionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionName:
    """One version.

    Attributes:
        number: of its snapshot; None of a tag that cannot be read.
        tag: its name; empty unless it is a tag.
        branch: in which it lies; empty: the main one.
    """

    kind: VersionKind
    number: int | None
    tag: str = ""
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Needs:
    """The versions that need a file.

    Attributes:
        rows: versions whose rows cannot be read without it.
        changes: versions whose changes cannot be read without it.
    """

    rows: frozenset[VersionName] = frozenset()
    changes: frozenset[VersionName] = frozenset()

    def __or__(self, other: Needs) -> Needs:
        return Needs(self.rows | other.rows, self.changes | other.changes)

    def __bool__(self) -> bool:
        return bool(self.rows or self.changes)


def needs_text(needs: Needs) -> str:
    """``snapshots 3 to 5, tag 'opening'; the changes of snapshot 4``."""
    parts = [_names_text(needs.rows)] if needs.rows else []
    if needs.changes:
        parts.append(f"the changes of {_names_text(needs.changes)}")
    return "; ".join(parts)


def next_step(location: str, versions: Sequence[VersionName], needs: Needs, damaged: Needs) -> str:
    """The advice for a damaged file that versions need.

    Args:
        location: of the table.
        versions: all that the table has.
        needs: the versions that need the file.
        damaged: the versions that need any file found damaged so far; none of them is a target.
    """
    main = [one for one in versions if not one.branch]
    snapshots = [one for one in main if one.kind is VersionKind.SNAPSHOT]
    newest = max(snapshots, key=lambda one: one.number or 0, default=None)
    if newest not in needs.rows:
        verdict = "the newest version does not need it" if needs.rows else "no row depends on it"
        return (
            f"{verdict}; restore it from a backup, or give up the versions that need it: "
            "stream-app expire-snapshots, delete-tag"
        )
    target = _newest_whole(main, damaged)
    if target is None:
        return (
            "restore it from a backup: the newest version needs it, and no other version is whole"
        )
    how = f"--tag {shlex.quote(target.tag)}" if target.tag else f"--snapshot {target.number}"
    return (
        "the newest version needs it; restore it from a backup, or stop the table's writers and "
        f"roll back to an earlier version: stream-app rollback-to {shlex.quote(location)} {how}"
    )


def _newest_whole(versions: Iterable[VersionName], damaged: Needs) -> VersionName | None:
    """The newest version without damage; of a snapshot and its tag the snapshot.

    A tag of a damaged snapshot is no target: going back to it keeps the snapshot's own file.
    """
    lost = _numbers((one for one in damaged.rows if not one.branch), VersionKind.SNAPSHOT)
    whole = [
        (one.number, one.kind is VersionKind.SNAPSHOT, one)
        for one in versions
        if one.kind is not VersionKind.CHANGELOG
        and one.number is not None
        and one.number not in lost
        and one not in damaged.rows
    ]
    return max(whole, key=lambda item: item[:2])[2] if whole else None


def _numbers(versions: Iterable[VersionName], kind: VersionKind) -> list[int]:
    return [one.number for one in versions if one.kind is kind and one.number is not None]


def _names_text(names: Iterable[VersionName]) -> str:
    """The names branch by branch; consecutive numbers form a range."""
    parts = []
    for branch in sorted({one.branch for one in names}):
        here = [one for one in names if one.branch == branch]
        quoted = [
            _range_text(what, sorted(numbers))
            for what, kind in (
                ("snapshot", VersionKind.SNAPSHOT),
                ("long-lived changelog", VersionKind.CHANGELOG),
            )
            if (numbers := _numbers(here, kind))
        ]
        tags = sorted(one.tag for one in here if one.kind is VersionKind.TAG)
        if tags:
            quoted.append(("tag " if len(tags) == 1 else "tags ") + ", ".join(map(repr, tags)))
        of = f" of branch {branch!r}" if branch else ""
        parts.append(", ".join(quoted) + of)
    return "; ".join(parts)


def _range_text(what: str, numbers: Sequence[int]) -> str:
    texts = []
    for _, run in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
        run_numbers = [number for _, number in run]
        texts.append(
            str(run_numbers[0])
            if len(run_numbers) == 1
            else f"{run_numbers[0]} to {run_numbers[-1]}"
        )
    return f"{what}{'s' if len(numbers) > 1 else ''} {', '.join(texts)}"
