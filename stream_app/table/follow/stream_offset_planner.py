"""Plans a streaming read whose caller keeps the progress as JSON offsets.

`spark.read.stream_reader` passes the offsets to Spark's checkpoint. An offset is a position between
two splits of the table's stream, and names the table. A recreated table reuses snapshot numbers,
and so does a table that was rolled back and written again. Therefore an offset also names the delta
manifest list of the last snapshot that was read. Later reads compare that name while the snapshot
exists.

Source: Paimon `spark/sources/PaimonSourceOffset.scala`, `PaimonMicroBatchStream.scala`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stream_app.errors import CheckpointError
from stream_app.model.files.data_split import StreamSplit
from stream_app.model.options.scan_options import (
    CONSUMER_EXPIRATION_TIME,
    CONSUMER_ID,
    CONSUMER_IGNORE_PROGRESS,
)
from stream_app.planning.read.stream_step import StepLimits, StreamPosition
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.followed_snapshot import (
    check_progress,
    check_still_read,
    snapshot_name,
)
from stream_app.table.follow.stream_scan import StreamScan, start_of_table

Offset = dict[str, Any]
"""``{"table": identity, "snapshot": 7, "index": 0, "full": false, "after": name}``

The position of the next read. ``after`` is the delta list of the last snapshot that was read; its
name is unique.
"""
_REFRESHES_PER_EXPIRATION = 3
"""An idle consumer is refreshed thrice within its expiration time, so that one may come late."""


@dataclass(frozen=True, slots=True)
class NextOffset:
    """The offset at the end of a step, with the step's size.

    Attributes:
        row_count: the row count of the step's files, including deletes and older versions.
    """

    offset: Offset
    row_count: int


@dataclass(frozen=True, slots=True)
class StreamOffsetPlanner:
    """A planner of a table's stream from offset to offset.

    Attributes:
        table: the table. Its options define where the stream begins (``scan.mode`` …,
            ``consumer-id``).
        limits: the limits of a step.
    """

    table: FileStoreTable
    limits: StepLimits

    def initial(self) -> Offset:
        """Return the start of a stream that has no offset yet.

        Raises:
            UsageError: the options define no start, its snapshot does not exist, or the consumer's
                next changes have expired.
        """
        options = self.table.options
        name = options[CONSUMER_ID]
        if name and not options[CONSUMER_IGNORE_PROGRESS]:
            next_snapshot_id = self.table.consumers.next_snapshot_id(name)
            if next_snapshot_id is not None:
                check_progress(self.table, name, next_snapshot_id)
                return self._offset(StreamPosition(snapshot_id=next_snapshot_id))
        return self._offset(StreamScan(self.table).begin(start_of_table(self.table.options)))

    def next_offset(self, offset: Offset) -> NextOffset:
        """Return the end of the step that begins at an offset; the same offset if nothing is new.

        Raises:
            CheckpointError: the offset belongs to another table.
            UsageError: the snapshot has expired, or the table was rolled back.
            CorruptFileError: a manifest cannot be read.
        """
        step = StreamScan(self.table).step(self._position(offset), self.limits)
        row_count = sum(split.split.row_count for split in step.splits)
        return NextOffset(offset if step.end == step.start else self._offset(step.end), row_count)

    def splits(self, start: Offset, end: Offset) -> list[StreamSplit]:
        """Return the splits between two offsets; each call returns the same splits.

        Raises:
            CheckpointError, UsageError, CorruptFileError: as `next_offset`.
        """
        return StreamScan(self.table).splits(self._position(start), self._position(end))

    def write_progress(self, offset: Offset) -> None:
        """Write the consumer's progress. The caller has finished all changes before the offset."""
        name = self.table.options[CONSUMER_ID]
        position = self._position(offset)
        # A consumer alone cannot resume a partly read version.
        if name and not position.is_full:
            self.table.consumers.reset(name, position.snapshot_id)

    @property
    def refresh_within_s(self) -> float | None:
        """The seconds until an idle consumer must call `refresh_consumer`; None: no limit."""
        options = self.table.options
        expiration_ms = options[CONSUMER_EXPIRATION_TIME]
        if expiration_ms is None or not options[CONSUMER_ID]:
            return None
        return expiration_ms / 1000 / _REFRESHES_PER_EXPIRATION

    def refresh_consumer(self) -> None:
        """Refresh the consumer at its last position while no data arrives."""
        name = self.table.options[CONSUMER_ID]
        next_snapshot_id = self.table.consumers.next_snapshot_id(name)
        if next_snapshot_id is not None:
            self.table.consumers.reset(name, next_snapshot_id)

    def _offset(self, position: StreamPosition) -> Offset:
        return {
            "table": self.table.identity(),
            "snapshot": position.snapshot_id,
            "index": position.index,
            "full": position.is_full,
            "after": snapshot_name(self.table.snapshots, position.last_read),
        }

    def _position(self, offset: Offset) -> StreamPosition:
        """Return the position of an offset, which must be of this table and of its history."""
        if offset["table"] != self.table.identity():
            raise CheckpointError(
                "the checkpoint belongs to an earlier table at this path",
                where=self.table.location,
                fix="begin with a new checkpoint, and rebuild the copies that were made before",
            )
        position = StreamPosition(
            snapshot_id=offset["snapshot"], index=offset["index"], is_full=offset["full"]
        )
        check_still_read(
            self.table,
            position.last_read,
            offset.get("after"),
            fix="begin with a new checkpoint, and rebuild the copies that were made since then",
        )
        return position


def stream_offset_planner(
    table: FileStoreTable,
    *,
    files_max: int | None = None,
    bytes_max: int | None = None,
    rows_max: int | None = None,
) -> StreamOffsetPlanner:
    """Return the planner of a table's stream; see `StepLimits` for the limits."""
    limits = StepLimits(files_max=files_max, bytes_max=bytes_max, rows_max=rows_max)
    return StreamOffsetPlanner(table, limits)
