"""Encodes Iceberg's table metadata (``vN.metadata.json``) as JSON.

Source: Iceberg's table specification, "Table Metadata Fields"; Paimon
`iceberg/metadata/IcebergMetadata.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from stream_app.errors import CorruptFileError
from stream_app.format.iceberg.single_values import FIRST_PARTITION_FIELD_ID
from stream_app.model.iceberg_metadata import IcebergMetadata, IcebergSnapshot

_MAIN = "main"
_ROW_LINEAGE_VERSION = 3


def partition_fields_json(fields: tuple[tuple[str, int], ...]) -> list[dict[str, Any]]:
    """Return the fields of a partition spec, with identity transforms."""
    return [
        {
            "name": name,
            "transform": "identity",
            "source-id": source_id,
            "field-id": FIRST_PARTITION_FIELD_ID + index,
        }
        for index, (name, source_id) in enumerate(fields)
    ]


def encode_metadata(metadata: IcebergMetadata) -> bytes:
    """Encode the file of a version."""
    current_snapshot = metadata.current_snapshot
    fields = partition_fields_json(metadata.partition_fields)
    references: dict[str, Any] = {
        name: {"snapshot-id": snapshot_id, "type": "tag"}
        for name, snapshot_id in metadata.tags.items()
        if name != _MAIN
    }
    references[_MAIN] = {"snapshot-id": current_snapshot.snapshot_id, "type": "branch"}
    has_lineage = metadata.format_version >= _ROW_LINEAGE_VERSION
    document = {
        "format-version": metadata.format_version,
        "table-uuid": metadata.table_uuid,
        "location": metadata.location,
        "last-sequence-number": current_snapshot.sequence_number,
        "last-updated-ms": current_snapshot.time_ms,
        "last-column-id": metadata.last_column_id,
        "schemas": list(metadata.schemas.values()),
        "current-schema-id": current_snapshot.schema_id,
        "partition-specs": [{"spec-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "last-partition-id": FIRST_PARTITION_FIELD_ID + len(fields) - 1,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": dict(metadata.properties),
        "current-snapshot-id": current_snapshot.snapshot_id,
        "refs": references,
        "snapshots": [_snapshot_json(snapshot) for snapshot in metadata.snapshots],
        "snapshot-log": [
            {"snapshot-id": snapshot.snapshot_id, "timestamp-ms": snapshot.time_ms}
            for snapshot in metadata.snapshots
        ],
        "metadata-log": [
            {"metadata-file": path, "timestamp-ms": time} for path, time in metadata.older_files
        ],
        **({"next-row-id": metadata.next_row_id} if has_lineage else {}),
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def _snapshot_json(snapshot: IcebergSnapshot) -> dict[str, Any]:
    optional = {
        "parent-snapshot-id": snapshot.parent_id,
        "first-row-id": snapshot.first_row_id,
        "added-rows": snapshot.added_row_count,
    }
    return {
        "snapshot-id": snapshot.snapshot_id,
        "sequence-number": snapshot.sequence_number,
        "timestamp-ms": snapshot.time_ms,
        "manifest-list": snapshot.manifest_list,
        "schema-id": snapshot.schema_id,
        "summary": dict(snapshot.summary),
        **{key: value for key, value in optional.items() if value is not None},
    }


def decode_metadata(data: bytes, version: int) -> IcebergMetadata:
    """Decode a version of a table's metadata, without snapshots newer than the current one.

    Raises:
        CorruptFileError: the bytes are not such a file.
    """
    try:
        return _metadata(orjson.loads(data), version)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise CorruptFileError(
            f"not Iceberg metadata that stream_app can read: {type(error).__name__}: {error}",
            fix="delete the folder of Iceberg's metadata: the next commit writes it again",
        ) from error


def _metadata(document: Mapping[str, Any], version: int) -> IcebergMetadata:
    """Return the metadata in a document; a missing `next-row-id` follows from its snapshots."""
    fields = document["partition-specs"][0]["fields"]
    snapshots = tuple(map(_snapshot, document["snapshots"]))
    # Paimon's Java omits next-row-id, so it is computed from the snapshots' row ids.
    used_row_ids = [
        (snapshot.first_row_id or 0) + (snapshot.added_row_count or 0) for snapshot in snapshots
    ]
    return IcebergMetadata(
        version=version,
        format_version=document["format-version"],
        table_uuid=document["table-uuid"],
        location=document["location"],
        schemas={schema["schema-id"]: schema for schema in document["schemas"]},
        last_column_id=document["last-column-id"],
        partition_fields=tuple(
            (partition_field["name"], partition_field["source-id"]) for partition_field in fields
        ),
        snapshots=snapshots,
        tags={
            name: reference["snapshot-id"]
            for name, reference in (document.get("refs") or {}).items()
            if name != _MAIN
        },
        properties=document.get("properties") or {},
        older_files=tuple(
            (entry["metadata-file"], entry["timestamp-ms"])
            for entry in document.get("metadata-log") or ()
        ),
        next_row_id=max([document.get("next-row-id") or 0, *used_row_ids]),
    )


def _snapshot(document: Mapping[str, Any]) -> IcebergSnapshot:
    return IcebergSnapshot(
        snapshot_id=document["snapshot-id"],
        parent_id=document.get("parent-snapshot-id"),
        sequence_number=document["sequence-number"],
        time_ms=document["timestamp-ms"],
        manifest_list=document["manifest-list"],
        schema_id=document["schema-id"],
        summary=document.get("summary") or {},
        first_row_id=document.get("first-row-id"),
        added_row_count=document.get("added-rows"),
    )
