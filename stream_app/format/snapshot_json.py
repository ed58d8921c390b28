"""Encodes snapshot files, and tag files, which are snapshots with two more keys.

Source: Paimon `Snapshot.java`, `tag/Tag.java`, `utils/JsonSerdeUtil.java`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from stream_app.errors import CorruptFileError
from stream_app.format.json_object import JsonObject, encode_object
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.model.tag import Tag

_VERSION = 3
_NO_WATERMARK = -(1 << 63)
"""The value of old writers for no watermark."""
_CACHED_SNAPSHOTS_MAX = 256
_NANOS_OF_MILLI = 1_000_000
_PARTS_TO_SECONDS = 6


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode a snapshot file, without the keys whose value is None, as Java expects."""
    return encode_object(snapshot_object(snapshot))


def snapshot_object(snapshot: Snapshot) -> dict[str, Any]:
    """Return the keys of a snapshot file."""
    values = {key: getattr(snapshot, name) for key, (name, _) in _FIELDS.items()}
    return {
        "version": _VERSION,
        **values,
        "commitKind": snapshot.commit_kind.value,
        "properties": dict(snapshot.properties) if snapshot.properties else None,
    }


# A commit rereads a snapshot several times, with the same bytes.
@lru_cache(maxsize=_CACHED_SNAPSHOTS_MAX)
def decode_snapshot(data: bytes) -> Snapshot:
    """Decode a snapshot, which keeps the names of unknown keys.

    Raises:
        CorruptFileError: the bytes are not JSON, or a required key is missing.
    """
    json = JsonObject.decode(data, file_kind="snapshot")
    values = {name: read(json, key) for key, (name, read) in _FIELDS.items()}
    return Snapshot(**values, unknown_fields=json.unknown_keys(_KNOWN))


def _commit_kind(json: JsonObject, key: str) -> CommitKind:
    text = json.text(key)
    try:
        return CommitKind(text)
    except ValueError:
        raise CorruptFileError(
            f"cannot read a snapshot file: '{key}' is {text!r}",
            fix="read the table with the Paimon version that wrote it",
        ) from None


def _watermark(json: JsonObject, key: str) -> int | None:
    watermark = json.optional_integer(key)
    return None if watermark == _NO_WATERMARK else watermark


_FIELDS: Mapping[str, tuple[str, Callable[[JsonObject, str], Any]]] = {
    "id": ("snapshot_id", JsonObject.integer),
    "schemaId": ("schema_id", JsonObject.integer),
    "baseManifestList": ("base_manifest_list", JsonObject.text),
    "baseManifestListSize": ("base_manifest_list_size", JsonObject.optional_integer),
    "deltaManifestList": ("delta_manifest_list", JsonObject.text),
    "deltaManifestListSize": ("delta_manifest_list_size", JsonObject.optional_integer),
    "changelogManifestList": ("changelog_manifest_list", JsonObject.optional_text),
    "changelogManifestListSize": ("changelog_manifest_list_size", JsonObject.optional_integer),
    "indexManifest": ("index_manifest", JsonObject.optional_text),
    "commitUser": ("commit_user", JsonObject.text),
    "commitIdentifier": ("commit_identifier", JsonObject.integer),
    "commitKind": ("commit_kind", _commit_kind),
    "timeMillis": ("time_ms", JsonObject.integer),
    "totalRecordCount": ("total_record_count", JsonObject.optional_integer),
    "deltaRecordCount": ("delta_record_count", JsonObject.optional_integer),
    "changelogRecordCount": ("changelog_record_count", JsonObject.optional_integer),
    "watermark": ("watermark", _watermark),
    "statistics": ("statistics", JsonObject.optional_text),
    "properties": ("properties", JsonObject.text_map),
    "nextRowId": ("next_row_id", JsonObject.optional_integer),
    "uuid": ("uuid", JsonObject.optional_text),
    "writerVersion": ("writer_version", JsonObject.optional_text),
    "operation": ("operation", JsonObject.optional_text),
}
"""Key in the file → the attribute of `Snapshot`, and the function that reads the value; in the
file's order."""
_KNOWN = frozenset(_FIELDS) | {"version", "tagCreateTime", "tagTimeRetained", "logOffsets"}
"""The known keys of the file. Paimon 1.0 dropped the last one, which belonged to log systems."""


def decode_tag(name: str, data: bytes) -> Tag:
    """Decode a tag; unknown keys are ignored.

    Raises:
        CorruptFileError: the bytes are not JSON, or not a snapshot.
    """
    json = JsonObject.decode(data, file_kind="tag")
    seconds = json.raw("tagTimeRetained")
    try:
        return Tag(
            name=name,
            snapshot=decode_snapshot(data),
            create_time_ms=_time_ms(json.raw("tagCreateTime")),
            time_retained_ms=None if seconds is None else round(seconds * 1_000_000) // 1000,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise CorruptFileError(
            f"cannot read a tag file: {error}",
            fix="delete the tag, and create it again with the engine that made it",
        ) from error


def encode_tag(tag: Tag) -> bytes:
    """Encode a tag file, which for a tag without time to live equals the snapshot's file.

    Paimon before 0.8 cannot read the two further keys, so they are written only if needed.
    """
    if tag.time_retained_ms is None or tag.create_time_ms is None:
        return encode_snapshot(tag.snapshot)
    seconds, fraction_ms = divmod(tag.create_time_ms, 1000)
    create_time = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    parts = [
        create_time.year,
        create_time.month,
        create_time.day,
        create_time.hour,
        create_time.minute,
        create_time.second,
        fraction_ms * _NANOS_OF_MILLI,
    ]
    return encode_object(
        {
            **snapshot_object(tag.snapshot),
            "tagCreateTime": parts if fraction_ms else parts[:_PARTS_TO_SECONDS],
            "tagTimeRetained": tag.time_retained_ms / 1000,
        }
    )


def _time_ms(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _wall_clock_ms(datetime.datetime.fromisoformat(value))
    parts = [int(part) for part in value]
    nanos = parts.pop() if len(parts) > _PARTS_TO_SECONDS else 0
    year, month, day, hour, minute, second = (*parts, 0, 0, 0)[:_PARTS_TO_SECONDS]
    time = datetime.datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - has no zone
    return _wall_clock_ms(time) + nanos // _NANOS_OF_MILLI


def _wall_clock_ms(moment: datetime.datetime) -> int:
    return round(moment.replace(tzinfo=datetime.UTC).timestamp() * 1000)
