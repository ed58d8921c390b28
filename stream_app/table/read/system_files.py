"""Shows a snapshot's files, manifests, partitions, buckets and indexes as system tables.

Texts have Java's form: a partition is ``{a, 2024-01-01}``, a key ``[7]``, statistics by name
``{k=7, v=null}``. In keys and statistics a DATE is its day number. Bytes are hexadecimal digits,
for which Java prints an address.

Source: Paimon `table/system/FilesTable.java`, `FileKeyRangesTable.java`, `ManifestsTable.java`,
`PartitionsTable.java`, `BucketsTable.java`, `TableIndexesTable.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from stream_app.filestore.data.file_stats import value_stats_by_name
from stream_app.format.binary_row import deserialize_row
from stream_app.format.column_stats import UNKNOWN_STATS, ColumnStats
from stream_app.format.partition_path import partition_value_text
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import ManifestEntry, ManifestFileMeta, files_of_buckets
from stream_app.model.options.file_options import PARTITION_DEFAULT_NAME
from stream_app.model.schema.data_type import DataType
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.system_rows import ColumnGetter, SystemTable, parsed_schema
from stream_app.table.versions.file_store_scan import FileStoreScan

_FILE_COLUMNS = parsed_schema(
    "partition STRING, bucket INT NOT NULL, file_path STRING NOT NULL, "
    "file_format STRING NOT NULL, schema_id BIGINT NOT NULL, level INT NOT NULL, "
    "record_count BIGINT NOT NULL, file_size_in_bytes BIGINT NOT NULL, min_key STRING, "
    "max_key STRING, null_value_counts STRING NOT NULL, min_value_stats STRING NOT NULL, "
    "max_value_stats STRING NOT NULL, min_sequence_number BIGINT, max_sequence_number BIGINT, "
    "creation_time TIMESTAMP(3), deleteRowCount BIGINT, file_source STRING, first_row_id BIGINT",
    pa.field("write_cols", pa.list_(pa.string())),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSummary:
    """The live files of one bucket, or of all buckets of a partition.

    Attributes:
        partition: the serialized partition.
        bucket: the bucket's number; -1 for a whole partition.
        bucket_count: the number of buckets with files.
        row_count: the number of physical rows of all files, including deletes and older versions.
        update_time_ms: the creation time of the newest file by its writer's wall clock; None if
            unknown.
    """

    partition: bytes
    bucket: int
    bucket_count: int
    row_count: int
    byte_count: int
    file_count: int
    update_time_ms: int | None


def bucket_summaries(table: FileStoreTable, snapshot: Snapshot | None) -> list[FilesSummary]:
    """Return summaries by partition and bucket, in the order of the partitions' folder names."""
    files_of = files_of_buckets(FileStoreScan(table).live(snapshot))
    order = sorted(
        files_of,
        key=lambda bucket_id: (table.paths.partition_path(bucket_id.partition), bucket_id.bucket),
    )
    return [
        FilesSummary(
            partition=bucket_id.partition,
            bucket=bucket_id.bucket,
            bucket_count=1,
            row_count=sum(file.row_count for file in files_of[bucket_id]),
            byte_count=sum(file.file_size for file in files_of[bucket_id]),
            file_count=len(files_of[bucket_id]),
            update_time_ms=_newest_time(file.creation_time_ms for file in files_of[bucket_id]),
        )
        for bucket_id in order
    ]


def summaries_by_partition(table: FileStoreTable, snapshot: Snapshot | None) -> list[FilesSummary]:
    """Return summaries by partition, in the order of their folder names."""
    summaries = bucket_summaries(table, snapshot)
    return [
        _partition_summary(list(partition_summaries))
        for _, partition_summaries in groupby(summaries, key=attrgetter("partition"))
    ]


def _partition_summary(summaries: list[FilesSummary]) -> FilesSummary:
    return FilesSummary(
        partition=summaries[0].partition,
        bucket=-1,
        bucket_count=len(summaries),
        row_count=sum(summary.row_count for summary in summaries),
        byte_count=sum(summary.byte_count for summary in summaries),
        file_count=sum(summary.file_count for summary in summaries),
        update_time_ms=_newest_time(summary.update_time_ms for summary in summaries),
    )


def _newest_time(times: Iterable[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _live_files(table: FileStoreTable, snapshot: Snapshot | None) -> list[ManifestEntry]:
    return FileStoreScan(table).live(snapshot)


def _file_getters(table: FileStoreTable) -> dict[str, ColumnGetter]:
    """Return the getters of the `files` system table, by column."""
    formatter = _BinaryValueFormatter(table)
    # Three columns show a file's statistics, which are decoded only once.
    stats = lru_cache(maxsize=1)(lambda entry: formatter.stats(entry.file))
    return {
        **_partition_getters(table),
        "file_path": formatter.path,
        "file_format": lambda entry: entry.file.file_name.rpartition(".")[2],
        "schema_id": "file.schema_id",
        "level": "file.level",
        "record_count": "file.row_count",
        "file_size_in_bytes": "file.file_size",
        "min_key": lambda entry: formatter.key(entry.file, entry.file.min_key),
        "max_key": lambda entry: formatter.key(entry.file, entry.file.max_key),
        "null_value_counts": lambda entry: stats(entry)[0],
        "min_value_stats": lambda entry: stats(entry)[1],
        "max_value_stats": lambda entry: stats(entry)[2],
        "min_sequence_number": "file.min_sequence_number",
        "max_sequence_number": "file.max_sequence_number",
        "creation_time": "file.creation_time_ms",
        "deleteRowCount": "file.delete_row_count",
        "file_source": lambda entry: (
            None if entry.file.file_source is None else entry.file.file_source.name
        ),
        "first_row_id": "file.first_row_id",
        "write_cols": "file.write_cols",
    }


FILES = SystemTable(schema=_FILE_COLUMNS, read_rows=_live_files, make_getters=_file_getters)
FILE_KEY_RANGES = SystemTable(
    schema=pa.schema([*list(_FILE_COLUMNS)[:10], _FILE_COLUMNS.field("first_row_id")]),
    read_rows=_live_files,
    make_getters=_file_getters,
)


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """A manifest, and the part of the snapshot whose list names it: base, delta or changelog."""

    list_kind: str
    meta: ManifestFileMeta


def _manifests(table: FileStoreTable, snapshot: Snapshot | None) -> Iterator[ListedManifest]:
    if snapshot is None:
        return
    lists = {
        "base": snapshot.base_manifest_list,
        "delta": snapshot.delta_manifest_list,
        "changelog": snapshot.changelog_manifest_list,
    }
    for list_name, name in lists.items():
        for meta in table.manifests.read_list(name) if name else ():
            yield ListedManifest(list_name, meta)


def _manifest_getters(table: FileStoreTable) -> dict[str, ColumnGetter]:
    formatter = _BinaryValueFormatter(table)
    return {
        **{name: f"meta.{name}" for name in MANIFESTS.schema.names},
        "min_partition_stats": lambda file: formatter.partition(
            file.meta.partition_stats.min_values
        ),
        "max_partition_stats": lambda file: formatter.partition(
            file.meta.partition_stats.max_values
        ),
    }


MANIFESTS = SystemTable(
    schema=parsed_schema(
        "file_name STRING NOT NULL, file_size BIGINT NOT NULL, num_added_files BIGINT NOT NULL, "
        "num_deleted_files BIGINT NOT NULL, schema_id BIGINT NOT NULL, min_partition_stats STRING, "
        "max_partition_stats STRING, min_row_id BIGINT, max_row_id BIGINT"
    ),
    read_rows=_manifests,
    make_getters=_manifest_getters,
)


def _partition_getters(table: FileStoreTable) -> dict[str, ColumnGetter]:
    """Return the getters of a row's partition: its text in Java's form, and its folder."""
    formatter = _BinaryValueFormatter(table)
    return {
        "partition": lambda row: formatter.partition(row.partition),
        "partition_path": lambda row: table.paths.partition_path(row.partition),
    }


_SUMMARY_GETTERS: dict[str, ColumnGetter] = {
    "record_count": "row_count",
    "file_size_in_bytes": "byte_count",
    "file_count": "file_count",
    "last_update_time": "update_time_ms",
}
# Only catalogs know a partition's other columns.
_CATALOG_GETTERS = dict.fromkeys(
    ("created_at", "created_by", "updated_by", "options"), lambda _: None
)
PARTITIONS = SystemTable(
    schema=parsed_schema(
        "partition STRING, record_count BIGINT NOT NULL, file_size_in_bytes BIGINT NOT NULL, "
        "file_count BIGINT NOT NULL, last_update_time TIMESTAMP(3), created_at TIMESTAMP(3), "
        "created_by STRING, updated_by STRING, options STRING"
    ),
    read_rows=summaries_by_partition,
    make_getters=lambda table: {
        **_partition_getters(table),
        "partition": lambda row: _BinaryValueFormatter(table).spec(row.partition),
        **_SUMMARY_GETTERS,
        **_CATALOG_GETTERS,
    },
)
BUCKETS = SystemTable(
    schema=parsed_schema(
        "partition STRING, bucket INT NOT NULL, record_count BIGINT NOT NULL, "
        "file_size_in_bytes BIGINT NOT NULL, file_count BIGINT NOT NULL, "
        "last_update_time TIMESTAMP(3)"
    ),
    read_rows=bucket_summaries,
    make_getters=lambda table: {**_partition_getters(table), **_SUMMARY_GETTERS},
)

_VECTOR = pa.struct(
    [
        pa.field("f0", pa.string(), nullable=False),
        pa.field("f1", pa.int32(), nullable=False),
        pa.field("f2", pa.int32(), nullable=False),
        pa.field("_CARDINALITY", pa.int64()),
    ]
)


def _index_files(table: FileStoreTable, snapshot: Snapshot | None) -> list[IndexManifestEntry]:
    name = None if snapshot is None else snapshot.index_manifest
    return table.manifests.read_index_manifest(name)


def _vectors(entry: IndexManifestEntry) -> list[tuple[object, ...]] | None:
    vectors = entry.index_file.deletion_vectors
    if vectors is None:
        return None
    return [
        (vector.data_file_name, vector.offset, vector.length, vector.cardinality)
        for vector in vectors
    ]


TABLE_INDEXES = SystemTable(
    schema=parsed_schema(
        "partition STRING, bucket INT NOT NULL, index_type STRING NOT NULL, "
        "file_name STRING NOT NULL, file_size BIGINT NOT NULL, row_count BIGINT NOT NULL",
        pa.field("dv_ranges", pa.list_(_VECTOR)),
    ),
    read_rows=_index_files,
    make_getters=lambda table: {
        **_partition_getters(table),
        "index_type": "index_file.index_type",
        "file_name": "index_file.file_name",
        "file_size": "index_file.file_size",
        "row_count": "index_file.row_count",
        "dv_ranges": _vectors,
    },
)


class _BinaryValueFormatter:
    """A formatter of the binary values of a table's metadata as text."""

    def __init__(self, table: FileStoreTable) -> None:
        self.table = table
        self._schema_of = table.known_schemas()
        self._columns = sorted(table.schema.fields, key=lambda column: column.name)

    def partition(self, partition: bytes) -> str:
        """Return a partition as Paimon shows it: ``{a, 2024-01-01}``."""
        return "{" + ", ".join(self._partition_texts(partition, "null")) + "}"

    def spec(self, partition: bytes) -> str:
        """Return the partition's folder name without escapes: ``dt=2024-01-01/hour=3``."""
        default = self.table.options[PARTITION_DEFAULT_NAME]
        names = self.table.schema.partition_keys
        texts = self._partition_texts(partition, default)
        return "/".join(f"{name}={text}" for name, text in zip(names, texts, strict=True))

    def _partition_texts(self, partition: bytes, null: str) -> list[str]:
        types = [data_type.as_nullable() for data_type in self.table.schema.partition_type.types]
        values = deserialize_row(partition, types)
        return [
            null
            if value is None
            else partition_value_text(value, data_type, uses_legacy_names=False)
            for value, data_type in zip(values, types, strict=True)
        ]

    def path(self, entry: ManifestEntry) -> str:
        """Return the path of a data file."""
        if entry.file.external_path is not None:
            return entry.file.external_path
        return self.table.paths.data_file(entry.partition, entry.bucket, entry.file)

    def key(self, file: DataFileMeta, key: bytes) -> str | None:
        """Return a key as Paimon shows it: ``[7]``; None without a primary key."""
        types = self._schema_of(file.schema_id).key_type.types
        if not types:
            return None
        values = zip(deserialize_row(key, types), types, strict=True)
        return f"[{', '.join(_object_text(value, data_type) for value, data_type in values)}]"

    def stats(self, file: DataFileMeta) -> tuple[str, str, str]:
        """Return null counts, minima and maxima of the current schema's columns, as texts."""
        schema = self._schema_of(file.schema_id)
        stats_by_name = value_stats_by_name(file, schema)
        columns_by_id = {column.field_id: column for column in schema.fields}
        null_counts, minima, maxima = [], [], []
        for column in self._columns:
            file_column = columns_by_id.get(column.field_id)
            if file_column is None:
                stats = ColumnStats(None, None, file.row_count)
            else:
                stats = stats_by_name.get(file_column.name, UNKNOWN_STATS)
            data_type = (file_column or column).data_type
            null_count = "null" if stats.null_count is None else stats.null_count
            null_counts.append(f"{column.name}={null_count}")
            minima.append(f"{column.name}={_object_text(stats.minimum, data_type)}")
            maxima.append(f"{column.name}={_object_text(stats.maximum, data_type)}")
        return _in_braces(null_counts), _in_braces(minima), _in_braces(maxima)


def _object_text(value: object, data_type: DataType) -> str:
    return (
        "null" if value is None else partition_value_text(value, data_type, uses_legacy_names=True)
    )


def _in_braces(parts: Iterable[str]) -> str:
    return "{" + ", ".join(parts) + "}"
