"""Encodes Iceberg's manifests and manifest lists as Avro.

Names, ids and types of the fields are Iceberg's. Readers look fields up by their ids. Paimon's own
metadata for Iceberg has the same names, so its manifests can be read too.

Source: Iceberg's table specification, "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import fastavro
import orjson

from stream_app.errors import CorruptFileError
from stream_app.format.avro.avro_container import read_records, write_records
from stream_app.format.iceberg.single_values import (
    avro_name,
    avro_value,
    partition_record,
    row_value,
    single_value,
)
from stream_app.model.iceberg_metadata import (
    EntryStatus,
    IcebergEntry,
    IcebergFile,
    IcebergManifest,
    ManifestContent,
    PartitionSummary,
    VectorPlace,
)
from stream_app.model.schema.data_type import DataType, RowType

_T = TypeVar("_T")
_PUFFIN, _PARQUET = "puffin", "parquet"
_POSITION_DELETES_CONTENT = 1
_STATUS_NAMES = {
    EntryStatus.ADDED: "added",
    EntryStatus.EXISTING: "existing",
    EntryStatus.DELETED: "deleted",
}


def _required_field(field_id: int, name: str, avro_type: object) -> dict[str, object]:
    return {"name": name, "type": avro_type, "field-id": field_id}


def _optional_field(field_id: int, name: str, avro_type: object) -> dict[str, object]:
    union = ["null", avro_type]
    return {"name": name, "type": union, "default": None, "field-id": field_id}


def _field_id_map(name: str, field_id: int, key_id: int, value_type: str) -> dict[str, object]:
    """Return the Avro type of a map from field ids, which Iceberg writes as pairs."""
    record = {
        "type": "record",
        "name": f"k{key_id}_v{key_id + 1}",
        "fields": [
            _required_field(key_id, "key", "int"),
            _required_field(key_id + 1, "value", value_type),
        ],
    }
    return _optional_field(field_id, name, {"type": "array", "items": record, "logicalType": "map"})


_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _required_field(509, "contains_null", "boolean"),
        _optional_field(518, "contains_nan", "boolean"),
        _optional_field(510, "lower_bound", "bytes"),
        _optional_field(511, "upper_bound", "bytes"),
    ],
}

_LIST_FIELDS = [
    _required_field(500, "manifest_path", "string"),
    _required_field(501, "manifest_length", "long"),
    _required_field(502, "partition_spec_id", "int"),
    _required_field(517, "content", "int"),
    _required_field(515, "sequence_number", "long"),
    _required_field(516, "min_sequence_number", "long"),
    _required_field(503, "added_snapshot_id", "long"),
    _required_field(504, "added_files_count", "int"),
    _required_field(505, "existing_files_count", "int"),
    _required_field(506, "deleted_files_count", "int"),
    _required_field(512, "added_rows_count", "long"),
    _required_field(513, "existing_rows_count", "long"),
    _required_field(514, "deleted_rows_count", "long"),
    _optional_field(507, "partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}),
    _optional_field(520, "first_row_id", "long"),
]
_LIST = fastavro.parse_schema({"type": "record", "name": "manifest_file", "fields": _LIST_FIELDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestKind:
    """The properties that all manifests of a table share.

    Attributes:
        schema: the current schema as Iceberg's JSON.
        partition_fields: the partition spec's fields as Iceberg's JSON.
    """

    format_version: int
    schema: Mapping[str, Any]
    partition_type: RowType
    partition_fields: Sequence[Mapping[str, Any]]


def encode_iceberg_manifest(
    entries: Iterable[IcebergEntry],
    content: ManifestContent,
    manifest_kind: ManifestKind,
    codec: str,
) -> bytes:
    """Encode a manifest."""
    properties = {
        "schema": orjson.dumps(manifest_kind.schema).decode(),
        "schema-id": str(manifest_kind.schema["schema-id"]),
        "partition-spec": orjson.dumps(manifest_kind.partition_fields).decode(),
        "partition-spec-id": "0",
        "format-version": str(manifest_kind.format_version),
        "content": content.name.lower(),
    }
    schema = fastavro.parse_schema(_manifest_schema(manifest_kind.partition_type))
    names = [
        avro_name(index, name) for index, name in enumerate(manifest_kind.partition_type.names)
    ]
    records = [_entry_record(entry, manifest_kind.partition_type.types, names) for entry in entries]
    return write_records(schema, records, codec, properties)


def _manifest_schema(partition_type: RowType) -> dict[str, object]:
    """Return the Avro schema of a manifest, with Iceberg's field ids."""
    file_fields = [
        _required_field(134, "content", "int"),
        _required_field(100, "file_path", "string"),
        _required_field(101, "file_format", "string"),
        _required_field(102, "partition", partition_record(partition_type)),
        _required_field(103, "record_count", "long"),
        _required_field(104, "file_size_in_bytes", "long"),
        _field_id_map("null_value_counts", 110, 121, "long"),
        _field_id_map("lower_bounds", 125, 126, "bytes"),
        _field_id_map("upper_bounds", 128, 129, "bytes"),
        _optional_field(142, "first_row_id", "long"),
        _optional_field(143, "referenced_data_file", "string"),
        _optional_field(144, "content_offset", "long"),
        _optional_field(145, "content_size_in_bytes", "long"),
    ]
    fields = [
        _required_field(0, "status", "int"),
        _optional_field(1, "snapshot_id", "long"),
        _optional_field(3, "sequence_number", "long"),
        _optional_field(4, "file_sequence_number", "long"),
        _required_field(2, "data_file", {"type": "record", "name": "r2", "fields": file_fields}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def _entry_record(
    entry: IcebergEntry, types: Sequence[DataType], names: Sequence[str]
) -> dict[str, Any]:
    """Return an entry as an Avro record; types and names are those of the partition."""
    file, vector = entry.file, entry.file.vector
    partition = {
        name: avro_value(value, data_type)
        for name, data_type, value in zip(names, types, file.partition, strict=True)
    }
    data_file = {
        "content": 0 if vector is None else _POSITION_DELETES_CONTENT,
        "file_path": file.path,
        "file_format": (_PARQUET if vector is None else _PUFFIN).upper(),
        "partition": partition,
        "record_count": file.row_count,
        "file_size_in_bytes": file.size,
        "null_value_counts": _pairs(file.null_counts),
        "lower_bounds": _pairs(file.lower_bounds),
        "upper_bounds": _pairs(file.upper_bounds),
        "first_row_id": file.first_row_id,
        "referenced_data_file": None if vector is None else vector.data_file,
        "content_offset": None if vector is None else vector.offset,
        "content_size_in_bytes": None if vector is None else vector.length,
    }
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.sequence_number,
        "data_file": data_file,
    }


def _pairs(values: Mapping[int, object]) -> list[dict[str, object]] | None:
    return [{"key": key, "value": value} for key, value in values.items()] or None


def decode_iceberg_manifest(data: bytes) -> list[IcebergEntry]:
    """Decode the entries of a manifest.

    Raises:
        CorruptFileError: the bytes are not a manifest.
    """
    return _decode_records(data, _entry)


def _decode_records(data: bytes, decode: Callable[[dict[str, Any]], _T]) -> list[_T]:
    try:
        return [decode(record) for record in read_records(data)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(
            f"not Iceberg metadata that stream_app can read: {type(error).__name__}: {error}",
            fix="delete the folder of Iceberg's metadata: the next commit writes it again",
        ) from error


def _entry(record: dict[str, Any]) -> IcebergEntry:
    """Return the entry of a manifest's Avro record; only a deletion vector has a `VectorPlace`."""
    data_file = record["data_file"]
    offset = data_file.get("content_offset")
    vector = None
    if offset is not None:
        vector = VectorPlace(
            data_file=data_file["referenced_data_file"],
            offset=offset,
            length=data_file["content_size_in_bytes"],
        )
    file = IcebergFile(
        path=data_file["file_path"],
        size=data_file["file_size_in_bytes"],
        partition=tuple(map(row_value, data_file["partition"].values())),
        row_count=data_file["record_count"],
        null_counts=_mapping(data_file["null_value_counts"]),
        lower_bounds=_mapping(data_file["lower_bounds"]),
        upper_bounds=_mapping(data_file["upper_bounds"]),
        first_row_id=data_file.get("first_row_id"),
        vector=vector,
    )
    return IcebergEntry(
        status=EntryStatus(record["status"]),
        snapshot_id=record["snapshot_id"],
        sequence_number=record["sequence_number"],
        file=file,
    )


def _mapping(pairs: list[dict[str, Any]] | None) -> dict[int, Any]:
    return {pair["key"]: pair["value"] for pair in pairs or ()}


def partition_summaries(
    entries: Sequence[IcebergEntry], partition_type: RowType
) -> tuple[PartitionSummary, ...]:
    """Return the ranges of the entries' partition columns."""
    summaries = []
    for index, field in enumerate(partition_type):
        values = [entry.file.partition[index] for entry in entries]
        non_nulls: list[Any] = [value for value in values if value is not None]
        bounds = [value for value in non_nulls if value == value]  # noqa: PLR0124 - but NaN
        summaries.append(
            PartitionSummary(
                contains_null=len(non_nulls) < len(values),
                contains_nan=len(bounds) < len(non_nulls),
                lower_bound=single_value(min(bounds), field.data_type) if bounds else None,
                upper_bound=single_value(max(bounds), field.data_type) if bounds else None,
            )
        )
    return tuple(summaries)


def encode_iceberg_manifest_list(
    manifests: Iterable[IcebergManifest], codec: str, properties: Mapping[str, str]
) -> bytes:
    """Encode a manifest list.

    Args:
        properties: the header's facts about the snapshot.
    """
    return write_records(
        _LIST, [_list_record(manifest) for manifest in manifests], codec, properties
    )


def _list_record(manifest: IcebergManifest) -> dict[str, Any]:
    """Return the Avro record of a manifest in its list."""
    counts: dict[str, int] = {}
    for status, name in _STATUS_NAMES.items():
        counts[f"{name}_files_count"] = manifest.file_counts[status]
        counts[f"{name}_rows_count"] = manifest.row_counts[status]
    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length,
        "partition_spec_id": 0,
        "content": int(manifest.content),
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": manifest.min_sequence_number,
        "added_snapshot_id": manifest.snapshot_id,
        **counts,
        "partitions": [
            {
                "contains_null": summary.contains_null,
                "contains_nan": summary.contains_nan,
                "lower_bound": summary.lower_bound,
                "upper_bound": summary.upper_bound,
            }
            for summary in manifest.partitions
        ],
        "first_row_id": manifest.first_row_id,
    }


def decode_iceberg_manifest_list(data: bytes) -> list[IcebergManifest]:
    """Decode the manifests of a list.

    Raises:
        CorruptFileError: the bytes are not a manifest list.
    """
    return _decode_records(data, _manifest)


def _manifest(record: dict[str, Any]) -> IcebergManifest:
    """Return the manifest in a record of a manifest list; the inverse of `_list_record`."""
    names = _STATUS_NAMES.items()
    return IcebergManifest(
        path=record["manifest_path"],
        length=record["manifest_length"],
        content=ManifestContent(record["content"]),
        sequence_number=record["sequence_number"],
        min_sequence_number=record["min_sequence_number"],
        snapshot_id=record["added_snapshot_id"],
        file_counts={status: record[f"{name}_files_count"] for status, name in names},
        row_counts={status: record[f"{name}_rows_count"] for status, name in names},
        partitions=tuple(
            PartitionSummary(
                contains_null=summary["contains_null"],
                contains_nan=summary["contains_nan"],
                lower_bound=summary["lower_bound"],
                upper_bound=summary["upper_bound"],
            )
            for summary in record["partitions"] or ()
        ),
        first_row_id=record.get("first_row_id"),
    )
