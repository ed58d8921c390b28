"""Implements Spark's streaming read; offsets are positions among the table's snapshots.

Spark asks one reader on the driver for offsets and parts, for as long as the query runs, and
pickles another one to the tasks. Spark asks for the latest offset without the previous one, so the
driver's reader remembers its last answer. After a restart Spark first asks for the parts of the
last offset, which restores it.

Source: Spark `pyspark/sql/datasource.py#DataSourceStreamReader`,
`PythonMicroBatchStream.scala#setLatestSeenOffset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from stream_app.errors import UsageError
from stream_app.model.options.scan_options import (
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_WATERMARK,
)
from stream_app.model.row_kind import RowKind
from stream_app.spark.read.scan_choice import start_option
from stream_app.spark.read.source_options import (
    READ_STREAM_MAX_BYTES_PER_TRIGGER,
    READ_STREAM_MAX_FILES_PER_TRIGGER,
    READ_STREAM_MAX_ROWS_PER_TRIGGER,
    READ_STREAM_MAX_TRIGGER_DELAY_MS,
    READ_STREAM_MIN_ROWS_PER_TRIGGER,
    SourceOptions,
)
from stream_app.spark.read.spark_arrow import spark_batch
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.stream_offset_planner import (
    Offset,
    StreamOffsetPlanner,
    stream_offset_planner,
)
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.read.selection import ROW_KIND_NAME
from stream_app.table.storage_errors import storage_errors

_BATCH_OPTIONS = (
    SCAN_TAG_NAME.key,
    SCAN_WATERMARK.key,
    "incremental-between",
    "incremental-between-timestamp",
)
_START_OPTIONS = (
    SCAN_MODE.key,
    SCAN_SNAPSHOT_ID.key,
    SCAN_TIMESTAMP.key,
    SCAN_TIMESTAMP_MILLIS.key,
)
_ADDED_KINDS = pa.array([RowKind.INSERT.short, RowKind.UPDATE_AFTER.short])


@dataclass(frozen=True)
class MinimumRows:
    """The minimum number of rows that a micro-batch waits for, and the longest wait."""

    row_count: int
    wait_max_s: float


class StreamReader(DataSourceStreamReader):
    """A reader of some columns of a table's stream.

    Args:
        shows_row_kinds: whether the stream has the column ``rowkind`` and rows of all kinds;
            otherwise it has only added rows.
    """

    def __init__(
        self,
        offset_planner: StreamOffsetPlanner,
        columns: list[str],
        *,
        shows_row_kinds: bool,
        rows_min: MinimumRows | None,
    ) -> None:
        self._offset_planner = offset_planner
        self._columns = columns
        self._shows_row_kinds = shows_row_kinds
        self._rows_min = rows_min
        self._start: Offset | None = None
        self._last_end: Offset | None = None
        self._last_end_s: float | None = None
        self._reported_at_s: float | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's
        """Return the position where a query without a checkpoint begins.

        Raises:
            UsageError: the options do not go together, or there is no such version.
        """
        # Spark asks for the latest offset first, and then for the one where that began.
        if self._start is None:
            self._start = self._offset_planner.initial()
        return self._start

    def latestOffset(self) -> Offset:  # noqa: N802 - Spark's
        """Return the end of the next micro-batch, or the previous end without a new snapshot.

        Raises:
            UsageError: the next snapshot has expired; names the first one that is left.
        """
        previous_offset = self._last_end or self.initialOffset()
        next_offset = self._offset_planner.next_offset(previous_offset)
        if next_offset.offset == previous_offset or self._waits_for_rows(next_offset.row_count):
            self._keep_consumer_alive()
            return previous_offset
        self._last_end, self._last_end_s = next_offset.offset, self._now()
        return next_offset.offset

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the splits between two offsets.

        Raises:
            UsageError: a snapshot of them has expired.
        """
        self._last_end = end
        return [InputPartition(split) for split in self._offset_planner.splits(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, in a task.

        Raises:
            CorruptFileError: a file cannot be read.
            StorageError: the file system refuses.
        """
        table = self._offset_planner.table
        table_columns = tuple(name for name in self._columns if name != ROW_KIND_NAME)
        with storage_errors(table.location):
            for batch in StreamRead(table, table_columns).read(partition.value):
                if self._shows_row_kinds:
                    yield spark_batch(batch, self._columns)
                    continue
                is_added = pc.is_in(batch.column(ROW_KIND_NAME), value_set=_ADDED_KINDS)
                yield spark_batch(batch.filter(is_added), self._columns)

    def commit(self, end: Offset) -> None:
        """Advance the consumer after a micro-batch, and so the snapshots that it protects."""
        self._offset_planner.write_progress(end)
        self._reported_at_s = self._now()

    def stop(self) -> None:
        """Do nothing: the reader keeps nothing open."""

    def _waits_for_rows(self, row_count: int) -> bool:
        rows_min, last_end_s = self._rows_min, self._last_end_s
        if rows_min is None or last_end_s is None or row_count >= rows_min.row_count:
            return False
        return self._now() - last_end_s < rows_min.wait_max_s

    def _keep_consumer_alive(self) -> None:
        """Keep the consumer of a waiting query alive."""
        within_s = self._offset_planner.refresh_within_s
        reported_at_s = self._reported_at_s
        now_s = self._now()
        if within_s is not None and (reported_at_s is None or now_s - reported_at_s >= within_s):
            self._offset_planner.refresh_consumer()
            self._reported_at_s = now_s

    def _now(self) -> float:
        return self._offset_planner.table.clock.steady_seconds()


def stream_reader(
    table: FileStoreTable, columns: list[str], options: SourceOptions, *, shows_row_kinds: bool
) -> StreamReader:
    """Return the reader that the options ask for.

    Raises:
        UsageError: the options do not go together, or are for batch reads.
    """
    start_option(options, refused_keys=_BATCH_OPTIONS)
    if "read.protect" in options.raw:
        raise UsageError(
            "option 'read.protect' is for batch reads, and this one is a stream",
            fix="leave it out: a consumer-id protects what the stream has yet to read",
        )
    row_count = options[READ_STREAM_MIN_ROWS_PER_TRIGGER]
    delay_ms = options[READ_STREAM_MAX_TRIGGER_DELAY_MS]
    rows_min = (
        None if row_count is None or delay_ms is None else MinimumRows(row_count, delay_ms / 1000)
    )
    offset_planner = stream_offset_planner(
        _with_options(table, options.of_table()),
        files_max=options[READ_STREAM_MAX_FILES_PER_TRIGGER],
        bytes_max=options[READ_STREAM_MAX_BYTES_PER_TRIGGER],
        rows_max=options[READ_STREAM_MAX_ROWS_PER_TRIGGER],
    )
    return StreamReader(offset_planner, columns, shows_row_kinds=shows_row_kinds, rows_min=rows_min)


def _with_options(table: FileStoreTable, options: Mapping[str, str]) -> FileStoreTable:
    """Return the table with the given options; a given start option replaces all start options."""
    if any(name in options for name in _START_OPTIONS):
        remaining_options = {
            key: text for key, text in table.schema.options.items() if key not in _START_OPTIONS
        }
        table = replace(table, schema=replace(table.schema, options=remaining_options))
    return table.with_options(options)


def stream_schema(table: FileStoreTable, *, shows_row_kinds: bool) -> pa.Schema:
    """Return the Arrow schema of a stream."""
    schema = StreamRead(table).schema
    return schema if shows_row_kinds else schema.remove(0)
