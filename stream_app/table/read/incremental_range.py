"""Decides between which versions an incremental read reads, and in which mode.

The first version is excluded, the last one included.

Source: Paimon `table/source/AbstractDataTableScan.java#createIncrementalStartingScanner`,
`IncrementalDeltaStartingScanner.java`, `IncrementalDiffStartingScanner.java`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from stream_app.errors import UsageError
from stream_app.model.near_names import unknown_name
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.time_travel import (
    Timestamp,
    latest_snapshot_at,
    ms_since_1970,
    numbered_snapshot,
    tagged_snapshot,
)

Bound = int | str
"""The number of a snapshot, or the name of a tag."""


class ScanMode(enum.Enum):
    """The rows that an incremental read returns (``incremental-between-scan-mode``).

    AUTO: CHANGELOG for a table with a changelog, else DELTA; between tags DIFF.
    DELTA: the rows of the files that APPEND snapshots added, as they were written.
    CHANGELOG: the rows of the changelog files.
    DIFF: the rows that differ between the two versions, without changes undone in between.
    """

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """The snapshots after the number `start_id`, up to the number `end_id`."""

    start_id: int
    end_id: int


@dataclass(frozen=True, slots=True)
class SnapshotPair:
    """Two versions to compare; without a start, all rows of the end are new."""

    start: Snapshot | None
    end: Snapshot


def scan_mode(text: str) -> ScanMode:
    """Return the mode of a name.

    Raises:
        UsageError: the name is unknown.
    """
    names = [mode.value for mode in ScanMode]
    if text not in names:
        raise UsageError(
            unknown_name("scan mode", text, names), fix=f"use one of {', '.join(names)}"
        )
    return ScanMode(text)


def versions_between(
    table: FileStoreTable, start: Bound, end: Bound, mode: ScanMode
) -> SnapshotRange | SnapshotPair | None:
    """Return the versions to read between two snapshots or tags; None if there is nothing to read.

    Raises:
        UsageError: a version does not exist or has expired, or the end precedes the start.
    """
    names_tags = isinstance(start, str) or isinstance(end, str)
    if mode is ScanMode.DIFF or (mode is ScanMode.AUTO and names_tags):
        start_snapshot, end_snapshot = _snapshot(table, start), _snapshot(table, end)
        _check_order(start_snapshot.snapshot_id, end_snapshot.snapshot_id)
        is_same = start_snapshot.snapshot_id == end_snapshot.snapshot_id
        return None if is_same else SnapshotPair(start_snapshot, end_snapshot)
    start_id, end_id = (
        bound if isinstance(bound, int) else tagged_snapshot(table, bound).snapshot_id
        for bound in (start, end)
    )
    _check_order(start_id, end_id)
    if start_id == end_id:
        return None
    _check_range_exists(table, start_id, end_id)
    return SnapshotRange(start_id, end_id)


def between_timestamps(
    table: FileStoreTable, start: Timestamp, end: Timestamp, mode: ScanMode
) -> SnapshotRange | SnapshotPair | None:
    """Return the versions to read between two times; None if there is nothing to read.

    Raises:
        UsageError: a text is not a time, or the end precedes the start.
    """
    start_ms, end_ms = ms_since_1970(start), ms_since_1970(end)
    if end_ms < start_ms:
        raise UsageError(
            f"the range ends ({end}) before it begins ({start})", fix="swap the two bounds"
        )
    start_snapshot, end_snapshot = (
        latest_snapshot_at(table.snapshots, time_ms) for time_ms in (start_ms, end_ms)
    )
    earliest_id = table.snapshots.earliest_id()
    if end_snapshot is None or earliest_id is None or start_snapshot == end_snapshot:
        return None
    if mode is not ScanMode.DIFF:
        start_id = start_snapshot.snapshot_id if start_snapshot else earliest_id - 1
        return SnapshotRange(start_id, end_snapshot.snapshot_id)
    if start_snapshot is None and earliest_id > 1:
        start_snapshot = table.snapshots.snapshot(earliest_id)
    return SnapshotPair(start_snapshot, end_snapshot)


def _snapshot(table: FileStoreTable, bound: Bound) -> Snapshot:
    if isinstance(bound, int):
        return numbered_snapshot(table, bound)
    return tagged_snapshot(table, bound)


def _check_order(start_id: int, end_id: int) -> None:
    if end_id < start_id:
        raise UsageError(
            f"the range ends with snapshot {end_id}, before it begins with {start_id}",
            fix="swap the two bounds",
        )


def _check_range_exists(table: FileStoreTable, start_id: int, end_id: int) -> None:
    earliest_id, latest_id = table.snapshots.earliest_id(), table.snapshots.latest_id()
    if earliest_id is None or latest_id is None:
        raise UsageError(
            "the table has no snapshots yet",
            where=table.location,
            fix="wait for the job's first commit",
        )
    if start_id < earliest_id - 1 or end_id > latest_id:
        raise UsageError(
            f"the read needs snapshots {start_id + 1} to {end_id}, the table has {earliest_id} to "
            f"{latest_id}",
            where=table.location,
            fix=f"begin with {earliest_id - 1} or later and end with {latest_id} or earlier; "
            "between tags, scan mode diff needs no snapshots in between",
        )


def chosen_range(
    table: FileStoreTable,
    versions: tuple[Bound, Bound] | None,
    timestamps: tuple[Timestamp, Timestamp] | None,
    mode: ScanMode,
) -> SnapshotRange | SnapshotPair | None:
    """Return the range between the given versions or the given times.

    Raises:
        UsageError: versions and times are both given, or neither; or as `versions_between` and
            `between_timestamps`.
    """
    if versions is not None and timestamps is None:
        return versions_between(table, *versions, mode)
    if timestamps is not None and versions is None:
        return between_timestamps(table, *timestamps, mode)
    raise UsageError(
        "this read needs a range: two versions or two times",
        fix="give between=(3, 7), between=('tag1', 'tag2') or between_timestamps=(…, …)",
    )
