"""Selects a version of a table: by number, by tag, by time of day, or by watermark.

Source: Paimon `table/source/snapshot/TimeTravelUtil.java`, `utils/SnapshotManager.java`,
`StaticFromTimestampStartingScanner.java`, `StaticFromWatermarkStartingScanner.java`.
"""

from __future__ import annotations

import bisect
import datetime
from dataclasses import dataclass, replace

from stream_app.clock import utc_text
from stream_app.errors import UsageError
from stream_app.filestore.versions.snapshot_manager import SnapshotManager
from stream_app.model.near_names import unknown_name
from stream_app.model.options.scan_options import (
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    SCAN_WATERMARK,
)
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.file_store_table import FileStoreTable

Timestamp = int | str | datetime.datetime
"""Milliseconds since 1970 in UTC, an ISO 8601 text, or a datetime; local time without a zone."""
_FULL_MODES = ("latest", "latest-full", "full")
_VERSION_OPTIONS = (
    *(SCAN_SNAPSHOT_ID, SCAN_TAG_NAME, SCAN_WATERMARK),
    *(SCAN_TIMESTAMP_MILLIS, SCAN_TIMESTAMP),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The choice of a table's version by at most one attribute; without any, the latest.

    Attributes:
        snapshot: the number of a snapshot.
        tag: the name of a tag.
        timestamp: a time, which selects the latest snapshot that existed then.
        watermark: milliseconds, which select the earliest snapshot with at least this watermark.
    """

    snapshot: int | None = None
    tag: str | None = None
    timestamp: Timestamp | None = None
    watermark: int | None = None

    def __post_init__(self) -> None:
        choices = [
            name
            for name in ("snapshot", "tag", "timestamp", "watermark")
            if getattr(self, name) is not None
        ]
        if len(choices) > 1:
            raise UsageError(
                f"{' and '.join(choices)} are given, but only one of them can name the version",
                fix=f"leave out all but one of {', '.join(choices)}",
            )

    @property
    def is_latest(self) -> bool:
        """Whether no version is selected."""
        return self == Version()


def snapshot_of(table: FileStoreTable, version: Version) -> Snapshot | None:
    """Return the snapshot of a version; None if the latest is selected and none exists.

    Raises:
        UsageError: the version does not exist or has expired; the error names existing ones.
    """
    if version.snapshot is not None:
        return numbered_snapshot(table, version.snapshot)
    if version.tag is not None:
        return tagged_snapshot(table, version.tag)
    if version.timestamp is not None:
        return _at_time(table, version.timestamp)
    if version.watermark is not None:
        return _snapshot_of_watermark(table, version.watermark)
    return table.snapshots.latest()


def at_version(table: FileStoreTable, version: Version) -> tuple[FileStoreTable, Snapshot | None]:
    """Return the table with the columns of a version, and the version's snapshot.

    If the latest is selected, the table's own options may name another (``scan.snapshot-id``).

    Raises:
        UsageError: as `snapshot_of`, or as `stored_version`.
    """
    if version.is_latest:
        if table.options[SCAN_MODE] == "compacted-full":
            return latest_compacted(table)
        version = stored_version(table)
    snapshot = snapshot_of(table, version)
    if version.is_latest or snapshot is None:
        return table, snapshot
    return with_schema(table, snapshot.schema_id), snapshot


def latest_compacted(table: FileStoreTable) -> tuple[FileStoreTable, Snapshot | None]:
    """Return the latest COMPACT snapshot, or else the latest, and the table with its columns."""
    for snapshot in table.snapshots.backwards():
        if snapshot.commit_kind is CommitKind.COMPACT:
            return with_schema(table, snapshot.schema_id), snapshot
    return table, table.snapshots.latest()


def names_version(table: FileStoreTable) -> bool:
    """Return whether the table's options name the version for batch reads.

    Raises:
        UsageError: the options name several versions.
    """
    return table.options[SCAN_MODE] == "compacted-full" or not stored_version(table).is_latest


def stored_version(table: FileStoreTable) -> Version:
    """Return the version that a table's options name for batch reads; by default the latest.

    Raises:
        UsageError: the options name several versions.
    """
    options = table.options
    keys = [key for option in _VERSION_OPTIONS for key in (option.key, *option.older_keys)]
    stored_keys = [key for key in (*keys, SCAN_VERSION.key) if table.schema.options.get(key)]
    if options[SCAN_MODE] in _FULL_MODES or not stored_keys:
        return Version()
    if len(stored_keys) > 1:
        raise UsageError(
            f"the table's options {' and '.join(stored_keys)} each name a version to read",
            where=table.location,
            fix="name the version in the read; or unset all options but one: stream-app alter "
            f"{table.location} --unset {stored_keys[0]}",
        )
    if stored_keys[0] == SCAN_VERSION.key:
        return _named_version(table, options[SCAN_VERSION])
    return Version(
        snapshot=options[SCAN_SNAPSHOT_ID],
        tag=options[SCAN_TAG_NAME] or None,
        timestamp=options[SCAN_TIMESTAMP] or options[SCAN_TIMESTAMP_MILLIS],
        watermark=options[SCAN_WATERMARK],
    )


def _named_version(table: FileStoreTable, name: str) -> Version:
    """Parse the name of a version: a tag, else ``watermark-N``, else a snapshot's number."""
    watermark = name.removeprefix("watermark-")
    if table.tags.tag(name) is None:
        if watermark != name and watermark.isdecimal():
            return Version(watermark=int(watermark))
        if name.isdecimal():
            return Version(snapshot=int(name))
    return Version(tag=name)


def with_schema(table: FileStoreTable, schema_id: int) -> FileStoreTable:
    """Return the table with the columns of a schema."""
    if schema_id == table.schema.schema_id:
        return table
    return replace(table, schema=table.schemas.schema(schema_id))


def numbered_snapshot(table: FileStoreTable, snapshot_id: int) -> Snapshot:
    """Return the snapshot of a number.

    Raises:
        UsageError: the snapshot does not exist or has expired.
    """
    snapshots = table.snapshots
    try:
        return snapshots.snapshot(snapshot_id)
    except FileNotFoundError:
        pass
    earliest_id, latest_id = snapshots.earliest_id(), snapshots.latest_id()
    if earliest_id is None or latest_id is None:
        raise _no_snapshot_error(table, f"snapshot {snapshot_id}")
    absence = "has expired" if 0 < snapshot_id < earliest_id else "does not exist"
    raise UsageError(
        f"snapshot {snapshot_id} {absence}: the table has {earliest_id} to {latest_id}",
        where=table.location,
        fix=f"give one from {earliest_id} to {latest_id}",
    )


def tagged_snapshot(table: FileStoreTable, name: str) -> Snapshot:
    """Return the snapshot that a tag keeps.

    Raises:
        UsageError: the tag does not exist.
    """
    tag = table.tags.tag(name)
    if tag is not None:
        return tag.snapshot
    names = table.tags.names()
    raise UsageError(
        unknown_name("tag", name, names),
        where=table.location,
        fix=f"name one of {', '.join(names)}" if names else "create a tag: stream-app create-tag",
    )


def latest_snapshot_at(snapshots: SnapshotManager, time_ms: int) -> Snapshot | None:
    """Return the latest snapshot that existed at a time (milliseconds, UTC); None without one."""
    earliest_id, latest_id = snapshots.earliest_id(), snapshots.latest_id()
    if earliest_id is None or latest_id is None:
        return None
    snapshot_ids = range(earliest_id, latest_id + 1)
    count = bisect.bisect_right(
        snapshot_ids, time_ms, key=lambda snapshot_id: snapshots.snapshot(snapshot_id).time_ms
    )
    return snapshots.snapshot(snapshot_ids[count - 1]) if count else None


def ms_since_1970(timestamp: Timestamp) -> int:
    """Convert a time to milliseconds since 1970 in UTC.

    Raises:
        UsageError: the text is not a time.
    """
    if isinstance(timestamp, int):
        return timestamp
    moment = timestamp
    if isinstance(moment, str):
        try:
            moment = datetime.datetime.fromisoformat(moment)
        except ValueError:
            raise UsageError(
                f"{timestamp!r} is not a timestamp",
                fix="write 2026-01-31, 2026-01-31T12:00:00, 2026-01-31T12:00:00.123+01:00, or "
                "milliseconds since 1970",
            ) from None
    return round(moment.timestamp() * 1000)


def _at_time(table: FileStoreTable, timestamp: Timestamp) -> Snapshot:
    time_ms = ms_since_1970(timestamp)
    snapshot = latest_snapshot_at(table.snapshots, time_ms)
    if snapshot is not None:
        return snapshot
    earliest_id = table.snapshots.earliest_id()
    if earliest_id is None:
        raise _no_snapshot_error(table, f"a snapshot of {utc_text(time_ms)}")
    start_text = utc_text(table.snapshots.snapshot(earliest_id).time_ms)
    raise UsageError(
        f"no snapshot is as old as {utc_text(time_ms)}: "
        f"the earliest, {earliest_id}, is of {start_text}",
        where=table.location,
        fix=f"give {start_text} or later; or a tag, which outlives the expiry of snapshots",
    )


def _snapshot_of_watermark(table: FileStoreTable, watermark: int) -> Snapshot:
    newest_watermark: int | None = None
    for snapshot_id in table.snapshots.ids():
        snapshot = table.snapshots.snapshot(snapshot_id)
        if snapshot.watermark is not None:
            newest_watermark = snapshot.watermark
            if newest_watermark >= watermark:
                return snapshot
    state_text = (
        "; none has any" if newest_watermark is None else f": the latest has {newest_watermark}"
    )
    raise UsageError(
        f"no snapshot has reached the watermark {watermark}{state_text}",
        where=table.location,
        fix="give an earlier watermark, or name the version by snapshot, tag or timestamp",
    )


def _no_snapshot_error(table: FileStoreTable, subject: str) -> UsageError:
    return UsageError(
        f"{subject} does not exist: the table has none yet",
        where=table.location,
        fix="wait for the first commit of a job that writes the table",
    )
