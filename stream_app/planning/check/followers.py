"""The needs of a table's followers, for `stream-app check`: long-lived changelogs without a gap,
their hints, and consumers whose next snapshot exists.

Source: Paimon `utils/ChangelogManager.java`, `consumer/ConsumerManager.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from stream_app.model.consumer import Consumer
from stream_app.model.finding import Finding, FindingKind
from stream_app.planning.check.versions import hint_findings


def changelog_findings(
    changelogs: Sequence[int],
    earliest_snapshot: int | None,
    hints: tuple[int | None, int | None],
    where: str,
) -> list[Finding]:
    """What is wrong with the long-lived changelogs, and their hints.

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
