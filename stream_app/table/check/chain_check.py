"""Checks the chain of a table's versions: numbers, hints, epochs, and consumers.

Long-lived changelogs have no gap, and the next snapshot of each consumer exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from stream_app.errors import CorruptFileError
from stream_app.model.consumer import Consumer
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.options.stream_options import CONSUMER_EXPIRATION_TIME
from stream_app.model.snapshot import VersionKind
from stream_app.planning.check.versions import chain_findings, hint_findings, identity_findings
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.next_snapshot import earliest_changes
from stream_app.table.versions.version_files import NamedVersion


def changelog_findings(
    changelogs: Sequence[int],
    earliest_snapshot: int | None,
    hints: tuple[int | None, int | None],
    where: str,
) -> list[Finding]:
    """Problems of the long-lived changelogs and of their hints.

    A changelog and the snapshot of its number may both be there: an expiry was interrupted.

    Args:
        changelogs: numbers, ascending.
        earliest_snapshot: the first one of the table; None when there is none.
        hints: as `hint_findings`.
    """
    numbers = list(changelogs)
    if numbers and earliest_snapshot is not None and earliest_snapshot > numbers[-1]:
        numbers.append(earliest_snapshot)
    findings = [
        Finding(
            kind=FindingKind.SNAPSHOTS,
            what=f"the changelogs of snapshots {left + 1} to {right - 1} are missing"
            if right > left + 2
            else f"the changelog of snapshot {left + 1} is missing",
            where=where,
            fix=f"restore it from a backup; else a follower from before it must begin again: "
            f"with {right} at the earliest, or with all rows (latest-full)",
        )
        for left, right in pairwise(numbers)
        if right != left + 1
    ]
    return findings + hint_findings("changelog", changelogs, hints, where)


def consumer_findings(
    consumer: Consumer, earliest: int | None, latest: int | None, where: str
) -> list[Finding]:
    """Findings about a consumer's next snapshot.

    Args:
        earliest: the first snapshot or changelog whose changes can be read; None: there is none.
        latest: the newest snapshot; None: there is none.
        where: the consumer's file.
    """
    name, following = consumer.consumer_id, consumer.next_snapshot
    if earliest is not None and following < earliest:
        return [
            Finding(
                kind=FindingKind.CONSUMER,
                what=f"consumer {name!r} wants snapshot {following} next, which has expired: the "
                f"first that it can have is {earliest}",
                where=where,
                fix="start it again with --ignore-progress, with all rows (latest-full); or "
                "delete its file, if nothing uses it any more",
            )
        ]
    newest = latest or 0
    if following > newest + 1:
        return [
            Finding(
                kind=FindingKind.CONSUMER,
                what=f"consumer {name!r} wants snapshot {following} next, but the newest one is "
                f"{newest or 'none'}: it has read what a rollback deleted",
                where=where,
                fix="rebuild what it has copied since then, and start it again with "
                "--ignore-progress; or delete its file, if nothing uses it any more",
            )
        ]
    return []


def chain_check(table: FileStoreTable, versions: Sequence[NamedVersion]) -> list[Finding]:
    """All problems of the chain of a table's versions.

    Jobs run on during the check. So it reads a reference before the file that it refers to. It
    lists snapshots before the changelogs that some of them become.
    """
    folder, changelogs = (f"{table.version_root}/{name}" for name in ("snapshot", "changelog"))
    consumers = _consumers(table, earliest_changes(table))
    latest, earliest = table.snapshots.hints()
    changelog_hints = table.changelogs.hints()
    snapshots = table.snapshots.ids()
    findings = chain_findings(snapshots, latest, earliest, folder)
    findings += identity_findings(
        [
            version.snapshot
            for version in versions
            if version.kind is VersionKind.SNAPSHOT and version.snapshot is not None
        ],
        folder,
    )
    findings += changelog_findings(
        table.changelogs.ids(), min(snapshots, default=None), changelog_hints, changelogs
    )
    return findings + consumers


def _consumers(table: FileStoreTable, earliest: int | None) -> list[Finding]:
    """Skips consumers that have been silent for too long, because they expire by themselves."""
    expiration_ms = table.options[CONSUMER_EXPIRATION_TIME]
    now, folder = table.clock.now_ms(), f"{table.version_root}/consumer"
    try:
        consumers = table.consumers.consumers()
    except CorruptFileError as error:
        return [
            Finding(
                kind=FindingKind.CONSUMER,
                what=f"{error.what}; as long as it is there, nothing expires",
                where=error.where or folder,
                fix=error.fix,
            )
        ]
    return [
        finding
        for consumer in consumers
        if not consumer.has_expired(now, expiration_ms)
        for finding in consumer_findings(
            consumer,
            earliest,
            table.snapshots.latest_id(),
            f"{folder}/consumer-{consumer.consumer_id}",
        )
    ]
