"""``--from``: where the changelog begins."""

from __future__ import annotations

import re

from stream_app.errors import UsageError
from stream_app.planning.read.stream_start import StartMode, StreamStart, stream_start
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.next_snapshot import next_snapshot
from stream_app.table.versions.time_travel import millis_of

EARLIEST = "earliest"
_NAMED = (StartMode.LATEST.value, StartMode.LATEST_FULL.value, StartMode.COMPACTED_FULL.value)


def start_of(text: str) -> StreamStart:
    """The start that a text means: ``N``, ``N-full``, a time, or a name.

    Raises:
        UsageError: it is none of them.
    """
    if text == EARLIEST:
        return stream_start("from-snapshot", snapshot_id=0)
    if text in _NAMED:
        return stream_start(text)
    if match := re.fullmatch(r"([0-9]+)(-full)?", text):
        mode = "from-snapshot-full" if match[2] else "from-snapshot"
        return stream_start(mode, snapshot_id=int(match[1]))
    try:
        return stream_start("from-timestamp", timestamp_millis=millis_of(text))
    except UsageError:
        raise UsageError(
            f"--from {text!r} is no place to begin at",
            fix=f"give a snapshot such as 7, 7-full, {EARLIEST}, {', '.join(_NAMED)}, or a time "
            "such as 2026-01-31T12:00:00",
        ) from None


def check_start(table: FileStoreTable, start: StreamStart, *, follow: bool) -> None:
    """See that a snapshot that was asked for by number is there.

    Raises:
        UsageError: it has expired; or, without `follow`, it is still to come.
    """
    number, latest = start.snapshot_id, table.snapshots.latest_id()
    if not number or latest is None:
        return
    if number > latest and not follow:
        raise UsageError(
            f"snapshot {number} does not exist yet, the latest is {latest}",
            where=table.location,
            fix="give an earlier one, or wait for it with --follow",
        )
    next_snapshot(table, number)
