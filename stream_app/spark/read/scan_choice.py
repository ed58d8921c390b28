"""Decides from a read's options which version, or which range of versions, is read.

Pure. Contradictory options are refused.

Source: Paimon `CoreOptions.java#startupMode`, `table/source/AbstractDataTableScan.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import UsageError
from stream_app.model.options.scan_options import (
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_WATERMARK,
)
from stream_app.spark.read.source_options import SourceOptions
from stream_app.table.versions.time_travel import Timestamp, Version

_SNAPSHOT, _TAG, _WATERMARK = SCAN_SNAPSHOT_ID.key, SCAN_TAG_NAME.key, SCAN_WATERMARK.key
_TIMES = (SCAN_TIMESTAMP.key, SCAN_TIMESTAMP_MILLIS.key)
_BETWEEN, _BETWEEN_TIMES = "incremental-between", "incremental-between-timestamp"
_VERSIONS = (_SNAPSHOT, _TAG, _WATERMARK, *_TIMES)
_ALL = (*_VERSIONS, _BETWEEN, _BETWEEN_TIMES)
_OPTIONS_OF_MODE: dict[str, tuple[str, ...]] = {
    "default": _ALL,
    "full": (),
    "latest-full": (),
    "latest": (),
    "compacted-full": (),
    "from-timestamp": _TIMES,
    "from-snapshot": (_SNAPSHOT, _TAG, _WATERMARK),
    "from-snapshot-full": (_SNAPSHOT,),
    "incremental": (_BETWEEN, _BETWEEN_TIMES),
}
"""Options that say where each scan mode begins; all modes but default need one of them."""


@dataclass(frozen=True, slots=True)
class LatestCompacted:
    """The latest COMPACT snapshot (``compacted-full``)."""


@dataclass(frozen=True, slots=True)
class VersionBounds:
    """Two snapshots or tags, as the user wrote them."""

    start: str
    end: str


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Two times."""

    start: Timestamp
    end: Timestamp


Choice = Version | LatestCompacted | VersionBounds | TimeBounds


def start_option(options: SourceOptions, refused_keys: tuple[str, ...] = ()) -> str | None:
    """Return the only option that sets where a read begins, or None.

    Args:
        refused_keys: keys that this kind of read does not take.

    Raises:
        UsageError: there are two, or it does not go with ``scan.mode``.
    """
    mode = options[SCAN_MODE] or "default"
    keys = [key for key in _ALL if key in options.raw]
    if len(keys) > 1:
        raise UsageError(
            f"options {' and '.join(keys)} are given, but a read begins at one place",
            fix=f"leave out all but one of {', '.join(keys)}",
        )
    if keys and keys[0] in refused_keys:
        raise UsageError(
            f"option {keys[0]!r} is for batch reads, and this one is a stream",
            fix="begin with scan.snapshot-id, scan.timestamp or scan.timestamp-millis, or leave "
            "it out",
        )
    if mode not in _OPTIONS_OF_MODE:
        raise UsageError(
            f"scan.mode = {mode} is not supported", fix=f"use one of {', '.join(_OPTIONS_OF_MODE)}"
        )
    mode_options = _OPTIONS_OF_MODE[mode]
    if keys and keys[0] not in mode_options:
        raise UsageError(
            f"option {keys[0]!r} does not go with scan.mode = {mode}",
            fix="leave out scan.mode: it follows from the option"
            + (f"; or give {' or '.join(mode_options)}" if mode_options else ""),
        )
    if not keys and mode != "default" and mode_options:
        raise UsageError(
            f"scan.mode = {mode} needs {' or '.join(mode_options)}",
            fix="give it, or leave out scan.mode",
        )
    return keys[0] if keys else None


def batch_choice(options: SourceOptions) -> Choice:
    """Return the version or the range that a batch read reads.

    Raises:
        UsageError: the options do not go together.
    """
    key = start_option(options)
    if key is None:
        is_compacted = options[SCAN_MODE] == "compacted-full"
        return LatestCompacted() if is_compacted else Version()
    text = options.raw[key]
    if key == _BETWEEN:
        return VersionBounds(*_parse_pair(key, text))
    if key == _BETWEEN_TIMES:
        start, end = _parse_pair(key, text)
        return TimeBounds(_parse_time(start), _parse_time(end))
    if key in _TIMES:
        return Version(timestamp=_parse_time(text))
    if key == _TAG:
        return Version(tag=text)
    if key == _SNAPSHOT:
        return Version(snapshot=options[SCAN_SNAPSHOT_ID])
    return Version(watermark=options[SCAN_WATERMARK])


def _parse_pair(key: str, text: str) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise UsageError(
            f"option {key!r}: {text!r} is not two versions separated by a comma",
            fix=f"write {key} = '3,7'" if key == _BETWEEN else f"write {key} = '2026-01-01,…'",
        )
    return parts[0], parts[1]


def _parse_time(text: str) -> Timestamp:
    return int(text) if text.isdecimal() else text
