"""Encodes manifests and manifest lists as Avro.

Names, order and types of the fields are Paimon's. Its Java readers look fields up by name, assume
that branch 0 of a union is null, and refuse any `_VERSION` but 2.

Source: Paimon `manifest/ManifestEntrySerializer.java`, `manifest/ManifestFileMetaSerializer.java`,
`io/DataFileMetaSerializer.java`, `stats/SimpleStats.java`.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import fastavro

from stream_app.errors import CorruptFileError
from stream_app.format.avro.avro_container import write_records
from stream_app.format.avro.avro_records import (
    LIST,
    OPTIONAL_LIST,
    AvroField,
    RecordCodec,
    check_known,
    manifest_schema,
    optional,
    read_metadata,
    required,
    unknown_fields,
)
from stream_app.format.binary_row import deserialize_row, key_order, serialize_row
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource, SimpleStats
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry, ManifestFileMeta
from stream_app.model.schema.data_type import BINARY_ROOTS, DataType

_VERSION = 2
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


_STATS_FIELDS = [
    required("_MIN_VALUES", "bytes"),
    required("_MAX_VALUES", "bytes"),
    optional("_NULL_COUNTS", {"type": "array", "items": ["null", "long"]}),
]
_STATS = RecordCodec(_STATS_FIELDS, codecs={"_NULL_COUNTS": LIST})
_STATS_CODEC = (_STATS.record, lambda record: SimpleStats(**_STATS.values(record)))
_STRINGS = {"type": "array", "items": "string"}
_TIMESTAMP_MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


def _stats(parent: str, name: str) -> AvroField:
    return required(name, {"type": "record", "name": f"{parent}_{name}", "fields": _STATS_FIELDS})


_FILE_FIELDS = [
    required("_FILE_NAME", "string"),
    required("_FILE_SIZE", "long"),
    required("_ROW_COUNT", "long"),
    required("_MIN_KEY", "bytes"),
    required("_MAX_KEY", "bytes"),
    _stats("record__FILE", "_KEY_STATS"),
    _stats("record__FILE", "_VALUE_STATS"),
    required("_MIN_SEQUENCE_NUMBER", "long"),
    required("_MAX_SEQUENCE_NUMBER", "long"),
    required("_SCHEMA_ID", "long"),
    required("_LEVEL", "int"),
    required("_EXTRA_FILES", _STRINGS),
    optional("_CREATION_TIME", _TIMESTAMP_MILLIS),
    optional("_DELETE_ROW_COUNT", "long"),
    optional("_EMBEDDED_FILE_INDEX", "bytes"),
    optional("_FILE_SOURCE", "int"),
    optional("_VALUE_STATS_COLS", _STRINGS),
    optional("_EXTERNAL_PATH", "string"),
    optional("_FIRST_ROW_ID", "long"),
    optional("_WRITE_COLS", _STRINGS),
]


def _time_ms(value: datetime.datetime | int | None) -> int | None:
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    return value


_FILE = RecordCodec(
    _FILE_FIELDS,
    names={"_CREATION_TIME": "creation_time_ms", "_EMBEDDED_FILE_INDEX": "embedded_index"},
    codecs={
        "_KEY_STATS": _STATS_CODEC,
        "_VALUE_STATS": _STATS_CODEC,
        "_EXTRA_FILES": LIST,
        # Use a plain number, because fastavro would shift a datetime without zone by the local
        # zone.
        "_CREATION_TIME": (lambda time_ms: time_ms, _time_ms),
        "_FILE_SOURCE": (
            lambda source: None if source is None else int(source),
            lambda code: None if code is None else FileSource(code),
        ),
        "_VALUE_STATS_COLS": OPTIONAL_LIST,
        "_WRITE_COLS": OPTIONAL_LIST,
    },
)

MANIFEST_SCHEMA = manifest_schema(
    [
        required("_VERSION", "int"),
        required("_KIND", "int"),
        required("_PARTITION", "bytes"),
        required("_BUCKET", "int"),
        required("_TOTAL_BUCKETS", "int"),
        required("_FILE", {"type": "record", "name": "record__FILE", "fields": _FILE_FIELDS}),
    ]
)
"""Avro schema of a manifest."""

_LIST_FIELDS = [
    required("_VERSION", "int"),
    required("_FILE_NAME", "string"),
    required("_FILE_SIZE", "long"),
    required("_NUM_ADDED_FILES", "long"),
    required("_NUM_DELETED_FILES", "long"),
    _stats("record", "_PARTITION_STATS"),
    required("_SCHEMA_ID", "long"),
    optional("_MIN_BUCKET", "int"),
    optional("_MAX_BUCKET", "int"),
    optional("_MIN_LEVEL", "int"),
    optional("_MAX_LEVEL", "int"),
    optional("_MIN_ROW_ID", "long"),
    optional("_MAX_ROW_ID", "long"),
]

_LIST = RecordCodec(_LIST_FIELDS[1:], codecs={"_PARTITION_STATS": _STATS_CODEC})

MANIFEST_LIST_SCHEMA = manifest_schema(_LIST_FIELDS)
"""Avro schema of a manifest list."""

_KNOWN = frozenset({"_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_FILE"})
# PyPaimon 2.1 records the number of buckets of a manifest's files; absent means unknown.
_KNOWN_OF_LIST = _LIST.field_names | {"_VERSION", "_TOTAL_BUCKETS"}

_PARSED_MANIFEST = fastavro.parse_schema(MANIFEST_SCHEMA)
_PARSED_MANIFEST_LIST = fastavro.parse_schema(MANIFEST_LIST_SCHEMA)


def encode_manifest(entries: Sequence[ManifestEntry], *, codec: str) -> bytes:
    """Encode a manifest; `codec` as in ``manifest.compression``.

    Raises:
        UnsupportedTableError: the entry of a file has an unknown field.
    """
    for entry in entries:
        check_known(entry.file.unknown_fields, entry.file.file_name)
    records = [
        {
            "_VERSION": _VERSION,
            "_KIND": int(entry.kind),
            "_PARTITION": entry.partition,
            "_BUCKET": entry.bucket,
            "_TOTAL_BUCKETS": entry.total_buckets,
            "_FILE": _FILE.record(entry.file),
        }
        for entry in entries
    ]
    return write_records(_PARSED_MANIFEST, records, codec=codec)


def decode_manifest(data: bytes) -> list[ManifestEntry]:
    """Decode the entries of a manifest, which keep the names of unknown fields.

    Raises:
        CorruptFileError: the bytes are not a manifest, or its records have another kind or version.
    """
    return [_entry(record) for record in _records(data)]


def _records(data: bytes) -> list[dict[str, Any]]:
    records = read_metadata(data)
    for record in records:
        if record.get("_VERSION") != _VERSION:
            raise _unreadable_manifest(
                f"_VERSION is {record.get('_VERSION')!r} instead of {_VERSION}"
            )
    return records


def _unreadable_manifest(problem: str) -> CorruptFileError:
    return CorruptFileError(
        f"not a manifest or manifest list that stream_app can read: {problem}",
        fix="read the table with the Paimon version that wrote it",
    )


def _entry(record: dict[str, Any]) -> ManifestEntry:
    try:
        return ManifestEntry(
            kind=FileKind(record["_KIND"]),
            partition=record["_PARTITION"],
            bucket=record["_BUCKET"],
            total_buckets=record["_TOTAL_BUCKETS"],
            file=DataFileMeta(
                **_FILE.values(record["_FILE"]),
                unknown_fields=unknown_fields(record, _KNOWN)
                + unknown_fields(record["_FILE"], _FILE.field_names),
            ),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _unreadable_manifest(f"{type(error).__name__}: {error}") from error


def encode_manifest_list(metas: Sequence[ManifestFileMeta], *, codec: str) -> bytes:
    """Encode a manifest list, which may be empty.

    Raises:
        UnsupportedTableError: the entry of a manifest has an unknown field.
    """
    for meta in metas:
        check_known(meta.unknown_fields, meta.file_name)
    records = [{"_VERSION": _VERSION, **_LIST.record(meta)} for meta in metas]
    return write_records(_PARSED_MANIFEST_LIST, records, codec=codec)


def decode_manifest_list(data: bytes) -> list[ManifestFileMeta]:
    """Decode the manifests of a list, which keep the names of unknown fields.

    Raises:
        CorruptFileError: the bytes are not a manifest list, or its records have another version.
    """
    return [_manifest_file_meta(record) for record in _records(data)]


def _manifest_file_meta(record: dict[str, Any]) -> ManifestFileMeta:
    try:
        return ManifestFileMeta(
            **_LIST.values(record), unknown_fields=unknown_fields(record, _KNOWN_OF_LIST)
        )
    except (KeyError, TypeError) as error:
        raise _unreadable_manifest(f"{type(error).__name__}: {error}") from error


def describe_manifest(
    entries: Sequence[ManifestEntry],
    *,
    file_name: str,
    file_size: int,
    partition_types: tuple[DataType, ...],
) -> ManifestFileMeta:
    """Return the manifest list's entry for a manifest with these entries.

    The counts must be exact: a reader does not look for deletions in a manifest with 0 deleted
    files. A wrong 0 would restore deleted files.
    """
    assert entries, "a manifest without entries must not be written"
    added_count = sum(entry.kind is FileKind.ADD for entry in entries)
    buckets = [entry.bucket for entry in entries]
    levels = [entry.file.level for entry in entries]
    min_row_id, max_row_id = _row_ids([entry.file for entry in entries])
    return ManifestFileMeta(
        file_name=file_name,
        file_size=file_size,
        num_added_files=added_count,
        num_deleted_files=len(entries) - added_count,
        partition_stats=_partition_stats(entries, partition_types),
        schema_id=max(entry.file.schema_id for entry in entries),
        min_bucket=min(buckets),
        max_bucket=max(buckets),
        min_level=min(levels),
        max_level=max(levels),
        min_row_id=min_row_id,
        max_row_id=max_row_id,
    )


def _row_ids(files: Sequence[DataFileMeta]) -> tuple[int | None, int | None]:
    first_ids = [file.first_row_id for file in files if file.first_row_id is not None]
    if len(first_ids) < len(files):
        return None, None
    last_ids = [
        first_id + file.row_count - 1 for first_id, file in zip(first_ids, files, strict=True)
    ]
    return min(first_ids), max(last_ids)


def _partition_stats(
    entries: Sequence[ManifestEntry], partition_types: tuple[DataType, ...]
) -> SimpleStats:
    """Return the exact minimum, maximum and null count of each partition column."""
    counts: dict[bytes, int] = {}
    for entry in entries:
        counts[entry.partition] = counts.get(entry.partition, 0) + 1
    rows = {partition: deserialize_row(partition, partition_types) for partition in counts}
    key_of = key_order(partition_types)
    minima: list[object] = []
    maxima: list[object] = []
    null_counts = []
    for index, data_type in enumerate(partition_types):
        present_partitions = [
            partition for partition, row in rows.items() if row[index] is not None
        ]
        null_counts.append(
            len(entries) - sum(counts[partition] for partition in present_partitions)
        )
        # Paimon 1.4 records no bounds of binary columns, and NaN has no order.
        has_bounds = data_type.root not in BINARY_ROOTS and all(
            rows[partition][index] == rows[partition][index] for partition in present_partitions
        )
        if not has_bounds:
            present_partitions = []
        present_partitions.sort(key=lambda partition: (key_of(partition)[index],))
        minima.append(rows[present_partitions[0]][index] if present_partitions else None)
        maxima.append(rows[present_partitions[-1]][index] if present_partitions else None)
    types = [data_type.as_nullable() for data_type in partition_types]
    return SimpleStats(
        min_values=serialize_row(minima, types),
        max_values=serialize_row(maxima, types),
        null_counts=tuple(null_counts),
    )
