"""The scans of a batch read in Spark: rows of a version, changes, or a system table.

A scan is made on the driver from the options and pickled to the tasks. It knows its columns, its
parts, and how to read a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from stream_app.errors import UsageError
from stream_app.model.files.data_split import DataSplit
from stream_app.model.snapshot import Snapshot
from stream_app.spark.read.scan_choice import (
    Choice,
    LatestCompacted,
    TimeBounds,
    VersionBounds,
    batch_choice,
)
from stream_app.spark.read.source_options import (
    INCREMENTAL_BETWEEN_SCAN_MODE,
    READ_CHANGELOG,
    READ_PROTECT,
    SourceOptions,
)
from stream_app.table.conditions.row_filter import RowFilter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.incremental_range import (
    Bound,
    between_timestamps,
    scan_mode,
    versions_between,
)
from stream_app.table.read.incremental_read import IncrementalRead
from stream_app.table.read.interleaved_batches import BatchStream
from stream_app.table.read.selection import ROW_KIND_NAME
from stream_app.table.read.split_read import SplitRead
from stream_app.table.read.split_scan import SplitScan
from stream_app.table.read.system_tables import ROW_FORMS, ROWS, SYSTEM_TABLES, SystemRowForm
from stream_app.table.upkeep.read_protection import tagged_version
from stream_app.table.versions.time_travel import (
    Version,
    at_version,
    latest_compacted,
    names_version,
)

AUDIT_LOG = "audit_log"
_STREAMS_OF_A_PART = 64
"""Streams of changes, such as changelog files, that one task reads: most are small."""


class TableScan(Protocol):
    """A scan; frozen, and can be pickled."""

    @property
    def table(self) -> FileStoreTable:
        """The table, with the columns that conditions may use."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """All columns that can be read."""
        ...

    def with_filter(self, row_filter: RowFilter) -> TableScan | None:
        """Return the same scan limited to matching rows, or None if the scan cannot filter."""
        ...

    def parts(self, columns: Sequence[str]) -> list[Any]:
        """Return the parts that tasks can read independently, as they are at this moment.

        Raises:
            CorruptFileError: a manifest cannot be read.
        """
        ...

    def read(self, part: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of a part; only its own columns need be present.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        ...


@dataclass(frozen=True)
class VersionScan:
    """The newest row of each key at a version.

    Attributes:
        table: with the columns of the version.
        snapshot: the snapshot to read, or None for the latest one at planning time.
        row_form: shows rows as they are, or as a system table does.
        retained_ms: how long the version is kept after planning, or None if it may expire.
    """

    table: FileStoreTable
    snapshot: Snapshot | None
    row_form: SystemRowForm
    row_filter: RowFilter | None = None
    retained_ms: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return self.row_form.schema(
            SplitRead(self.table, shows_row_kinds=self.row_form.shows_row_kinds).selection.schema
        )

    def with_filter(self, row_filter: RowFilter) -> TableScan | None:
        """See `TableScan.with_filter`. It also skips manifests, files and row groups."""
        return None if self.row_form.shows_lists else replace(self, row_filter=row_filter)

    def parts(self, columns: Sequence[str]) -> list[DataSplit]:
        """Return the splits of the version."""
        self._read(columns)
        if self.retained_ms is None:
            _, snapshot = self._version()
        else:
            # Spark does not report the end of the last task, so the tag stays until its time to
            # live is over.
            is_latest = self.snapshot is None
            (_, snapshot), _ = tagged_version(self._version, self.retained_ms, may_retry=is_latest)
        level_min = self.row_form.level_min(self.table)
        return SplitScan(self.table, self.row_filter, level_min).splits(snapshot)

    def read(self, part: DataSplit, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Return the rows of a split."""
        return map(self.row_form.batch, self._read(columns).read(part))

    def _version(self) -> tuple[FileStoreTable, Snapshot | None]:
        return self.table, self.snapshot or self.table.snapshots.latest()

    def _read(self, columns: Sequence[str]) -> SplitRead:
        shows_row_kinds = self.row_form.shows_row_kinds
        return SplitRead(self.table, _table_columns(columns), self.row_filter, shows_row_kinds)


@dataclass(frozen=True)
class ChangesScan:
    """The changes between two versions, in the columns of today."""

    table: FileStoreTable
    bounds: VersionBounds | TimeBounds
    mode: str
    shows_row_kinds: bool
    row_filter: RowFilter | None = None

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return IncrementalRead(self.table, shows_row_kinds=self.shows_row_kinds).selection.schema

    def with_filter(self, row_filter: RowFilter) -> TableScan:
        """See `TableScan.with_filter`. It also skips files and row groups."""
        return replace(self, row_filter=row_filter)

    def parts(self, columns: Sequence[str]) -> list[tuple[BatchStream, ...]]:
        """Return parts of several files or buckets each."""
        mode = scan_mode(self.mode)
        if isinstance(self.bounds, VersionBounds):
            changes = versions_between(self.table, *_versions(self.table, self.bounds), mode)
        else:
            changes = between_timestamps(self.table, self.bounds.start, self.bounds.end, mode)
        incremental_read = IncrementalRead(
            self.table, _table_columns(columns), self.row_filter, self.shows_row_kinds
        )
        streams = incremental_read.streams(changes, mode)
        starts = range(0, len(streams), _STREAMS_OF_A_PART)
        return [tuple(streams[start : start + _STREAMS_OF_A_PART]) for start in starts]

    def read(
        self,
        part: tuple[BatchStream, ...],
        columns: Sequence[str],  # noqa: ARG002 - the streams know their columns
    ) -> Iterator[pa.RecordBatch]:
        """Read the streams of a part, one after the other."""
        for stream in part:
            yield from stream()


@dataclass(frozen=True)
class SystemScan:
    """Rows of one of the table's system tables, which one task computes."""

    table: FileStoreTable
    name: str
    snapshot: Snapshot | None
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", SYSTEM_TABLES[self.name].schema)

    def with_filter(self, row_filter: RowFilter) -> None:
        """Return None: a system table's columns are not the table's."""

    def parts(self, columns: Sequence[str]) -> list[None]:  # noqa: ARG002
        """Return the only part."""
        return [None]

    def read(self, part: None, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield all rows."""
        snapshot = self.snapshot or self.table.snapshots.latest()
        yield from SYSTEM_TABLES[self.name](self.table, snapshot).to_batches()


def table_scan(table: FileStoreTable, system_name: str, options: SourceOptions) -> TableScan:
    """Return the scan that the options ask for.

    Args:
        system_name: the name of a system table; empty for the table itself.

    Raises:
        UsageError: the options do not go together, or there is no such version.
        UnsupportedTableError: stream_app would read the table wrongly.
    """
    choice = batch_choice(options)
    retained_ms = options[READ_PROTECT]
    if retained_ms is not None and (
        isinstance(choice, VersionBounds | TimeBounds) or system_name not in ("", *ROW_FORMS)
    ):
        raise UsageError(
            "read.protect protects one version, and this read has no single version",
            fix="leave it out; tags protect both ends of a range",
        )
    shows_row_kinds = options[READ_CHANGELOG] or system_name == AUDIT_LOG
    if isinstance(choice, VersionBounds | TimeBounds):
        if system_name not in ("", AUDIT_LOG):
            raise UsageError(
                f"system table {system_name!r} has no range of versions",
                fix="leave out incremental-between, or read audit_log",
            )
        mode = options[INCREMENTAL_BETWEEN_SCAN_MODE] or "auto"
        return ChangesScan(table.with_options(options.of_table()), choice, mode, shows_row_kinds)
    versioned_table, snapshot = _version_of(table, choice)
    if system_name in SYSTEM_TABLES:
        return SystemScan(versioned_table, system_name, snapshot)
    configured_table = versioned_table.with_options(options.of_table())
    row_form = ROW_FORMS.get(system_name, ROWS)
    row_form = replace(row_form, shows_row_kinds=row_form.shows_row_kinds or shows_row_kinds)
    return VersionScan(configured_table, snapshot, row_form, retained_ms=retained_ms)


def _version_of(table: FileStoreTable, choice: Choice) -> tuple[FileStoreTable, Snapshot | None]:
    """Return the version; without a snapshot, the latest one at planning time."""
    if isinstance(choice, LatestCompacted):
        return latest_compacted(table)
    assert isinstance(choice, Version)
    if choice.is_latest and not names_version(table):
        return table, None
    return at_version(table, choice)


def _versions(table: FileStoreTable, bounds: VersionBounds) -> tuple[Bound, Bound]:
    """Return two tags, if both names are tags; otherwise two snapshots, if both are numbers."""
    texts = (bounds.start, bounds.end)
    tags = table.tags.names()
    if all(text.isdecimal() for text in texts) and not all(text in tags for text in texts):
        return int(bounds.start), int(bounds.end)
    return texts


def _table_columns(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in columns if name != ROW_KIND_NAME)
