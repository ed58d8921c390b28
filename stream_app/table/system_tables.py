"""What a table is made of, as Arrow tables: snapshots, schemas, files and what sums them up.

Names of tables and columns are Paimon's; of its columns those are here that a reader of the data
can use. A partition is the name of its folder; a key is a struct. Times of snapshots are UTC; those
of files and tags are the writer's wall clock, as Paimon keeps it.

Source: Paimon `table/system/*.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from stream_app.format.arrow_schema import arrow_scalar, arrow_schema
from stream_app.format.binary_row import deserialize_row
from stream_app.model.manifest_entry import ManifestEntry, ManifestFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.table.bucket_summary import bucket_summaries, partition_summaries
from stream_app.table.file_store_scan import FileStoreScan
from stream_app.table.file_store_table import FileStoreTable

_TIME = pa.timestamp("ms", "UTC")
_WALL_CLOCK = pa.timestamp("ms")
_TEXTS = pa.list_(pa.string())
_OPTIONS = pa.map_(pa.string(), pa.string())
Row = tuple[object, ...]

_SNAPSHOTS = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        ("schema_id", pa.int64()),
        ("commit_user", pa.string()),
        ("commit_identifier", pa.int64()),
        ("commit_kind", pa.string()),
        ("commit_time", _TIME),
        ("base_manifest_list", pa.string()),
        ("delta_manifest_list", pa.string()),
        ("changelog_manifest_list", pa.string()),
        ("total_record_count", pa.int64()),
        ("delta_record_count", pa.int64()),
        ("changelog_record_count", pa.int64()),
        ("watermark", pa.int64()),
        ("next_row_id", pa.int64()),
    ]
)
_FIELD = pa.struct({"id": pa.int32(), "name": pa.string(), "type": pa.string()})
_SCHEMAS = pa.schema(
    [
        ("schema_id", pa.int64()),
        (
            "fields",
            pa.list_(pa.struct({"id": pa.int32(), "name": pa.string(), "type": pa.string()})),
        ),
        ("partition_keys", _TEXTS),
        ("primary_keys", _TEXTS),
        ("options", _OPTIONS),
        ("comment", pa.string()),
        ("update_time", _TIME),
    ]
)
_MANIFESTS = pa.schema(
    [
        ("file_name", pa.string()),
        ("file_size", pa.int64()),
        ("num_added_files", pa.int64()),
        ("num_deleted_files", pa.int64()),
        ("schema_id", pa.int64()),
    ]
)
_SUMMARY = [
    ("record_count", pa.int64()),
    ("file_size_in_bytes", pa.int64()),
    ("file_count", pa.int64()),
    ("last_update_time", _WALL_CLOCK),
]
_PARTITIONS = pa.schema([("partition", pa.string()), *_SUMMARY, ("bucket_count", pa.int32())])
_BUCKETS = pa.schema([("partition", pa.string()), ("bucket", pa.int32()), *_SUMMARY])
_OPTION_ROWS = pa.schema([("key", pa.string()), ("value", pa.string())])
_TAGS = pa.schema(
    [
        ("tag_name", pa.string()),
        ("snapshot_id", pa.int64()),
        ("schema_id", pa.int64()),
        ("commit_time", _TIME),
        ("record_count", pa.int64()),
        ("create_time", _WALL_CLOCK),
        ("time_retained", pa.duration("ms")),
    ]
)
_CONSUMERS = pa.schema([("consumer_id", pa.string()), ("next_snapshot_id", pa.int64())])


def _snapshots(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    found = list(table.snapshots.backwards())[::-1]
    return _table(
        _SNAPSHOTS,
        (
            (
                one.snapshot_id, one.schema_id, one.commit_user, one.commit_identifier,
                one.commit_kind.value, one.time_millis, one.base_manifest_list,
                one.delta_manifest_list, one.changelog_manifest_list, one.total_record_count,
                one.delta_record_count, one.changelog_record_count, one.watermark, one.next_row_id,
            )
            for one in found
        ),
    )  # fmt: skip


def _schemas(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    return _table(
        _SCHEMAS,
        (
            (
                schema.schema_id,
                [
                    {"id": field.field_id, "name": field.name, "type": str(field.data_type)}
                    for field in schema.fields
                ],
                list(schema.partition_keys),
                list(schema.primary_keys),
                sorted(schema.options.items()),
                schema.comment,
                schema.time_millis,
            )
            for schema in map(table.schemas.schema, table.schemas.ids())
        ),
    )


def _files(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    key = pa.struct(list(arrow_schema(table.schema.key_type))) if table.schema.key_type else None
    schema = pa.schema(
        [
            ("partition", pa.string()),
            ("bucket", pa.int32()),
            ("file_path", pa.string()),
            ("file_format", pa.string()),
            ("schema_id", pa.int64()),
            ("level", pa.int32()),
            ("record_count", pa.int64()),
            ("file_size_in_bytes", pa.int64()),
            ("min_key", key or pa.null()),
            ("max_key", key or pa.null()),
            ("min_sequence_number", pa.int64()),
            ("max_sequence_number", pa.int64()),
            ("creation_time", _WALL_CLOCK),
            ("delete_row_count", pa.int64()),
            ("file_source", pa.string()),
        ]
    )
    live = FileStoreScan(table).live(snapshot)
    return _table(schema, (_file(table, entry) for entry in live))


def _file(table: FileStoreTable, entry: ManifestEntry) -> Row:
    file = entry.file
    return (
        table.paths.partition(entry.partition),
        entry.bucket,
        table.paths.data_file(entry.partition, entry.bucket, file),
        file.file_name.rpartition(".")[2],
        file.schema_id,
        file.level,
        file.row_count,
        file.file_size,
        _key(table, file.min_key),
        _key(table, file.max_key),
        file.min_sequence_number,
        file.max_sequence_number,
        file.creation_time_ms,
        file.delete_row_count,
        None if file.file_source is None else file.file_source.name,
    )


def _key(table: FileStoreTable, key: bytes) -> dict[str, pa.Scalar] | None:
    fields = table.schema.key_type
    values = deserialize_row(key, fields.types)
    named = zip(fields, values, strict=True)
    return {field.name: arrow_scalar(value, field.data_type) for field, value in named} or None


def _manifests(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    metas: list[ManifestFileMeta] = []
    if snapshot is not None:
        metas = FileStoreScan(table).manifests(snapshot)
        if snapshot.changelog_manifest_list is not None:
            metas += table.manifests.read_list(snapshot.changelog_manifest_list)
    return _table(
        _MANIFESTS,
        (
            (
                meta.file_name,
                meta.file_size,
                meta.num_added_files,
                meta.num_deleted_files,
                meta.schema_id,
            )
            for meta in metas
        ),
    )


def _partitions(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    return _table(
        _PARTITIONS,
        (
            (partition, one.rows, one.bytes, one.files, one.updated_ms, buckets)
            for partition, (buckets, one) in partition_summaries(table, snapshot).items()
        ),
    )


def _buckets(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    return _table(
        _BUCKETS,
        (
            (*place, one.rows, one.bytes, one.files, one.updated_ms)
            for place, one in bucket_summaries(table, snapshot).items()
        ),
    )


def _options(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    return _table(_OPTION_ROWS, sorted(table.schema.options.items()))


def _tags(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    return _table(
        _TAGS,
        (
            (
                tag.name,
                tag.snapshot.snapshot_id,
                tag.snapshot.schema_id,
                tag.snapshot.time_millis,
                tag.snapshot.total_record_count,
                tag.create_time_ms,
                tag.time_retained_ms,
            )
            for tag in table.tags.tags()
        ),
    )


def _consumers(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    found = table.consumers.consumers()
    return _table(_CONSUMERS, ((one.consumer_id, one.next_snapshot) for one in found))


SYSTEM_TABLES: dict[str, Callable[[FileStoreTable, Snapshot | None], pa.Table]] = {
    "snapshots": _snapshots,
    "schemas": _schemas,
    "files": _files,
    "manifests": _manifests,
    "partitions": _partitions,
    "buckets": _buckets,
    "options": _options,
    "tags": _tags,
    "consumers": _consumers,
}
"""By name; those of files, manifests, partitions and buckets look at one snapshot."""


def _table(schema: pa.Schema, rows: Iterable[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )
