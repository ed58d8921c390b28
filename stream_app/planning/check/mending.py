"""Who needs what is damaged, and what may be given up instead of restoring it.

Called by `table.check.table_check` with the versions that `table.check.dependent_versions` has
found. What is said holds for all that was found damaged so far: a version to go back to is one
without any of it.

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
    """The versions that cannot do without a file.

    Attributes:
        rows: whose rows cannot be read without it.
        changes: whose changes cannot be read without it.
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


def mending(location: str, versions: Sequence[VersionName], needs: Needs, damaged: Needs) -> str:
    """What can be done about something that versions need and that is damaged.

    Args:
        location: of the table.
        versions: all that the table has.
        needs: who needs it.
        damaged: who needs anything that was found damaged.
    """
    table = shlex.quote(location)
    main = [one for one in versions if not one.branch]
    latest = max(_numbers(main, VersionKind.SNAPSHOT), default=0)
    kept, commands = latest, list[str]()
    hit = {one for one in needs.rows if not one.branch}
    is_newest_hit = latest in _numbers(hit, VersionKind.SNAPSHOT)
    if is_newest_hit:
        target = _newest_whole(main, damaged)
        if target is None or target.number is None:
            return (
                "restore it from a backup: the newest version needs it, and no other one is whole"
            )
        kept = target.number
        how = f"--tag {shlex.quote(target.tag)}" if target.tag else f"--snapshot {kept}"
        unreadable = {one for one in main if one.kind is VersionKind.TAG and one.number is None}
        commands += _deleting_tags(table, unreadable)  # nobody goes back beside them
        commands.append(f"stream-app rollback-to {table} {how}")
        hit -= unreadable
    commands += _giving_up(table, kept, hit, needs)
    verdict = "no row depends on it" if not needs.rows else "the newest version does without it"
    if is_newest_hit:
        verdict = "the newest version needs it"
    stopped = ", with the table's writers stopped" if is_newest_hit else ""
    ways = [
        f"restore it from a backup; or, to give up what needs it{stopped}: {' && '.join(commands)}"
    ]
    if not commands:
        ways = ["restore it from a backup"]
    ways += _without_command(needs, kept)
    return f"{verdict}; " + "; ".join(ways)


def _giving_up(table: str, kept: int, hit: Iterable[VersionName], needs: Needs) -> list[str]:
    """What takes older versions away when `kept` is the newest one."""
    commands = []
    changed = {one for one in needs.changes if not one.branch}
    older = [n for n in _numbers({*hit, *changed}, VersionKind.SNAPSHOT) if n < kept]
    if older:
        commands.append(f"stream-app expire-snapshots {table} --retain-max {kept - max(older)}")
    return commands + _deleting_tags(
        table,
        (
            one
            for one in hit
            if one.kind is VersionKind.TAG and (one.number is None or one.number <= kept)
        ),
    )


def _deleting_tags(table: str, tags: Iterable[VersionName]) -> list[str]:
    names = sorted(one.tag for one in tags)
    return [f"stream-app delete-tag {table} {shlex.join(names)}"] if names else []


def _without_command(needs: Needs, kept: int) -> list[str]:
    """What no command of ours gives up."""
    told = []
    if needs.changes:
        numbers = [one.number or 0 for one in needs.changes]
        told.append(f"who follows the table begins anew behind snapshot {max(numbers)}")
    if any(one.kind is VersionKind.CHANGELOG for one in needs.changes):
        told.append("long-lived changelogs go by changelog.num-retained.max and .time-retained")
    if kept in _numbers({one for one in needs.changes if not one.branch}, VersionKind.SNAPSHOT):
        told.append("the newest snapshot goes when newer ones have come")
    branches = sorted({one.branch for one in needs.rows | needs.changes if one.branch})
    if branches:
        told.append("a branch goes by the engine that made it: " + ", ".join(map(repr, branches)))
    return told


def _newest_whole(versions: Iterable[VersionName], damaged: Needs) -> VersionName | None:
    """The version to go back to; of a snapshot and its tag the snapshot.

    A tag does not mend the file of its snapshot while that is there.
    """
    lost = _numbers({one for one in damaged.rows if not one.branch}, VersionKind.SNAPSHOT)
    whole = [
        one
        for one in versions
        if one not in damaged.rows
        and one.number not in lost
        and one.kind is not VersionKind.CHANGELOG
        and one.number is not None
    ]
    return max(whole, key=lambda one: (one.number, one.kind is VersionKind.SNAPSHOT), default=None)


def _numbers(versions: Iterable[VersionName], kind: VersionKind) -> list[int]:
    return [one.number for one in versions if one.kind is kind and one.number is not None]


def _names_text(names: Iterable[VersionName]) -> str:
    """Branch after branch; numbers that follow each other as a range."""
    parts = []
    for branch in sorted({one.branch for one in names}):
        here = [one for one in names if one.branch == branch]
        found = [
            _range_text(what, sorted(numbers))
            for what, kind in (
                ("snapshot", VersionKind.SNAPSHOT),
                ("long-lived changelog", VersionKind.CHANGELOG),
            )
            if (numbers := _numbers(here, kind))
        ]
        tags = sorted(one.tag for one in here if one.kind is VersionKind.TAG)
        if tags:
            found.append(("tag " if len(tags) == 1 else "tags ") + ", ".join(map(repr, tags)))
        of = f" of branch {branch!r}" if branch else ""
        parts.append(", ".join(found) + of)
    return "; ".join(parts)


def _range_text(what: str, numbers: Sequence[int]) -> str:
    texts = []
    for _, run in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
        found = [number for _, number in run]
        texts.append(str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}")
    return f"{what}{'s' if len(numbers) > 1 else ''} {', '.join(texts)}"
