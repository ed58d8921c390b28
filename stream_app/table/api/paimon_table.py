"""A Paimon table for readers in Python: rows as Arrow, without Spark.

``stream_app.open_table`` returns it. A `PaimonTable` is itself an Arrow stream, so any consumer of
such streams accepts it: ``duckdb``, ``polars.DataFrame``, ``pyarrow.table``.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.files.data_split import DataSplit
from stream_app.model.options.scan_options import CONSUMER_ID, CONSUMER_IGNORE_PROGRESS
from stream_app.model.snapshot import Snapshot
from stream_app.planning.read.stream_start import stream_start
from stream_app.table.api.changeable_table import ChangeableTable
from stream_app.table.api.read_arguments import chosen_columns, reading_threads
from stream_app.table.api.vector_columns import shown_batches, shown_schema
from stream_app.table.conditions.row_filter import RowFilter, row_filter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.changelog_follow import (
    FOLLOW_POLL_SECONDS,
    ChangelogBatch,
    ChangelogFollow,
    FollowSettings,
    changelog_batches,
)
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.follow.stream_scan import start_of_table
from stream_app.table.opening import open_named_table
from stream_app.table.read.incremental_range import Bound, chosen_range
from stream_app.table.read.incremental_range import scan_mode as scan_mode_of
from stream_app.table.read.incremental_read import IncrementalRead
from stream_app.table.read.interleaved_batches import interleaved
from stream_app.table.read.split_read import SplitRead
from stream_app.table.read.split_scan import SplitScan
from stream_app.table.read.system_tables import (
    ROW_FORMS,
    SYSTEM_TABLES,
    SystemRowForm,
    check_system_table,
)
from stream_app.table.upkeep.read_protection import SchemaAndRows, read_protected_rows, retention_ms
from stream_app.table.versions.read_refusals import warn_of_unknown
from stream_app.table.versions.time_travel import (
    Timestamp,
    Version,
    at_version,
    ms_since_1970,
    with_schema,
)

Where: TypeAlias = str | pc.Expression
"""``"amount > 5 AND dt = '2026-01-01'"``, or ``pc.field("amount") > 5``."""


@dataclass(frozen=True)
class PaimonTable(ChangeableTable):
    """A Paimon table; each call sees the table as it is at that moment."""

    def __repr__(self) -> str:
        return f"PaimonTable({self.location!r})"

    @property
    def location(self) -> str:
        """The path of the table's or branch's folder."""
        return self.table.version_root

    @property
    def schema(self) -> pa.Schema:
        """The columns of the schema that was the latest when the table was opened."""
        columns = self.table.schema.fields
        return shown_schema(columns, arrow_schema(columns))

    def read(  # noqa: PLR0913 - a query has that many parts, each with its name
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
        limit: int | None = None,
        threads: int | None = None,
        protect: str | None = None,
    ) -> pa.RecordBatchReader:
        """Read the newest row of each key, or all rows of a table without a key.

        Batches arrive while the table is read. Each thread has one open split, and each sorted run
        of it takes a few megabytes of memory.

        Args:
            columns: names of columns, in the order of the result; None: all.
            where: a condition; only rows for which it is true are returned.
            snapshot: the number of the version, which is read with its own schema. Without
                `snapshot`, `tag`, `timestamp` and `watermark` the latest version is read.
            tag: the name of a tag.
            timestamp: a time; the latest version that is not later is read, see `Version`.
            watermark: the first version with at least this watermark is read.
            limit: the maximum number of rows.
            threads: the number of reading threads; None: the machine's cores, up to `THREADS_MAX`.
                One thread returns rows in a fixed order, bucket by bucket.
            protect: a duration such as ``"1 h"``. For at most this time, a tag keeps the version
                from expiry until the reader is exhausted or dropped. None writes no tag.

        Raises:
            UsageError: a column is unknown, the condition is wrong, or the version does not exist.
            UnsupportedTableError: the table uses a feature that stream_app cannot read.
            CorruptFileError: a file is missing or damaged; the reader raises it.
            OSError: the tag cannot be written.
        """
        version = Version(snapshot=snapshot, tag=tag, timestamp=timestamp, watermark=watermark)
        threads = reading_threads(threads, limit)

        def read_version(table: FileStoreTable, version_snapshot: Snapshot | None) -> SchemaAndRows:
            split_read = SplitRead(table, chosen_columns(columns), _filter(where, table))
            splits = SplitScan(table, split_read.row_filter).splits(version_snapshot)
            batches = interleaved((partial(split_read.read, split) for split in splits), threads)
            schema = shown_schema(table.schema.fields, split_read.selection.schema)
            shown_rows = shown_batches(schema, batches)
            return schema, shown_rows if limit is None else first_rows(shown_rows, limit)

        retained_ms = retention_ms(protect)
        find = partial(at_version, self.table, version)
        if retained_ms is None:
            return _reader(*read_version(*find()))
        return _reader(
            *read_protected_rows(find, retained_ms, read_version, may_retry=version.is_latest)
        )

    def read_incremental(
        self,
        between: tuple[Bound, Bound] | None = None,
        *,
        between_timestamps: tuple[Timestamp, Timestamp] | None = None,
        scan_mode: str = "auto",
        row_kind: bool = False,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        threads: int | None = None,
    ) -> pa.RecordBatchReader:
        """Read the rows added between two versions, in the columns of the latest schema.

        Args:
            between: two snapshots by number, or two tags by name; the first one is excluded.
            between_timestamps: instead of `between`; the first one is excluded.
            scan_mode: delta, changelog, diff or auto: see `ScanMode`.
            row_kind: prepend a column ``rowkind`` (+I, -U, +U, -D) and return rows of all kinds; by
                default only added rows are returned.
            columns: names of columns, in the order of the result; None: all.
            where: a condition on every row, also on old ones.
            threads: the number of reading threads; None: the machine's cores, up to `THREADS_MAX`.

        Raises:
            UsageError: a version does not exist or has expired; or as `read`.
            UnsupportedTableError, CorruptFileError: as `read`.
        """
        mode = scan_mode_of(scan_mode)
        version_range = chosen_range(self.table, between, between_timestamps, mode)
        incremental_read = IncrementalRead(
            self.table,
            chosen_columns(columns),
            _filter(where, self.table),
            shows_row_kinds=row_kind,
        )
        streams = incremental_read.streams(version_range, mode)
        schema = shown_schema(self.table.schema.fields, incremental_read.selection.schema)
        batches = interleaved(streams, reading_threads(threads, None))
        return _reader(schema, shown_batches(schema, batches))

    def changelog(  # noqa: PLR0913 - as read
        self,
        *,
        start: str | None = None,
        snapshot: int | None = None,
        timestamp: Timestamp | None = None,
        end: int | None = None,
        follow: bool = False,
        consumer_id: str | None = None,
        ignore_progress: bool | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        poll_seconds: float = FOLLOW_POLL_SECONDS,
    ) -> Generator[ChangelogBatch, None, None]:
        """Stream the changes of each snapshot with their row kinds.

        The stream ends after `end`. Without an end it follows until the caller closes it.

        Args:
            start: a `StartMode` such as ``latest-full``. Without it, the stream starts from
                `snapshot` or `timestamp`, or as the table's ``scan.mode`` says.
            snapshot: the snapshot at which the stream starts.
            timestamp: the time at which the stream starts, as `read`.
            end: the last snapshot; None: the latest one at the call, or no end with `follow`.
            follow: wait for further snapshots.
            consumer_id: a Paimon consumer, which stores the next snapshot for at-least-once reads;
                None: the table's ``consumer-id``.
            ignore_progress: begin at the start, even if the consumer has progress.
            columns: names of columns, in the order of the result; None: all.
            where: a condition on every row, also on old ones.
            poll_seconds: the pause between two polls for a further snapshot, in seconds.

        Raises:
            UsageError: the start does not exist, or the next snapshot expires during the read.
            CheckpointError: the table was rolled back to before the reader's position, and written
                again.
            UnsupportedTableError, CorruptFileError: as `read`.
        """
        table = self.table
        if start is None and snapshot is None and timestamp is None:
            chosen_start = start_of_table(table.options)
        else:
            time_ms = None if timestamp is None else ms_since_1970(timestamp)
            chosen_start = stream_start(
                start or "default", snapshot_id=snapshot, timestamp_ms=time_ms
            )
        if ignore_progress is None:
            ignore_progress = table.options[CONSUMER_IGNORE_PROGRESS]
        settings = FollowSettings(
            start=chosen_start,
            end=end,
            follows=follow,
            consumer_id=consumer_id or table.options[CONSUMER_ID] or None,
            ignores_progress=ignore_progress,
            poll_seconds=poll_seconds,
        )
        stream_read = StreamRead(table, chosen_columns(columns), _filter(where, table))
        return changelog_batches(ChangelogFollow(stream_read, settings))

    def system(
        self,
        name: str,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> pa.Table:
        """Return one of Paimon's system tables, such as ``files``.

        ``audit_log`` prepends a column ``rowkind``, and shows deletes that no compaction has
        removed yet. ``ro`` shows the rows that full compactions have merged. `read_incremental` has
        the changes between versions.

        Args:
            snapshot: the number of the version whose files, statistics or rows are shown.
            tag: the name of a tag.
            timestamp: a time, of which the latest version that is not later counts.
            watermark: the watermark that the version has at least.

        Raises:
            UsageError: the system table or the version does not exist.
            CorruptFileError: a file of metadata is missing or damaged.
        """
        version = Version(snapshot=snapshot, tag=tag, timestamp=timestamp, watermark=watermark)
        check_system_table(name)
        table, version_snapshot = at_version(self.table, version)
        if name in SYSTEM_TABLES:
            return SYSTEM_TABLES[name](table, version_snapshot)
        return _shown_rows(ROW_FORMS[name], table, version_snapshot)

    def splits(
        self,
        *,
        where: Where | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        watermark: int | None = None,
    ) -> list[DataSplit]:
        """Return the splits, each of which `read_split` can read alone, even in another process.

        Args:
            where: a condition that prunes splits and files without a match. Pass it to `read_split`
                too, which filters the rows.

        Raises:
            UsageError, UnsupportedTableError, CorruptFileError: as `read`.
        """
        version = Version(snapshot=snapshot, tag=tag, timestamp=timestamp, watermark=watermark)
        table, version_snapshot = at_version(self.table, version)
        split_read = SplitRead(table, None, _filter(where, table))
        return SplitScan(table, split_read.row_filter).splits(version_snapshot)

    def read_split(
        self,
        split: DataSplit,
        *,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> pa.RecordBatchReader:
        """Read the rows of one split in one thread.

        Raises:
            UsageError, UnsupportedTableError, CorruptFileError: as `read`.
        """
        table = with_schema(self.table, split.schema_id)
        split_read = SplitRead(table, chosen_columns(columns), _filter(where, table))
        schema = shown_schema(table.schema.fields, split_read.selection.schema)
        return _reader(schema, shown_batches(schema, split_read.read(split)))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Export all rows through Arrow's C stream interface."""
        return self.read().__arrow_c_stream__(requested_schema)


def open_table(
    path: str | os.PathLike[str],
    *,
    catalog: Mapping[str, str] | None = None,
    file_io_options: Mapping[str, str] | None = None,
) -> PaimonTable:
    """Open the Paimon table at a path or URI, or by its name in a catalog.

    Args:
        path: ``/path``, ``file:/path``, ``s3://bucket/path``, ``hdfs://host/path`` …; or
            ``CATALOG.DATABASE.TABLE``, or ``DATABASE.TABLE`` of `catalog`.
        catalog: options of a catalog, such as ``{"metastore": "jdbc", "uri": …, "warehouse": …}``.
        file_io_options: the options of the file system, such as ``s3.endpoint``; keys of S3
            also come from AWS's variables.

    Raises:
        TableNotFoundError: the table does not exist.
        UsageError: the location's file system is unknown, or an option is wrong.
        StorageError: the file system or the catalog cannot be reached, or refuses.
    """
    table = open_named_table(os.fspath(path), catalog=catalog, file_io_options=file_io_options)
    warn_of_unknown(table)
    return PaimonTable(table)


def first_rows(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield at most `limit` rows, and then stop reading."""
    remaining_count = limit
    while remaining_count and (batch := next(batches, None)) is not None:
        yield batch.slice(0, remaining_count)
        remaining_count -= min(remaining_count, batch.num_rows)


def _shown_rows(
    row_form: SystemRowForm, table: FileStoreTable, snapshot: Snapshot | None
) -> pa.Table:
    split_read = SplitRead(table, shows_row_kinds=row_form.shows_row_kinds)
    scan = SplitScan(table, level_min=row_form.level_min(table))
    streams = [partial(split_read.read, split) for split in scan.splits(snapshot)]
    batches = map(row_form.batch, interleaved(streams, reading_threads(None, None)))
    return pa.Table.from_batches(batches, row_form.schema(split_read.selection.schema))


def _filter(where: Where | None, table: FileStoreTable) -> RowFilter | None:
    return None if where is None else row_filter(where, table.schema)


def _reader(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Return a reader of at least one batch, perhaps empty: Polars rejects one without batches."""
    first_batch = next(batches, pa.RecordBatch.from_pylist([], schema))
    return pa.RecordBatchReader.from_batches(schema, itertools.chain([first_batch], batches))
