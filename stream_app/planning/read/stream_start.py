"""Decides where a streaming read begins.

Source: Paimon `CoreOptions.java#startupMode`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from stream_app.errors import UsageError
from stream_app.model.near_names import unknown_name
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.scan_options import SCAN_MODE, SCAN_SNAPSHOT_ID


class StartMode(enum.Enum):
    """The first rows that a streaming read gives (``scan.mode``), before the changes.

    LATEST_FULL: all rows of the latest snapshot. LATEST: nothing. COMPACTED_FULL: all rows of the
        latest COMPACT snapshot, or else of the latest. With ``full-compaction.delta-commits`` only
        full compactions count. FROM_TIMESTAMP: nothing; the first snapshot that is not older than
        the time is the first one whose changes are read. FROM_SNAPSHOT: nothing; this snapshot is
        the first one whose changes are read. FROM_SNAPSHOT_FULL: all rows of this snapshot.

    For an expired snapshot the earliest existing one is read.
    """

    LATEST_FULL = "latest-full"
    LATEST = "latest"
    COMPACTED_FULL = "compacted-full"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"


_BY_SNAPSHOT = (StartMode.FROM_SNAPSHOT, StartMode.FROM_SNAPSHOT_FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """A start mode with its parameters.

    Attributes:
        snapshot_id: the snapshot of from-snapshot and from-snapshot-full.
        timestamp_ms: the time of from-timestamp, in milliseconds since 1970 in UTC.
    """

    mode: StartMode
    snapshot_id: int | None = None
    timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse a start that lacks what its mode needs, or has what its mode does not take."""
        needs = (
            ("a snapshot", SCAN_SNAPSHOT_ID.key, self.snapshot_id, self.mode in _BY_SNAPSHOT),
            (
                "a time",
                "scan.timestamp-millis or scan.timestamp",
                self.timestamp_ms,
                self.mode is StartMode.FROM_TIMESTAMP,
            ),
        )
        for noun, key, value, is_needed in needs:
            if is_needed and value is None:
                raise UsageError(f"start mode {self.mode.value} needs {noun}", fix=f"give {key}")
            if value is not None and not is_needed:
                raise UsageError(
                    f"start mode {self.mode.value} takes no {noun.removeprefix('a ')}",
                    fix=f"leave out {key}, or take another mode",
                )


def stream_start(
    mode: str, *, snapshot_id: int | None = None, timestamp_ms: int | None = None
) -> StreamStart:
    """Return the start of a named mode; the other options decide ``default``.

    Raises:
        UsageError: streaming reads have no such mode, or it contradicts the other arguments.
    """
    if mode == "default":
        inferred_mode = StartMode.LATEST_FULL
        if timestamp_ms is not None:
            inferred_mode = StartMode.FROM_TIMESTAMP
        elif snapshot_id is not None:
            inferred_mode = StartMode.FROM_SNAPSHOT
        return StreamStart(mode=inferred_mode, snapshot_id=snapshot_id, timestamp_ms=timestamp_ms)
    names = [start_mode.value for start_mode in StartMode]
    name = "latest-full" if mode == "full" else mode
    if name not in names:
        raise UsageError(
            unknown_name("start mode", mode, names),
            fix=f"use one of {', '.join(names)}; Paimon's other modes are for batch reads",
        )
    return StreamStart(mode=StartMode(name), snapshot_id=snapshot_id, timestamp_ms=timestamp_ms)


def start_of_options(options: CoreOptions, timestamp_ms: int | None) -> StreamStart:
    """Return the start that a table's options define (``scan.mode``, ``scan.snapshot-id``).

    As in Paimon, options that the mode does not need are ignored.

    Args:
        timestamp_ms: ``scan.timestamp-millis``, or ``scan.timestamp`` in milliseconds.

    Raises:
        UsageError: as `stream_start`.
    """
    mode, snapshot_id = options[SCAN_MODE], options[SCAN_SNAPSHOT_ID]
    if mode == "default" and timestamp_ms is not None:
        snapshot_id = None
    elif mode != "default":
        starts_at_snapshot = mode in [start_mode.value for start_mode in _BY_SNAPSHOT]
        snapshot_id = snapshot_id if starts_at_snapshot else None
        timestamp_ms = timestamp_ms if mode == StartMode.FROM_TIMESTAMP.value else None
    return stream_start(mode, snapshot_id=snapshot_id, timestamp_ms=timestamp_ms)
