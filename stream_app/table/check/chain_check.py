"""Checks the chain of a table's versions: ids, hints, epochs and consumers.

Long-lived changelogs have no gap, and the next snapshot of each consumer exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stream_app.errors import CorruptFileError
from stream_app.model.consumer import Consumer
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.options.scan_options import CONSUMER_EXPIRATION_TIME
from stream_app.model.snapshot import VersionKind
from stream_app.planning.check.version_rules import (
    chain_findings,
    hint_findings,
    id_gaps,
    identity_findings,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.followed_snapshot import earliest_changes_id
from stream_app.table.versions.version_files import NamedVersion


def changelog_findings(
    changelog_ids: Sequence[int],
    earliest_snapshot_id: int | None,
    hints: tuple[int | None, int | None],
    where: str,
) -> Iterator[Finding]:
    """Check the long-lived changelogs and their hints.

    A changelog and the snapshot of its id may both exist after an interrupted expiry.

    Args:
        changelog_ids: their ids in ascending order.
        earliest_snapshot_id: the number of the table's earliest snapshot; None without snapshots.
        hints: the ids in LATEST and EARLIEST; None if absent or unreadable.
    """
    snapshot_ids = list(changelog_ids)
    if (
        snapshot_ids
        and earliest_snapshot_id is not None
        and earliest_snapshot_id > snapshot_ids[-1]
    ):
        snapshot_ids.append(earliest_snapshot_id)
    for gap in id_gaps(snapshot_ids):
        yield Finding(
            kind=FindingKind.SNAPSHOTS,
            problem=f"the changelog{gap.plural} of {gap.text('snapshot')} missing",
            where=where,
            fix="restore it from a backup; otherwise a follower that has not read it must begin "
            f"again, with {gap.right} at the earliest, or with all rows (latest-full)",
        )
    yield from hint_findings("changelog", changelog_ids, hints, where)


def consumer_findings(
    consumer: Consumer, earliest_id: int | None, latest_id: int | None, where: str
) -> Iterator[Finding]:
    """Yield findings about a consumer's next snapshot.

    Args:
        earliest_id: the first snapshot or changelog whose changes can be read; None without one.
        latest_id: the latest snapshot; None without snapshots.
        where: the path of the consumer's file.
    """
    name = consumer.consumer_id
    next_snapshot_id = consumer.next_snapshot_id
    if earliest_id is not None and next_snapshot_id < earliest_id:
        yield Finding(
            kind=FindingKind.CONSUMER,
            problem=f"consumer {name!r} continues at snapshot {next_snapshot_id}, which has "
            f"expired: the earliest that it can read is {earliest_id}",
            where=where,
            fix="start it again with --ignore-progress, with all rows (latest-full); or delete "
            "its file, if nothing uses it",
        )
    elif next_snapshot_id > (latest_id or 0) + 1:
        yield Finding(
            kind=FindingKind.CONSUMER,
            problem=f"consumer {name!r} continues at snapshot {next_snapshot_id}, but the latest "
            f"one is {latest_id or 'none'}: it has read what a rollback deleted",
            where=where,
            fix="rebuild what it has copied since then, and start it again with "
            "--ignore-progress; or delete its file, if nothing uses it",
        )


def version_chain_findings(
    table: FileStoreTable, versions: Sequence[NamedVersion]
) -> list[Finding]:
    """Return all problems of the chain of a table's versions.

    Jobs run on during the check. So it reads a reference before the file that it refers to. It
    lists snapshots before the changelogs that some of them become.
    """
    snapshot_folder = f"{table.version_root}/snapshot"
    changelog_folder = f"{table.version_root}/changelog"
    consumers = list(_consumer_findings(table, earliest_changes_id(table)))
    latest_hint, earliest_hint = table.snapshots.hints()
    changelog_hints = table.changelogs.hints()
    snapshot_ids = table.snapshots.ids()
    readable_snapshots = [
        version.snapshot
        for version in versions
        if version.kind is VersionKind.SNAPSHOT and version.snapshot is not None
    ]
    earliest_id = min(snapshot_ids, default=None)
    changelog_ids = table.changelogs.ids()
    return [
        *chain_findings(snapshot_ids, latest_hint, earliest_hint, snapshot_folder),
        *identity_findings(readable_snapshots, snapshot_folder),
        *changelog_findings(changelog_ids, earliest_id, changelog_hints, changelog_folder),
        *consumers,
    ]


def _consumer_findings(table: FileStoreTable, earliest_id: int | None) -> Iterator[Finding]:
    """Yield the findings about consumers that have not expired for inactivity."""
    expiration_ms = table.options[CONSUMER_EXPIRATION_TIME]
    now_ms, folder = table.clock.now_ms(), f"{table.version_root}/consumer"
    try:
        consumers = table.consumers.consumers()
    except CorruptFileError as error:
        problem = f"{error.problem}; as long as it is there, nothing expires"
        where = error.where or folder
        yield Finding(kind=FindingKind.CONSUMER, problem=problem, where=where, fix=error.fix)
        return
    for consumer in consumers:
        if not consumer.has_expired(now_ms, expiration_ms):
            where = f"{folder}/consumer-{consumer.consumer_id}"
            yield from consumer_findings(consumer, earliest_id, table.snapshots.latest_id(), where)
