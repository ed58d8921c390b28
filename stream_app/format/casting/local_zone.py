"""Determines this machine's time zone, by which Paimon casts TIMESTAMP_LTZ.

Like Paimon's JVM, it reads `TZ` and then the system's zone.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s

_LOCALTIME = Path("/etc/localtime")


def local_zone() -> str:
    """Return the name of the machine's time zone; UTC if the machine names none."""
    if named := os.environ.get("TZ", "").lstrip(":"):
        return named
    _, separator, name = str(_LOCALTIME.resolve()).partition("/zoneinfo/")
    return name if separator else "UTC"


def wall_clock(instants: Int64s, unit: str) -> Int64s:
    """Convert instants to local wall-clock times; both are ticks of `unit` since 1970."""
    zone = local_zone()
    if zone == "UTC":
        return instants
    array = pa.array(instants).cast(pa.timestamp(unit, zone))
    return _ticks(pc.local_timestamp(array))


def instants(wall: Int64s, unit: str) -> Int64s:
    """Convert local wall-clock times to instants.

    Of two possible instants it takes the earlier one. It moves a time in a gap after the gap.
    """
    zone = local_zone()
    if zone == "UTC":
        return wall
    naive = pa.array(wall).cast(pa.timestamp(unit))
    before, after = (
        pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent=edge)
        for edge in ("earliest", "latest")
    )
    offset_before = _ticks(pc.local_timestamp(before)) - _ticks(before)
    return np.where(_ticks(before) == _ticks(after), _ticks(before), wall - offset_before)


def _ticks(array: pa.Array) -> Int64s:
    return np.asarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False))
