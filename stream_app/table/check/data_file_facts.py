"""Measures the content of a data file in columns, and compares it with what a manifest says.

Each file is read through the schema that it was written with, so that nothing is cast.

Source: Paimon `io/KeyValueDataFileWriter.java` (the facts that it records).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from stream_app.mergetree.key_value_batch import is_retract, keys_not_after
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.manifest_entry import ManifestEntry
from stream_app.model.schema.data_type import FLOAT_ROOTS, DataField
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.row_filter import hashes_as_today

_RESTORE = (
    "restore the file and its manifest from a backup, or roll the table back to a snapshot or tag "
    "without it: stream-app rollback-to"
)
_REWRITE = (
    "let a compaction write the bucket's files anew: stream-app compact --full; until then "
    "conditions may leave out rows"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """Measured facts of one column of a file.

    Attributes:
        null_count: nulls.
        below, above: rows below the manifest's least and above its largest value.
        told_nulls: what the manifest says; None when it does not.
    """

    null_count: int
    below: int
    above: int
    told_nulls: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """Measured facts of a data file.

    Attributes:
        keys: least and greatest key, as they compare; None without a key.
        told_keys: what the manifest says.
        unordered_rows: rows whose key does not follow the one before.
        stray_bucket_rows, stray_partition_rows: rows that belong elsewhere.
    """

    row_count: int
    delete_row_count: int | None = None
    keys: tuple[Any, Any] | None = None
    told_keys: tuple[Any, Any] | None = None
    sequence_numbers: tuple[int, int] | None = None
    unordered_rows: int = 0
    stray_bucket_rows: int = 0
    stray_partition_rows: int = 0
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)


_Fact = tuple[FindingKind, str, str]
"""The kind, what is wrong, and the remedy."""


def fact_findings(file: DataFileMeta, facts: FileFacts, where: str) -> list[Finding]:
    """Every difference between a file and its manifest entry."""
    facts_that_differ = (*_row_facts(file, facts), *_key_facts(file, facts), *_column_facts(facts))
    return [
        Finding(kind=kind, what=what, where=where, fix=fix) for kind, what, fix in facts_that_differ
    ]


def _row_facts(file: DataFileMeta, facts: FileFacts) -> Iterator[_Fact]:
    kind, rows, deletes = FindingKind.ROW_COUNT, facts.row_count, facts.delete_row_count
    if rows != (listed := file.row_count):
        yield kind, f"the file has {rows} rows, its manifest says {listed}", _RESTORE
    if deletes is not None and file.delete_row_count not in (None, deletes):
        listed = file.delete_row_count
        yield kind, f"the file has {deletes} deletes, its manifest says {listed}", _RESTORE
    if stray := facts.stray_bucket_rows:
        what = f"{stray} rows belong into another bucket by their key"
        fix = "overwrite the partition with its rows; readers that look up a key miss them"
        yield FindingKind.BUCKET, what, fix
    if stray := facts.stray_partition_rows:
        what = f"{stray} rows belong into another partition"
        fix = "overwrite the partitions with their rows; readers that prune miss them"
        yield FindingKind.PARTITION, what, fix


def _key_facts(file: DataFileMeta, facts: FileFacts) -> Iterator[_Fact]:
    if count := facts.unordered_rows:
        what = f"{count} rows do not follow the row before them in key order"
        yield FindingKind.KEY_ORDER, what, _RESTORE
    if facts.keys is not None and facts.keys != facts.told_keys:
        low, high = map(_key_text, facts.keys)
        what = f"the file's keys reach from {low} to {high}, its manifest says another range"
        yield FindingKind.KEY_RANGE, what, _RESTORE
    listed = file.min_sequence_number, file.max_sequence_number
    if facts.sequence_numbers is not None and facts.sequence_numbers != listed:
        least, most = facts.sequence_numbers
        what = f"sequence numbers reach from {least} to {most}, its manifest says "
        yield FindingKind.SEQUENCE_NUMBERS, f"{what}{listed[0]} to {listed[1]}", _RESTORE


def _column_facts(facts: FileFacts) -> Iterator[_Fact]:
    for name, column in facts.columns.items():
        nulls, listed, low, high = column.null_count, column.told_nulls, column.below, column.above
        if listed not in (None, nulls):
            what = f"column {name!r} has {nulls} nulls, its manifest says {listed}"
            yield FindingKind.STATISTICS, what, _REWRITE
        if low or high:
            what = f"column {name!r} has {low} values below and {high} above the bounds that its "
            yield FindingKind.STATISTICS, f"{what}manifest tells", _REWRITE


def _key_text(key: Any) -> str:
    parts = (one.decode(errors="replace") if isinstance(one, bytes) else str(one) for one in key)
    return f"({', '.join(parts)})"


def measure(table: FileStoreTable, entry: ManifestEntry, *, keys_repeat: bool) -> FileFacts:
    """Read a file whole and measure its content; memory is that of two batches.

    Args:
        table: with the schema that the file was written with.
        keys_repeat: whether a key may occur more than once in the file: in changelog files.

    Raises:
        CorruptFileError: the file cannot be read.
        UnsupportedTableError: stream_app does not read its format.
    """
    measured = _Measured(table, entry, keys_repeat)
    for batch in table.bucket_files(entry.partition, entry.bucket).read(entry.file):
        measured.add(batch)
    return measured.facts()


@dataclass(slots=True)
class _ColumnCounts:
    """Counts of a column; a bound is None where the manifest has none."""

    field: DataField
    stats: ColumnStats
    low: pa.Scalar | None
    high: pa.Scalar | None
    nulls: int = 0
    below: int = 0
    above: int = 0

    @classmethod
    def of(cls, column: DataField, stats: ColumnStats) -> _ColumnCounts:
        # NaN is outside of the bounds that Parquet keeps.
        known = column.data_type.root not in FLOAT_ROOTS
        try:
            low, high = (
                None if value is None or not known else arrow_scalar(value, column.data_type)
                for value in (stats.minimum, stats.maximum)
            )
        except (pa.ArrowInvalid, OverflowError):  # the time is outside of Arrow's range
            low = high = None
        return cls(column, stats, low, high)

    def add(self, values: pa.Array) -> None:
        self.nulls += values.null_count
        if self.low is not None:
            self.below += pc.sum(pc.less(values, self.low)).as_py() or 0
        if self.high is not None:
            self.above += pc.sum(pc.greater(values, self.high)).as_py() or 0

    def facts(self) -> ColumnFacts:
        return ColumnFacts(
            null_count=self.nulls,
            below=self.below,
            above=self.above,
            told_nulls=self.stats.null_count,
        )


@dataclass(slots=True)
class _Measured:
    """Counts of a file, which grow as it is read."""

    table: FileStoreTable
    entry: ManifestEntry
    keys_repeat: bool
    rows: int = 0
    deletes: int = 0
    unordered: int = 0
    stray_bucket: int = 0
    stray_partition: int = 0
    keys: list[bytes] = field(default_factory=list)
    sequence: tuple[int, int] | None = None
    last_row: pa.RecordBatch | None = None
    columns: list[_ColumnCounts] = field(default_factory=list)
    hashes_alike: bool = True

    def __post_init__(self) -> None:
        schema = self.table.schema
        schema_of = self.table.known_schemas()
        known = FileStats(schema.fields, schema_of).all(self.entry.file)
        self.hashes_alike = hashes_as_today(schema, schema_of)(self.entry.file.schema_id)
        self.columns = [
            _ColumnCounts.of(column, known.get(column.name, UNKNOWN_STATS))
            for column in schema.fields
        ]

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        if self.table.kind.merges_by_key:
            self._add_keys(batch)
        for column in self.columns:
            column.add(batch.column(column.field.name))
        self.stray_bucket += self._stray_buckets(batch)
        self.stray_partition += self._stray_partitions(batch)

    def _add_keys(self, batch: pa.RecordBatch) -> None:
        schema, layout = self.table.schema, self.table.layout()
        self.deletes += int(np.count_nonzero(is_retract(batch)))
        bounds = pc.min_max(batch.column(SEQUENCE_NUMBER)).as_py()
        low, high = bounds["min"], bounds["max"]
        if self.sequence is not None:
            low, high = min(low, self.sequence[0]), max(high, self.sequence[1])
        self.sequence = (low, high)
        joined = batch if self.last_row is None else pa.concat_batches([self.last_row, batch])
        wrong = keys_not_after(joined, layout.key_names, or_same=self.keys_repeat)
        self.unordered += int(np.count_nonzero(wrong))
        self.last_row = batch.slice(batch.num_rows - 1)
        keys = [batch.column(name) for name in layout.key_names]
        types = schema.key_type.types
        if not self.keys:
            self.keys = [serialize_arrow_row(keys, types, 0)]
        self.keys[1:] = [serialize_arrow_row(keys, types, batch.num_rows - 1)]

    def _stray_buckets(self, batch: pa.RecordBatch) -> int:
        schema, total = self.table.schema, self.entry.total_buckets
        can_tell = self.hashes_alike and schema.core_options.hashes_by_default
        if total < 1 or not schema.bucket_keys or not can_tell:
            return 0
        keys = [batch.column(name) for name in schema.bucket_keys]
        types = schema.fields.project(schema.bucket_keys).types
        return int(np.count_nonzero(bucket_of(keys, types, total) != self.entry.bucket))

    def _stray_partitions(self, batch: pa.RecordBatch) -> int:
        schema = self.table.schema
        values = deserialize_row(self.entry.partition, schema.partition_type.types)
        stray = np.zeros(batch.num_rows, np.bool_)
        for column, value in zip(schema.partition_type, values, strict=True):
            array = batch.column(column.name)
            if value is None:
                same = array.is_null()
            else:
                partition_value = arrow_scalar(value, column.data_type)
                same = pc.fill_null(pc.equal(array, partition_value), False)
            stray |= ~same.to_numpy(zero_copy_only=False)
        return int(np.count_nonzero(stray))

    def facts(self) -> FileFacts:
        file = self.entry.file
        return FileFacts(
            row_count=self.rows,
            delete_row_count=self.deletes,
            keys=self._pair(self.keys) if self.keys else None,
            told_keys=self._pair([file.min_key, file.max_key]) if self.keys else None,
            sequence_numbers=self.sequence,
            unordered_rows=self.unordered,
            stray_bucket_rows=self.stray_bucket,
            stray_partition_rows=self.stray_partition,
            columns=dict(self._column_facts()),
        )

    def _pair(self, keys: list[bytes]) -> tuple[Any, Any]:
        return self.table.key_of(keys[0]), self.table.key_of(keys[-1])

    def _column_facts(self) -> Iterator[tuple[str, ColumnFacts]]:
        for column in self.columns:
            yield column.field.name, column.facts()
