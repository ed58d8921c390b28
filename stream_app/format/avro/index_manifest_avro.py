"""Encodes index manifests, which list all index files of a snapshot, as Avro.

Unlike a manifest, an index manifest is complete: an index file that it does not name does not
exist. So a missing deletion vector restores deleted rows.

Source: Paimon `manifest/IndexManifestEntrySerializer.java`, `index/IndexFileMeta.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fastavro

from stream_app.errors import CorruptFileError
from stream_app.format.avro.avro_container import write_records
from stream_app.format.avro.avro_records import (
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
from stream_app.model.files.index_file_meta import (
    DeletionVectorMeta,
    GlobalIndexMeta,
    IndexFileMeta,
    IndexManifestEntry,
)
from stream_app.model.files.manifest_entry import FileKind

_VERSION = 1
_RANGE_FIELDS = [
    required("f0", "string"),
    required("f1", "int"),
    required("f2", "int"),
    optional("_CARDINALITY", "long"),
]
_RANGE = RecordCodec(_RANGE_FIELDS, names={"f0": "data_file_name", "f1": "offset", "f2": "length"})
_GLOBAL_INDEX_FIELDS = [
    required("_ROW_RANGE_START", "long"),
    required("_ROW_RANGE_END", "long"),
    required("_INDEX_FIELD_ID", "int"),
    optional("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
    optional("_INDEX_META", "bytes"),
]


def _record(name: str, fields: list[AvroField]) -> dict[str, object]:
    return {"type": "record", "name": f"record_{name}", "fields": fields}


_SOURCE_META = optional("_SOURCE_META", "bytes")
_GLOBAL_INDEX = RecordCodec(
    [*_GLOBAL_INDEX_FIELDS, _SOURCE_META], codecs={"_EXTRA_FIELD_IDS": OPTIONAL_LIST}
)
_FILE_FIELDS = [
    required("_INDEX_TYPE", "string"),
    required("_FILE_NAME", "string"),
    required("_FILE_SIZE", "long"),
    required("_ROW_COUNT", "long"),
    optional(
        "_DELETIONS_VECTORS_RANGES",
        {"type": "array", "items": ["null", _record("_DELETIONS_VECTORS_RANGES", _RANGE_FIELDS)]},
    ),
    optional("_EXTERNAL_PATH", "string"),
]


def _ranges(metas: Sequence[DeletionVectorMeta] | None) -> list[dict[str, Any]] | None:
    return None if metas is None else list(map(_RANGE.record, metas))


def _deletion_vectors(
    records: list[dict[str, Any]] | None,
) -> tuple[DeletionVectorMeta, ...] | None:
    if records is None:
        return None
    return tuple(DeletionVectorMeta(**_RANGE.values(record)) for record in records)


_FILE = RecordCodec(
    _FILE_FIELDS,
    names={"_DELETIONS_VECTORS_RANGES": "deletion_vectors"},
    codecs={"_DELETIONS_VECTORS_RANGES": (_ranges, _deletion_vectors)},
)


def _schema(global_index_fields: list[AvroField]) -> dict[str, object]:
    return manifest_schema(
        [
            required("_VERSION", "int"),
            required("_KIND", "int"),
            required("_PARTITION", "bytes"),
            required("_BUCKET", "int"),
            *_FILE_FIELDS,
            optional("_GLOBAL_INDEX", _record("_GLOBAL_INDEX", global_index_fields)),
        ]
    )


INDEX_MANIFEST_SCHEMA = _schema(_GLOBAL_INDEX_FIELDS)
"""Avro schema of an index manifest."""

_KNOWN = _FILE.field_names | {"_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_GLOBAL_INDEX"}

_PARSED_SCHEMA = fastavro.parse_schema(INDEX_MANIFEST_SCHEMA)
_PARSED_SCHEMA_WITH_SOURCE = fastavro.parse_schema(_schema([*_GLOBAL_INDEX_FIELDS, _SOURCE_META]))


def encode_index_manifest(entries: Sequence[IndexManifestEntry], *, codec: str) -> bytes:
    """Encode an index manifest; `codec` as in ``manifest.compression``.

    Raises:
        UnsupportedTableError: the entry of a file has an unknown field.
    """
    for entry in entries:
        check_known(entry.index_file.unknown_fields, entry.index_file.file_name)
    assert all(entry.kind is FileKind.ADD for entry in entries), "it lists no deleted files"
    global_indexes = [entry.index_file.global_index for entry in entries]
    # Only Paimon 2 writes this field, which must not be lost.
    has_source = any(meta is not None and meta.source_meta is not None for meta in global_indexes)
    schema = _PARSED_SCHEMA_WITH_SOURCE if has_source else _PARSED_SCHEMA
    return write_records(schema, [_entry_record(entry) for entry in entries], codec=codec)


def _entry_record(entry: IndexManifestEntry) -> dict[str, Any]:
    file = entry.index_file
    index = file.global_index
    return {
        "_VERSION": _VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        **_FILE.record(file),
        "_GLOBAL_INDEX": None if index is None else _GLOBAL_INDEX.record(index),
    }


def decode_index_manifest(data: bytes) -> list[IndexManifestEntry]:
    """Decode an index manifest.

    Raises:
        CorruptFileError: the bytes are not an index manifest, or its records have another kind or
            version.
    """
    return [_entry(record) for record in read_metadata(data)]


def _entry(record: dict[str, Any]) -> IndexManifestEntry:
    if record.get("_VERSION") != _VERSION:
        raise _unreadable_manifest(f"_VERSION is {record.get('_VERSION')!r} instead of {_VERSION}")
    try:
        if record["_KIND"] != FileKind.ADD:
            raise _unreadable_manifest(
                f"_KIND of {record['_FILE_NAME']} is {record['_KIND']} instead of 0"
            )
        return IndexManifestEntry(
            kind=FileKind.ADD,
            partition=record["_PARTITION"],
            bucket=record["_BUCKET"],
            index_file=_index_file(record),
        )
    except (KeyError, TypeError) as error:
        raise _unreadable_manifest(f"{type(error).__name__}: {error}") from error


def _unreadable_manifest(problem: str) -> CorruptFileError:
    return CorruptFileError(
        f"not an index manifest that stream_app can read: {problem}",
        fix="read the table with the Paimon version that wrote it",
    )


def _index_file(record: dict[str, Any]) -> IndexFileMeta:
    index = record.get("_GLOBAL_INDEX")
    return IndexFileMeta(
        **_FILE.values(record),
        global_index=None if index is None else GlobalIndexMeta(**_GLOBAL_INDEX.values(index)),
        unknown_fields=unknown_fields(record, _KNOWN)
        + unknown_fields(index or {}, _GLOBAL_INDEX.field_names),
    )
