"""Snapshot files; and tag files, which are a snapshot with two keys more.

Source: Paimon `Snapshot.java`, `tag/Tag.java`, `utils/JsonSerdeUtil.java`.
"""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import Any

from stream_app.errors import CorruptFileError
from stream_app.format.json_object import JsonObject, encode_object
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.model.tag import Tag

_VERSION = 3
_NO_WATERMARK = -(1 << 63)  # what old writers stored for "none"
_KEPT = 256


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The bytes of a snapshot file; what is None is left out, as Java expects."""
    return encode_object(snapshot_object(snapshot))


def snapshot_object(snapshot: Snapshot) -> dict[str, Any]:
    """The keys of a snapshot file."""
    properties = snapshot.properties
    return {
        "version": _VERSION,
        "id": snapshot.snapshot_id,
        "schemaId": snapshot.schema_id,
        "baseManifestList": snapshot.base_manifest_list,
        "baseManifestListSize": snapshot.base_manifest_list_size,
        "deltaManifestList": snapshot.delta_manifest_list,
        "deltaManifestListSize": snapshot.delta_manifest_list_size,
        "changelogManifestList": snapshot.changelog_manifest_list,
        "changelogManifestListSize": snapshot.changelog_manifest_list_size,
        "indexManifest": snapshot.index_manifest,
        "commitUser": snapshot.commit_user,
        "commitIdentifier": snapshot.commit_identifier,
        "commitKind": snapshot.commit_kind.value,
        "timeMillis": snapshot.time_millis,
        "totalRecordCount": snapshot.total_record_count,
        "deltaRecordCount": snapshot.delta_record_count,
        "changelogRecordCount": snapshot.changelog_record_count,
        "watermark": snapshot.watermark,
        "statistics": snapshot.statistics,
        "properties": dict(properties) if properties else None,
        "nextRowId": snapshot.next_row_id,
        "uuid": snapshot.uuid,
        "writerVersion": snapshot.writer_version,
        "operation": snapshot.operation,
    }


_KNOWN = frozenset(
    {
        *("version", "id", "schemaId", "baseManifestList", "baseManifestListSize"),
        *("deltaManifestList", "deltaManifestListSize", "changelogManifestList"),
        *("changelogManifestListSize", "indexManifest", "commitUser", "commitIdentifier"),
        *("commitKind", "timeMillis", "totalRecordCount", "deltaRecordCount"),
        *("changelogRecordCount", "watermark", "statistics", "properties", "nextRowId"),
        *("uuid", "writerVersion", "operation", "tagCreateTime", "tagTimeRetained"),
        "logOffsets",  # of a log system, which Paimon 1.0 dropped
    }
)


@lru_cache(maxsize=_KEPT)  # a commit reads a snapshot anew several times, and finds the same bytes
def decode_snapshot(data: bytes) -> Snapshot:
    """The snapshot; of keys that we do not know it has the names.

    Raises:
        CorruptFileError: no JSON, or a key is missing without which no version can be read.
    """
    json = JsonObject.decode(data, what="snapshot")
    watermark = json.optional_integer("watermark")
    return Snapshot(
        snapshot_id=json.integer("id"),
        schema_id=json.integer("schemaId"),
        base_manifest_list=json.text("baseManifestList"),
        base_manifest_list_size=json.optional_integer("baseManifestListSize"),
        delta_manifest_list=json.text("deltaManifestList"),
        delta_manifest_list_size=json.optional_integer("deltaManifestListSize"),
        changelog_manifest_list=json.optional_text("changelogManifestList"),
        changelog_manifest_list_size=json.optional_integer("changelogManifestListSize"),
        index_manifest=json.optional_text("indexManifest"),
        commit_user=json.text("commitUser"),
        commit_identifier=json.integer("commitIdentifier"),
        commit_kind=_commit_kind(json.text("commitKind")),
        time_millis=json.integer("timeMillis"),
        total_record_count=json.optional_integer("totalRecordCount"),
        delta_record_count=json.optional_integer("deltaRecordCount"),
        changelog_record_count=json.optional_integer("changelogRecordCount"),
        watermark=None if watermark == _NO_WATERMARK else watermark,
        statistics=json.optional_text("statistics"),
        properties=json.text_map("properties"),
        next_row_id=json.optional_integer("nextRowId"),
        uuid=json.optional_text("uuid"),
        writer_version=json.optional_text("writerVersion"),
        operation=json.optional_text("operation"),
        unknown_fields=json.unknown_keys(_KNOWN),
    )


def _commit_kind(text: str) -> CommitKind:
    try:
        return CommitKind(text)
    except ValueError:
        raise CorruptFileError(
            f"cannot read a snapshot file: 'commitKind' is {text!r}",
            fix="read the table with the Paimon version that wrote it",
        ) from None


_NANOS_OF_MILLI = 1_000_000
_PARTS_TO_SECONDS = 6


def decode_tag(name: str, data: bytes) -> Tag:
    """The tag; keys that we do not know are ignored.

    Raises:
        CorruptFileError: no JSON, or no snapshot.
    """
    json = JsonObject.decode(data, what="tag")
    try:
        return Tag(
            name=name,
            snapshot=decode_snapshot(data),
            create_time_ms=_millis(json.raw("tagCreateTime")),
            time_retained_ms=_duration(json.raw("tagTimeRetained")),
        )
    except (TypeError, ValueError) as error:
        raise CorruptFileError(
            f"cannot read a tag file: {error}",
            fix="delete the tag, and create it again with the engine that made it",
        ) from error


def encode_tag(tag: Tag) -> bytes:
    """The bytes of a tag file; of a tag that is kept for ever, those of its snapshot.

    Paimon before 0.8 cannot read the two keys more, so they stand there only when they are needed.
    """
    if tag.time_retained_ms is None or tag.create_time_ms is None:
        return encode_snapshot(tag.snapshot)
    seconds, millis = divmod(tag.create_time_ms, 1000)
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    parts = [at.year, at.month, at.day, at.hour, at.minute, at.second, millis * _NANOS_OF_MILLI]
    return encode_object(
        {
            **snapshot_object(tag.snapshot),
            "tagCreateTime": parts if millis else parts[:_PARTS_TO_SECONDS],
            "tagTimeRetained": tag.time_retained_ms / 1000,
        }
    )


def _millis(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _clock_millis(datetime.datetime.fromisoformat(value))
    parts = [int(part) for part in value]
    nanos = parts.pop() if len(parts) > _PARTS_TO_SECONDS else 0
    year, month, day, hour, minute, second = (*parts, 0, 0, 0)[:_PARTS_TO_SECONDS]
    at = datetime.datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - has no zone
    return _clock_millis(at) + nanos // _NANOS_OF_MILLI


def _clock_millis(at: datetime.datetime) -> int:
    return round(at.replace(tzinfo=datetime.UTC).timestamp() * 1000)


def _duration(value: Any) -> int | None:
    return None if value is None else int(value * 1000)
