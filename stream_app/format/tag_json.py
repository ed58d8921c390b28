"""Tag files: a snapshot file with two keys more.

Java writes the creation time as a list of numbers, from the year down to nanoseconds, without
trailing zeros. The time to live is a number of seconds.

Source: Paimon `tag/Tag.java`, `utils/JsonSerdeUtil.java`.
"""

from __future__ import annotations

import datetime
from typing import Any

from stream_app.errors import CorruptFileError
from stream_app.format.json_object import JsonObject, encode_object
from stream_app.format.snapshot_json import decode_snapshot, encode_snapshot, snapshot_object
from stream_app.model.tag import Tag

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
