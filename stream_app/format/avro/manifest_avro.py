"""Manifests and manifest lists as Avro.

Names, order and types of the fields are Paimon's. Its Java readers look fields up by name, take
branch 0 of a union for null, and refuse any `_VERSION` but 2.

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
from stream_app.format.avro.avro_schema import (
    AvroField,
    check_known,
    manifest_schema,
    optional,
    read_metadata,
    required,
    unknown_fields,
)
from stream_app.format.binary_row import deserialize_row, key_order, serialize_row
from stream_app.model.data_file_meta import DataFileMeta, FileSource, SimpleStats
from stream_app.model.manifest_entry import FileKind, ManifestEntry, ManifestFileMeta
from stream_app.model.schema.data_type import BINARY_ROOTS, DataType

_VERSION = 2
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


def _stats(parent: str, name: str) -> AvroField:
    fields = [
        required("_MIN_VALUES", "bytes"),
        required("_MAX_VALUES", "bytes"),
        optional("_NULL_COUNTS", {"type": "array", "items": ["null", "long"]}),
    ]
    return required(name, {"type": "record", "name": f"{parent}_{name}", "fields": fields})


_STRINGS = {"type": "array", "items": "string"}
_TIMESTAMP_MILLIS = {"type": "long", "logicalType": "timestamp-millis"}

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

_LIST_NAMES = {
    name: name[1:].lower()
    for name in (str(field["name"]) for field in _LIST_FIELDS)
    if name not in ("_VERSION", "_PARTITION_STATS")
}
"""By its field, a value's name in `ManifestFileMeta`."""

MANIFEST_LIST_SCHEMA = manifest_schema(_LIST_FIELDS)
"""Avro schema of a manifest list."""

_KNOWN = frozenset({"_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_FILE"})
_KNOWN_OF_FILE = frozenset(str(field["name"]) for field in _FILE_FIELDS)
# PyPaimon 2.1 notes by how many buckets a manifest's files were placed; absent means unknown.
_KNOWN_OF_LIST = frozenset({"_TOTAL_BUCKETS", *(str(field["name"]) for field in _LIST_FIELDS)})

_PARSED_MANIFEST = fastavro.parse_schema(MANIFEST_SCHEMA)
_PARSED_MANIFEST_LIST = fastavro.parse_schema(MANIFEST_LIST_SCHEMA)


def encode_manifest(entries: Sequence[ManifestEntry], *, codec: str) -> bytes:
    """The bytes of a manifest; `codec` as in ``manifest.compression``.

    Raises:
        UnsupportedTableError: the entry of a file has a field that we do not know.
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
            "_FILE": _file_record(entry.file),
        }
        for entry in entries
    ]
    return write_records(_PARSED_MANIFEST, records, codec=codec)


def _file_record(file: DataFileMeta) -> dict[str, Any]:
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_record(file.key_stats),
        "_VALUE_STATS": _stats_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        # A plain number: fastavro would shift a datetime without zone by the local zone.
        "_CREATION_TIME": file.creation_time_ms,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_index,
        "_FILE_SOURCE": None if file.file_source is None else int(file.file_source),
        "_VALUE_STATS_COLS": _optional_list(file.value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": _optional_list(file.write_cols),
    }


def _stats_record(stats: SimpleStats) -> dict[str, Any]:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


def _optional_list(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def decode_manifest(data: bytes) -> list[ManifestEntry]:
    """The entries of a manifest; of fields that we do not know they have the names.

    Raises:
        CorruptFileError: no such file, or records of another kind or version.
    """
    return [_entry(record) for record in _records(data)]


def _records(data: bytes) -> list[dict[str, Any]]:
    records = read_metadata(data)
    for record in records:
        if record.get("_VERSION") != _VERSION:
            raise _unexpected(f"_VERSION is {record.get('_VERSION')!r} instead of {_VERSION}")
    return records


def _unexpected(what: str) -> CorruptFileError:
    return CorruptFileError(
        f"not a manifest or manifest list that stream_app can read: {what}",
        fix="read the table with the Paimon version that wrote it",
    )


def _entry(record: dict[str, Any]) -> ManifestEntry:
    try:
        return ManifestEntry(
            kind=FileKind(record["_KIND"]),
            partition=record["_PARTITION"],
            bucket=record["_BUCKET"],
            total_buckets=record["_TOTAL_BUCKETS"],
            file=_file(record["_FILE"], unknown_fields(record, _KNOWN)),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _unexpected(f"{type(error).__name__}: {error}") from error


def _file(record: dict[str, Any], unknown: tuple[str, ...]) -> DataFileMeta:
    source = record.get("_FILE_SOURCE")
    return DataFileMeta(
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        min_key=record["_MIN_KEY"],
        max_key=record["_MAX_KEY"],
        key_stats=_simple_stats(record["_KEY_STATS"]),
        value_stats=_simple_stats(record["_VALUE_STATS"]),
        min_sequence_number=record["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=record["_MAX_SEQUENCE_NUMBER"],
        schema_id=record["_SCHEMA_ID"],
        level=record["_LEVEL"],
        extra_files=tuple(record.get("_EXTRA_FILES") or ()),
        creation_time_ms=_millis(record.get("_CREATION_TIME")),
        delete_row_count=record.get("_DELETE_ROW_COUNT"),
        embedded_index=record.get("_EMBEDDED_FILE_INDEX"),
        file_source=None if source is None else FileSource(source),
        value_stats_cols=_optional_tuple(record.get("_VALUE_STATS_COLS")),
        external_path=record.get("_EXTERNAL_PATH"),
        first_row_id=record.get("_FIRST_ROW_ID"),
        write_cols=_optional_tuple(record.get("_WRITE_COLS")),
        unknown_fields=unknown + unknown_fields(record, _KNOWN_OF_FILE),
    )


def _simple_stats(record: dict[str, Any]) -> SimpleStats:
    return SimpleStats(
        min_values=record["_MIN_VALUES"],
        max_values=record["_MAX_VALUES"],
        null_counts=tuple(record.get("_NULL_COUNTS") or ()),
    )


def _millis(value: datetime.datetime | int | None) -> int | None:
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    return value


def _optional_tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def encode_manifest_list(metas: Sequence[ManifestFileMeta], *, codec: str) -> bytes:
    """The bytes of a manifest list; also an empty list is a file of its own.

    Raises:
        UnsupportedTableError: the entry of a manifest has a field that we do not know.
    """
    for meta in metas:
        check_known(meta.unknown_fields, meta.file_name)
    records = [
        {
            "_VERSION": _VERSION,
            "_PARTITION_STATS": _stats_record(meta.partition_stats),
            **{field: getattr(meta, name) for field, name in _LIST_NAMES.items()},
        }
        for meta in metas
    ]
    return write_records(_PARSED_MANIFEST_LIST, records, codec=codec)


def decode_manifest_list(data: bytes) -> list[ManifestFileMeta]:
    """The manifests that a list names; of fields that we do not know they have the names.

    Raises:
        CorruptFileError: no such file, or records of another kind or version.
    """
    return [_manifest_file_meta(record) for record in _records(data)]


def _manifest_file_meta(record: dict[str, Any]) -> ManifestFileMeta:
    try:
        values = {name: record[field] for field, name in _LIST_NAMES.items() if field in record}
        return ManifestFileMeta(
            **values,
            partition_stats=_simple_stats(record["_PARTITION_STATS"]),
            unknown_fields=unknown_fields(record, _KNOWN_OF_LIST),
        )
    except (KeyError, TypeError) as error:
        raise _unexpected(f"{type(error).__name__}: {error}") from error


def describe_manifest(
    entries: Sequence[ManifestEntry],
    *,
    file_name: str,
    file_size: int,
    partition_types: tuple[DataType, ...],
) -> ManifestFileMeta:
    """The entry of a manifest list for a manifest with these entries.

    The counts must be exact: a reader does not search a manifest with 0 deleted files for them. A
    wrong 0 makes deleted files live again.
    """
    assert entries, "a manifest without entries must not be written"
    adds = sum(entry.kind is FileKind.ADD for entry in entries)
    buckets = [entry.bucket for entry in entries]
    levels = [entry.file.level for entry in entries]
    min_row_id, max_row_id = _row_ids([entry.file for entry in entries])
    return ManifestFileMeta(
        file_name=file_name,
        file_size=file_size,
        num_added_files=adds,
        num_deleted_files=len(entries) - adds,
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
    firsts = [file.first_row_id for file in files if file.first_row_id is not None]
    if len(firsts) < len(files):
        return None, None
    lasts = [first + file.row_count - 1 for first, file in zip(firsts, files, strict=True)]
    return min(firsts), max(lasts)


def _partition_stats(
    entries: Sequence[ManifestEntry], partition_types: tuple[DataType, ...]
) -> SimpleStats:
    """Exact least and largest value and null count of each partition column, per entry."""
    counts: dict[bytes, int] = {}
    for entry in entries:
        counts[entry.partition] = counts.get(entry.partition, 0) + 1
    rows = {partition: deserialize_row(partition, partition_types) for partition in counts}
    key_of = key_order(partition_types)
    minima: list[object] = []
    maxima: list[object] = []
    null_counts = []
    for index, data_type in enumerate(partition_types):
        present = [part for part, row in rows.items() if row[index] is not None]
        null_counts.append(len(entries) - sum(counts[part] for part in present))
        # Paimon 1.4 keeps no least and largest binary; and NaN has no place in an order.
        known = data_type.root not in BINARY_ROOTS and all(
            rows[part][index] == rows[part][index] for part in present
        )
        ordered = sorted(present, key=lambda part: (key_of(part)[index],)) if known else []
        minima.append(rows[ordered[0]][index] if ordered else None)
        maxima.append(rows[ordered[-1]][index] if ordered else None)
    types = [data_type.as_nullable() for data_type in partition_types]
    return SimpleStats(
        min_values=serialize_row(minima, types),
        max_values=serialize_row(maxima, types),
        null_counts=tuple(null_counts),
    )
