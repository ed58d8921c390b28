"""Measures the content of a data file in columns, and compares it with its manifest entry.

Each file is read through the schema that it was written with, so that nothing is cast.

Source: Paimon `io/KeyValueDataFileWriter.java` (the facts that it records).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.filestore.data.file_stats import FileStats
from stream_app.format.arrow_schema import arrow_scalar
from stream_app.format.binary_row import deserialize_row, serialize_arrow_row
from stream_app.format.bucket_hash import bucket_of
from stream_app.format.column_stats import UNKNOWN_STATS, ColumnStats
from stream_app.mergetree.key_value_batch import breaks_key_order, retract_mask
from stream_app.model.bucket_id import POSTPONED
from stream_app.model.files.joined_files import holds_blobs
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.schema.data_type import FLOAT_ROOTS, DataField
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER
from stream_app.table.conditions.row_filter import key_types_predicate
from stream_app.table.file_store_table import FileStoreTable

_RESTORE = (
    "restore the file and its manifest from a backup, or roll the table back to a snapshot or tag "
    "without it: stream-app rollback-to"
)
_REWRITE = (
    "let a compaction rewrite the bucket's files: stream-app compact --full; until then "
    "conditions may leave out rows"
)


_FileDefect = tuple[FindingKind, str, str]
"""The kind, what is wrong, and the remedy."""


@dataclass(slots=True)
class _ColumnCounts:
    """Counts of a column's values.

    Attributes:
        low, high: the bounds in the manifest; None if it has none.
        below, above: the number of values outside of the bounds.
    """

    field: DataField
    stats: ColumnStats
    low: pa.Scalar | None
    high: pa.Scalar | None
    null_count: int = 0
    below: int = 0
    above: int = 0

    @classmethod
    def of_stats(cls, column: DataField, stats: ColumnStats) -> _ColumnCounts:
        # Parquet's bounds leave out NaN.
        is_exact = column.data_type.root not in FLOAT_ROOTS
        try:
            low, high = (
                None if value is None or not is_exact else arrow_scalar(value, column.data_type)
                for value in (stats.minimum, stats.maximum)
            )
        except (pa.ArrowInvalid, OverflowError):  # the bound is a time outside of Arrow's range
            low = high = None
        return cls(column, stats, low, high)

    def add(self, values: pa.Array) -> None:
        self.null_count += values.null_count
        if self.low is not None:
            self.below += pc.sum(pc.less(values, self.low)).as_py() or 0
        if self.high is not None:
            self.above += pc.sum(pc.greater(values, self.high)).as_py() or 0

    def defects(self) -> Iterator[_FileDefect]:
        name, listed_count = self.field.name, self.stats.null_count
        if listed_count not in (None, self.null_count):
            problem = (
                f"column {name!r} has {self.null_count} nulls, its manifest has {listed_count}"
            )
            yield FindingKind.STATISTICS, problem, _REWRITE
        if self.below or self.above:
            problem = f"column {name!r} has {self.below} values below and {self.above} above"
            yield FindingKind.STATISTICS, f"{problem} the bounds in its manifest", _REWRITE


@dataclass(slots=True, kw_only=True)
class FileMeasurement:
    """Counts of a data file, which grow as it is read.

    Attributes:
        keys_repeat: whether a key may occur more than once.
        unordered_row_count: the number of rows whose key is not above the previous row's.
        stray_bucket, stray_partition: the number of rows that belong to another bucket or
            partition.
        keys: the first and the last key.
        sequence_range: the lowest and the highest sequence number; None without rows.
        has_current_key_types: whether the file's keys have the types of the table's schema.
    """

    table: FileStoreTable
    entry: ManifestEntry
    keys_repeat: bool
    row_count: int = 0
    delete_count: int = 0
    unordered_row_count: int = 0
    stray_bucket: int = 0
    stray_partition: int = 0
    keys: list[bytes] = field(default_factory=list)
    sequence_range: tuple[int, int] | None = None
    last_row: pa.RecordBatch | None = None
    columns: list[_ColumnCounts] = field(default_factory=list)
    has_current_key_types: bool = True

    def __post_init__(self) -> None:
        schema = self.table.schema
        schema_of = self.table.known_schemas()
        listed_stats = FileStats(schema.fields, schema_of).of_all_columns(self.entry.file)
        self.has_current_key_types = key_types_predicate(schema, schema_of)(
            self.entry.file.schema_id
        )
        self.columns = [
            _ColumnCounts.of_stats(column, listed_stats.get(column.name, UNKNOWN_STATS))
            for column in schema.fields
        ]

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        if not batch.num_rows:
            return
        self.row_count += batch.num_rows
        if self.table.kind_traits.merges_by_key:
            self._add_keys(batch)
        for column in self.columns:
            column.add(batch.column(column.field.name))
        self.stray_bucket += self._stray_bucket_count(batch)
        self.stray_partition += self._stray_partition_count(batch)

    def _add_keys(self, batch: pa.RecordBatch) -> None:
        """Count deletes and unordered keys, and extend the ranges of keys and sequence numbers."""
        schema = self.table.schema
        layout = self.table.layout()
        self.delete_count += int(np.count_nonzero(retract_mask(batch)))
        bounds = pc.min_max(batch.column(SEQUENCE_NUMBER)).as_py()
        low, high = bounds["min"], bounds["max"]
        if self.sequence_range is not None:
            low, high = min(low, self.sequence_range[0]), max(high, self.sequence_range[1])
        self.sequence_range = (low, high)
        joined_rows = batch if self.last_row is None else pa.concat_batches([self.last_row, batch])
        is_out_of_order = breaks_key_order(
            joined_rows, layout.key_names, accepts_same=self.keys_repeat
        )
        self.unordered_row_count += int(np.count_nonzero(is_out_of_order))
        self.last_row = batch.slice(batch.num_rows - 1)
        keys = [batch.column(name) for name in layout.key_names]
        types = schema.key_type.types
        if not self.keys:
            self.keys = [serialize_arrow_row(keys, types, 0)]
        self.keys[1:] = [serialize_arrow_row(keys, types, batch.num_rows - 1)]

    def _stray_bucket_count(self, batch: pa.RecordBatch) -> int:
        schema, total = self.table.schema, self.entry.total_buckets
        are_comparable = self.has_current_key_types and schema.core_options.hashes_by_default
        if total < 1 or not schema.bucket_keys or not are_comparable:
            return 0
        keys = [batch.column(name) for name in schema.bucket_keys]
        types = schema.fields.project(schema.bucket_keys).types
        return int(np.count_nonzero(bucket_of(keys, types, total) != self.entry.bucket))

    def _stray_partition_count(self, batch: pa.RecordBatch) -> int:
        schema = self.table.schema
        values = deserialize_row(self.entry.partition, schema.partition_type.types)
        is_stray = np.zeros(batch.num_rows, np.bool_)
        for column, value in zip(schema.partition_type, values, strict=True):
            array = batch.column(column.name)
            if value is None:
                is_equal = array.is_null()
            else:
                partition_value = arrow_scalar(value, column.data_type)
                is_equal = pc.fill_null(pc.equal(array, partition_value), False)
            is_stray |= ~is_equal.to_numpy(zero_copy_only=False)
        return int(np.count_nonzero(is_stray))

    def findings(self, where: str) -> Iterator[Finding]:
        """Yield each difference between the file and its manifest entry."""
        for kind, problem, fix in (
            *self._row_defects(),
            *self._key_defects(),
            *self._column_defects(),
        ):
            yield Finding(kind=kind, problem=problem, where=where, fix=fix)

    def _row_defects(self) -> Iterator[_FileDefect]:
        """Yield what is wrong with the number of rows or deletes, and with the rows' places."""
        kind, file = FindingKind.ROW_COUNT, self.entry.file
        if self.row_count != (listed_count := file.row_count):
            yield (
                kind,
                f"the file has {self.row_count} rows, its manifest has {listed_count}",
                _RESTORE,
            )
        if (listed_deletes := file.delete_row_count) not in (None, self.delete_count):
            problem = (
                f"the file has {self.delete_count} deletes, its manifest says {listed_deletes}"
            )
            yield kind, problem, _RESTORE
        if stray_count := self.stray_bucket:
            problem = f"{stray_count} rows belong into another bucket by their key"
            fix = "overwrite the partition with its rows; readers that look up a key miss them"
            yield FindingKind.BUCKET, problem, fix
        if stray_count := self.stray_partition:
            problem = f"{stray_count} rows belong into another partition"
            fix = "overwrite the partitions with their rows; readers that prune miss them"
            yield FindingKind.PARTITION, problem, fix

    def _key_defects(self) -> Iterator[_FileDefect]:
        """Yield what is wrong with the order or range of keys, or the range of sequence numbers."""
        file, key_of = self.entry.file, self.table.key_of
        if self.unordered_row_count and self.entry.bucket != POSTPONED:
            problem = (
                f"{self.unordered_row_count} rows do not follow the row before them in key order"
            )
            yield FindingKind.KEY_ORDER, problem, _RESTORE
        if self.keys:
            low, high = key_of(self.keys[0]), key_of(self.keys[-1])
            if (low, high) != (key_of(file.min_key), key_of(file.max_key)):
                problem = f"the file's keys reach from {_key_text(low)} to {_key_text(high)}"
                yield FindingKind.KEY_RANGE, f"{problem}, its manifest says another range", _RESTORE
        listed_range = file.min_sequence_number, file.max_sequence_number
        if self.sequence_range is not None and self.sequence_range != listed_range:
            start, end = self.sequence_range
            listed_text = f"its manifest says {listed_range[0]} to {listed_range[1]}"
            problem = f"sequence numbers reach from {start} to {end}, {listed_text}"
            yield FindingKind.SEQUENCE_NUMBERS, problem, _RESTORE

    def _column_defects(self) -> Iterator[_FileDefect]:
        if holds_blobs(self.entry.file):
            return  # PyPaimon counts no nulls there, and no reader asks
        if self.entry.bucket == POSTPONED:
            return  # in an unsorted file the first and the last key are no bounds
        for column in self.columns:
            yield from column.defects()


def measure_file(
    table: FileStoreTable, entry: ManifestEntry, *, keys_repeat: bool
) -> FileMeasurement:
    """Read a whole file and measure its content, with two batches in memory.

    Args:
        table: a table with the schema by which the file was written.
        keys_repeat: whether a key may occur more than once, as in changelog files.

    Raises:
        CorruptFileError: the file cannot be read.
        UnsupportedTableError: stream_app does not read its format.
    """
    measurement = FileMeasurement(table=table, entry=entry, keys_repeat=keys_repeat)
    for batch in table.bucket_files(*entry.bucket_id).read(entry.file):
        measurement.add(batch)
    return measurement


def _key_text(key: Any) -> str:
    parts = (
        part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in key
    )
    return f"({', '.join(parts)})"
