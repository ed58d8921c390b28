"""Index manifests as Avro: all index files of a snapshot.

Unlike a manifest it is complete: what it does not name does not exist. A missing deletion vector
brings its rows back to life.

Source: Paimon `manifest/IndexManifestEntrySerializer.java`, `index/IndexFileMeta.java`.
"""

from __future__ import annotations

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
from stream_app.model.index_file_meta import (
    DeletionVectorMeta,
    GlobalIndexMeta,
    IndexFileMeta,
    IndexManifestEntry,
)
from stream_app.model.manifest_entry import FileKind

_VERSION = 1


def _record(name: str, fields: list[AvroField]) -> dict[str, object]:
    return {"type": "record", "name": f"record_{name}", "fields": fields}


_RANGE = _record(
    "_DELETIONS_VECTORS_RANGES",
    [
        required("f0", "string"),
        required("f1", "int"),
        required("f2", "int"),
        optional("_CARDINALITY", "long"),
    ],
)
_GLOBAL_INDEX_FIELDS = [
    required("_ROW_RANGE_START", "long"),
    required("_ROW_RANGE_END", "long"),
    required("_INDEX_FIELD_ID", "int"),
    optional("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
    optional("_INDEX_META", "bytes"),
]
_SOURCE_META = optional("_SOURCE_META", "bytes")


def _schema(global_index_fields: list[AvroField]) -> dict[str, object]:
    return manifest_schema(
        [
            required("_VERSION", "int"),
            required("_KIND", "int"),
            required("_PARTITION", "bytes"),
            required("_BUCKET", "int"),
            required("_INDEX_TYPE", "string"),
            required("_FILE_NAME", "string"),
            required("_FILE_SIZE", "long"),
            required("_ROW_COUNT", "long"),
            optional("_DELETIONS_VECTORS_RANGES", {"type": "array", "items": ["null", _RANGE]}),
            optional("_EXTERNAL_PATH", "string"),
            optional("_GLOBAL_INDEX", _record("_GLOBAL_INDEX", global_index_fields)),
        ]
    )


INDEX_MANIFEST_SCHEMA = _schema(_GLOBAL_INDEX_FIELDS)
"""Avro schema of an index manifest."""

_KNOWN = frozenset(
    {
        *("_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_INDEX_TYPE", "_FILE_NAME", "_FILE_SIZE"),
        *("_ROW_COUNT", "_DELETIONS_VECTORS_RANGES", "_EXTERNAL_PATH", "_GLOBAL_INDEX"),
    }
)
_KNOWN_OF_GLOBAL = frozenset(str(field["name"]) for field in (*_GLOBAL_INDEX_FIELDS, _SOURCE_META))

_PARSED = fastavro.parse_schema(INDEX_MANIFEST_SCHEMA)
_PARSED_WITH_SOURCE = fastavro.parse_schema(_schema([*_GLOBAL_INDEX_FIELDS, _SOURCE_META]))


def encode_index_manifest(entries: Sequence[IndexManifestEntry], *, codec: str) -> bytes:
    """The bytes of an index manifest; `codec` as in ``manifest.compression``.

    Raises:
        UnsupportedTableError: the entry of a file has a field that we do not know.
    """
    for entry in entries:
        check_known(entry.index_file.unknown_fields, entry.index_file.file_name)
    assert all(entry.kind is FileKind.ADD for entry in entries), "it lists what is there"
    globals_ = [entry.index_file.global_index for entry in entries]
    # Only Paimon 2 gives this field; what its writer noted must not be lost.
    has_source = any(meta is not None and meta.source_meta is not None for meta in globals_)
    schema = _PARSED_WITH_SOURCE if has_source else _PARSED
    return write_records(schema, [_entry_record(entry) for entry in entries], codec=codec)


def _entry_record(entry: IndexManifestEntry) -> dict[str, Any]:
    file = entry.index_file
    vectors = file.deletion_vectors
    return {
        "_VERSION": _VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": None if vectors is None else list(map(_range_record, vectors)),
        "_EXTERNAL_PATH": file.external_path,
        "_GLOBAL_INDEX": None
        if file.global_index is None
        else _global_index_record(file.global_index),
    }


def _range_record(meta: DeletionVectorMeta) -> dict[str, Any]:
    return {
        "f0": meta.data_file_name,
        "f1": meta.offset,
        "f2": meta.length,
        "_CARDINALITY": meta.cardinality,
    }


def _global_index_record(meta: GlobalIndexMeta) -> dict[str, Any]:
    ids = meta.extra_field_ids
    return {
        "_ROW_RANGE_START": meta.row_range_start,
        "_ROW_RANGE_END": meta.row_range_end,
        "_INDEX_FIELD_ID": meta.index_field_id,
        "_EXTRA_FIELD_IDS": None if ids is None else list(ids),
        "_INDEX_META": meta.index_meta,
        "_SOURCE_META": meta.source_meta,
    }


def decode_index_manifest(data: bytes) -> list[IndexManifestEntry]:
    """The index files of a snapshot.

    Raises:
        CorruptFileError: no such file, or records of another kind or version.
    """
    return [_entry(record) for record in read_metadata(data)]


def _entry(record: dict[str, Any]) -> IndexManifestEntry:
    if record.get("_VERSION") != _VERSION:
        raise _unexpected(f"_VERSION is {record.get('_VERSION')!r} instead of {_VERSION}")
    try:
        if record["_KIND"] != FileKind.ADD:
            raise _unexpected(f"_KIND of {record['_FILE_NAME']} is {record['_KIND']} instead of 0")
        return IndexManifestEntry(
            kind=FileKind.ADD,
            partition=record["_PARTITION"],
            bucket=record["_BUCKET"],
            index_file=_index_file(record),
        )
    except (KeyError, TypeError) as error:
        raise _unexpected(f"{type(error).__name__}: {error}") from error


def _unexpected(what: str) -> CorruptFileError:
    return CorruptFileError(
        f"not an index manifest that stream_app can read: {what}",
        fix="read the table with the Paimon version that wrote it",
    )


def _index_file(record: dict[str, Any]) -> IndexFileMeta:
    ranges = record.get("_DELETIONS_VECTORS_RANGES")
    global_index = record.get("_GLOBAL_INDEX")
    return IndexFileMeta(
        index_type=record["_INDEX_TYPE"],
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        deletion_vectors=None if ranges is None else tuple(map(_deletion_vector, ranges)),
        external_path=record.get("_EXTERNAL_PATH"),
        global_index=None if global_index is None else _global_index(global_index),
        unknown_fields=unknown_fields(record, _KNOWN)
        + unknown_fields(global_index or {}, _KNOWN_OF_GLOBAL),
    )


def _deletion_vector(record: dict[str, Any]) -> DeletionVectorMeta:
    return DeletionVectorMeta(
        data_file_name=record["f0"],
        offset=record["f1"],
        length=record["f2"],
        cardinality=record.get("_CARDINALITY"),
    )


def _global_index(record: dict[str, Any]) -> GlobalIndexMeta:
    ids = record.get("_EXTRA_FIELD_IDS")
    return GlobalIndexMeta(
        row_range_start=record["_ROW_RANGE_START"],
        row_range_end=record["_ROW_RANGE_END"],
        index_field_id=record["_INDEX_FIELD_ID"],
        extra_field_ids=None if ids is None else tuple(ids),
        index_meta=record.get("_INDEX_META"),
        source_meta=record.get("_SOURCE_META"),
    )
