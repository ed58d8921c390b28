"""System tables of a snapshot's files: files, key ranges, manifests, partitions, buckets, indexes.

Texts are Java's: a partition is ``{a, 2024-01-01}``, a key ``[7]``, statistics ``{k=7, v=null}`` by
name. In keys and statistics a DATE is its day number; bytes are hexadecimal digits, where Java
prints an address.

Source: Paimon `table/system/FilesTable.java`, `FileKeyRangesTable.java`, `ManifestsTable.java`,
`PartitionsTable.java`, `BucketsTable.java`, `TableIndexesTable.java`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from stream_app.filestore.data.file_stats import simple_stats
from stream_app.format.binary_row import deserialize_row
from stream_app.format.column_stats import UNKNOWN_STATS, ColumnStats
from stream_app.format.partition_path import value_text
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.manifest_entry import ManifestEntry, ManifestFileMeta
from stream_app.model.options.table_options import PARTITION_DEFAULT_NAME
from stream_app.model.schema.data_type import DataType
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.system_rows import Row, columns, table_of
from stream_app.table.versions.bucket_summary import (
    FilesSummary,
    bucket_summaries,
    partition_summaries,
)
from stream_app.table.versions.file_store_scan import FileStoreScan

_FILES = columns(
    "partition STRING, bucket INT NOT NULL, file_path STRING NOT NULL, "
    "file_format STRING NOT NULL, schema_id BIGINT NOT NULL, level INT NOT NULL, "
    "record_count BIGINT NOT NULL, file_size_in_bytes BIGINT NOT NULL, min_key STRING, "
    "max_key STRING, null_value_counts STRING NOT NULL, min_value_stats STRING NOT NULL, "
    "max_value_stats STRING NOT NULL, min_sequence_number BIGINT, max_sequence_number BIGINT, "
    "creation_time TIMESTAMP(3), deleteRowCount BIGINT, file_source STRING, first_row_id BIGINT",
    pa.field("write_cols", pa.list_(pa.string())),
)
_KEY_RANGES = pa.schema([*list(_FILES)[:10], _FILES.field("first_row_id")])
_MANIFESTS = columns(
    "file_name STRING NOT NULL, file_size BIGINT NOT NULL, num_added_files BIGINT NOT NULL, "
    "num_deleted_files BIGINT NOT NULL, schema_id BIGINT NOT NULL, min_partition_stats STRING, "
    "max_partition_stats STRING, min_row_id BIGINT, max_row_id BIGINT"
)
_PARTITIONS = columns(
    "partition STRING, record_count BIGINT NOT NULL, file_size_in_bytes BIGINT NOT NULL, "
    "file_count BIGINT NOT NULL, last_update_time TIMESTAMP(3), created_at TIMESTAMP(3), "
    "created_by STRING, updated_by STRING, options STRING"
)
_BUCKETS = columns(
    "partition STRING, bucket INT NOT NULL, record_count BIGINT NOT NULL, "
    "file_size_in_bytes BIGINT NOT NULL, file_count BIGINT NOT NULL, last_update_time TIMESTAMP(3)"
)
_VECTOR = pa.struct(
    [
        pa.field("f0", pa.string(), nullable=False),
        pa.field("f1", pa.int32(), nullable=False),
        pa.field("f2", pa.int32(), nullable=False),
        pa.field("_CARDINALITY", pa.int64()),
    ]
)
_INDEXES = columns(
    "partition STRING, bucket INT NOT NULL, index_type STRING NOT NULL, "
    "file_name STRING NOT NULL, file_size BIGINT NOT NULL, row_count BIGINT NOT NULL",
    pa.field("dv_ranges", pa.list_(_VECTOR)),
)


def files(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    """The live data files."""
    shown = _Shown(table)
    return table_of(_FILES, map(shown.file, FileStoreScan(table).live(snapshot)))


def file_key_ranges(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    """As `files`, without what is costly to show."""
    return files(table, snapshot).select(_KEY_RANGES.names)


def manifests(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    """Those of data files, then those of changelog files."""
    metas: list[ManifestFileMeta] = []
    if snapshot is not None:
        metas = FileStoreScan(table).manifests(snapshot)
        if snapshot.changelog_manifest_list is not None:
            metas += table.manifests.read_list(snapshot.changelog_manifest_list)
    shown = _Shown(table)
    return table_of(
        _MANIFESTS,
        (
            (
                meta.file_name,
                meta.file_size,
                meta.num_added_files,
                meta.num_deleted_files,
                meta.schema_id,
                shown.partition(meta.partition_stats.min_values),
                shown.partition(meta.partition_stats.max_values),
                meta.min_row_id,
                meta.max_row_id,
            )
            for meta in metas
        ),
    )


def partitions(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    """By name; who made a partition is known to catalogs alone."""
    shown = _Shown(table)
    found = partition_summaries(table, snapshot).items()
    unknown = (None, None, None, None)
    return table_of(
        _PARTITIONS, ((shown.spec(one), *_sums(summary), *unknown) for one, (_, summary) in found)
    )


def buckets(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    """By partition and number."""
    shown = _Shown(table)
    found = bucket_summaries(table, snapshot).items()
    return table_of(
        _BUCKETS,
        ((shown.partition(one), bucket, *_sums(summary)) for (one, bucket), summary in found),
    )


def _sums(summary: FilesSummary) -> Row:
    return summary.rows, summary.bytes, summary.files, summary.updated_ms


def table_indexes(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    """The index files."""
    name = None if snapshot is None else snapshot.index_manifest
    shown = _Shown(table)
    return table_of(
        _INDEXES,
        (
            (
                shown.partition(entry.partition),
                entry.bucket,
                entry.index_file.index_type,
                entry.index_file.file_name,
                entry.index_file.file_size,
                entry.index_file.row_count,
                None
                if entry.index_file.deletion_vectors is None
                else [
                    (one.data_file_name, one.offset, one.length, one.cardinality)
                    for one in entry.index_file.deletion_vectors
                ],
            )
            for entry in table.manifests.read_index_manifest(name)
        ),
    )


class _Shown:
    """Makes texts of what is binary in a table's metadata."""

    def __init__(self, table: FileStoreTable) -> None:
        self.table = table
        self._schema_of = table.known_schemas()
        self._columns = sorted(table.schema.fields, key=lambda one: one.name)

    def partition(self, partition: bytes) -> str:
        """``{a, 2024-01-01}``."""
        return "{" + ", ".join(self._partition_texts(partition, "null")) + "}"

    def spec(self, partition: bytes) -> str:
        """``dt=2024-01-01/hour=3``: as a folder's name, but nothing is escaped."""
        default = self.table.options[PARTITION_DEFAULT_NAME]
        names = self.table.schema.partition_keys
        texts = self._partition_texts(partition, default)
        return "/".join(f"{name}={text}" for name, text in zip(names, texts, strict=True))

    def _partition_texts(self, partition: bytes, null: str) -> list[str]:
        types = [kind.as_nullable() for kind in self.table.schema.partition_type.types]
        values = deserialize_row(partition, types)
        return [
            null if value is None else value_text(value, kind, legacy_name=False)
            for value, kind in zip(values, types, strict=True)
        ]

    def file(self, entry: ManifestEntry) -> Row:
        """A row of `files`."""
        file = entry.file
        path = file.external_path
        if path is None:
            path = self.table.paths.data_file(entry.partition, entry.bucket, file)
        return (
            self.partition(entry.partition),
            entry.bucket,
            path,
            file.file_name.rpartition(".")[2],
            file.schema_id,
            file.level,
            file.row_count,
            file.file_size,
            self._key(file, file.min_key),
            self._key(file, file.max_key),
            *self._stats(file),
            file.min_sequence_number,
            file.max_sequence_number,
            file.creation_time_ms,
            file.delete_row_count,
            None if file.file_source is None else file.file_source.name,
            file.first_row_id,
            None if file.write_cols is None else list(file.write_cols),
        )

    def _key(self, file: DataFileMeta, key: bytes) -> str | None:
        types = self._schema_of(file.schema_id).key_type.types
        if not types:
            return None
        values = zip(deserialize_row(key, types), types, strict=True)
        return f"[{', '.join(_object_text(value, kind) for value, kind in values)}]"

    def _stats(self, file: DataFileMeta) -> tuple[str, str, str]:
        """Null counts, least and largest values, of the columns of today."""
        schema = self._schema_of(file.schema_id)
        told = file.value_stats_cols
        columns = schema.fields if told is None else schema.fields.project(told)
        found = dict(zip(columns.names, simple_stats(file.value_stats, columns), strict=True))
        then = {column.field_id: column for column in schema.fields}
        counts, lows, highs = [], [], []
        for column in self._columns:
            before = then.get(column.field_id)
            if before is None:
                stats, kind = ColumnStats(None, None, file.row_count), column.data_type
            else:
                stats, kind = found.get(before.name, UNKNOWN_STATS), before.data_type
            counts.append(
                f"{column.name}={'null' if stats.null_count is None else stats.null_count}"
            )
            lows.append(f"{column.name}={_object_text(stats.minimum, kind)}")
            highs.append(f"{column.name}={_object_text(stats.maximum, kind)}")
        return _braced(counts), _braced(lows), _braced(highs)


def _object_text(value: object, kind: DataType) -> str:
    return "null" if value is None else value_text(value, kind, legacy_name=True)


def _braced(parts: Iterable[str]) -> str:
    return "{" + ", ".join(parts) + "}"
