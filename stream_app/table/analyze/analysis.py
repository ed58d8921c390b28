"""Reads a table once, and publishes the statistics of its columns in an ANALYZE snapshot.

The steps: (1) choose columns, (2) read them as readers see them, (3) write the file of statistics,
(4) commit. The new file replaces the old one, so columns that are not chosen lose theirs, as in
Paimon.

Source: Paimon `spark/commands/PaimonAnalyzeTableColumnCommand.scala`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from stream_app.errors import CommitError, UsageError
from stream_app.filestore.versions.statistics_files import StatisticsFiles, TableStatistics
from stream_app.model.near_names import unknown_name
from stream_app.model.schema.data_type import DataField
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import Snapshot
from stream_app.table.analyze.column_figures import ColumnFigures
from stream_app.table.commit.batch_commit import ANALYSIS, batch_commit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.interleaved_batches import interleaved
from stream_app.table.read.split_read import SplitRead
from stream_app.table.read.split_scan import SplitScan
from stream_app.table.upkeep.read_protection import TableVersion, protected_version
from stream_app.table.versions.file_store_scan import FileStoreScan

_RETAINED_MS = 6 * 3_600_000
"""The longest life of the tag: only a process that dies leaves it behind."""


def analyzed_columns(schema: TableSchema, names: Sequence[str] | None) -> list[DataField]:
    """Select the columns to analyze by name; None selects all that can have statistics.

    Raises:
        UsageError: a name is unknown, or its column is nested.
    """
    if names is None:
        return [column for column in schema.fields if not column.data_type.is_nested]
    columns = []
    for name in dict.fromkeys(names):
        if name not in schema.fields.names:
            raise UsageError(
                unknown_name("column", name, schema.fields.names),
                fix=f"name columns of the table: {', '.join(schema.fields.names)}",
            )
        column = schema.fields.field(name)
        if column.data_type.is_nested:
            raise UsageError(
                f"column {name!r} is {column.data_type}, which has no statistics",
                fix="leave the column out, as Spark's ANALYZE does",
            )
        columns.append(column)
    return columns


def analyze(
    table: FileStoreTable, columns: Sequence[DataField], *, threads: int
) -> Snapshot | None:
    """Analyze the latest version and return the ANALYZE snapshot; None without snapshots.

    A tag protects the version from expiry while it is read.

    Args:
        table: a table of `require_writable`.
        columns: the result of `analyzed_columns`.
        threads: the number of reading threads.

    Raises:
        UnsupportedTableError: the table uses a feature that stream_app cannot read.
        CorruptFileError: a file is missing or damaged.
        CommitError: other writers won every race; nothing has changed.
    """
    find = partial(_latest_version, table)
    with protected_version(find, _RETAINED_MS, may_retry=True) as (_, snapshot):
        if snapshot is None:
            return None
        statistics = compute_statistics(table, snapshot, columns, threads=threads)
    statistics_files = StatisticsFiles(table.file_io, table.paths)
    name = statistics_files.write(statistics)
    try:
        return batch_commit(table).commit_analysis(ANALYSIS, statistics_file=name)
    except CommitError:
        statistics_files.delete(name)
        raise


def compute_statistics(
    table: FileStoreTable, snapshot: Snapshot, columns: Sequence[DataField], *, threads: int
) -> TableStatistics:
    """Compute the statistics of one version without writing anything.

    Raises:
        UnsupportedTableError, CorruptFileError: as `analyze`.
    """
    figures = {column.name: ColumnFigures(column) for column in columns}
    split_read = SplitRead(table, tuple(figures) or table.schema.fields.names[:1])
    splits = SplitScan(table).splits(snapshot)
    row_count = 0
    for batch in interleaved((partial(split_read.read, split) for split in splits), threads):
        row_count += batch.num_rows
        for name, figure in figures.items():
            figure.add(batch.column(name))
    files = [entry.file for entry in FileStoreScan(table).live(snapshot)]
    stored_row_count = sum(file.row_count for file in files)
    return TableStatistics(
        snapshot_id=snapshot.snapshot_id,
        schema_id=table.schema.schema_id,
        row_count=row_count,
        byte_count=sum(file.file_size for file in files) * row_count // max(stored_row_count, 1),
        columns={name: figure.statistics() for name, figure in figures.items()},
    )


def _latest_version(table: FileStoreTable) -> TableVersion:
    return table, table.snapshots.latest()
