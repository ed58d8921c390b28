"""Checks the chain of a table's versions: numbers, hints, epochs, and consumers.

The rules are the pure functions of `planning.check.versions` and `planning.check.followers`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.errors import CorruptFileError
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.options.stream_options import CONSUMER_EXPIRATION_TIME
from stream_app.model.version_kind import VersionKind
from stream_app.planning.check.followers import changelog_findings, consumer_findings
from stream_app.planning.check.versions import chain_findings, identity_findings
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.next_snapshot import earliest_changes
from stream_app.table.versions.version_files import NamedVersion


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
