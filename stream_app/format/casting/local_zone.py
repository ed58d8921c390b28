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
    if zone := os.environ.get("TZ", "").lstrip(":"):
        return zone
    _, separator, name = str(_LOCALTIME.resolve()).partition("/zoneinfo/")
    return name if separator else "UTC"


def to_local_times(instants: Int64s, unit: str) -> Int64s:
    """Convert instants to local wall-clock times; both are ticks of `unit` since 1970."""
    zone = local_zone()
    if zone == "UTC":
        return instants
    array = pa.array(instants).cast(pa.timestamp(unit, zone))
    return _ticks(pc.local_timestamp(array))


def to_instants(local_times: Int64s, unit: str) -> Int64s:
    """Convert local wall-clock times to instants.

    Of two possible instants the result is the earlier one. A time in a gap moves after the gap.
    """
    zone = local_zone()
    if zone == "UTC":
        return local_times
    timestamps = pa.array(local_times).cast(pa.timestamp(unit))
    before_gap, after_gap = (
        pc.assume_timezone(timestamps, zone, ambiguous="earliest", nonexistent=edge)
        for edge in ("earliest", "latest")
    )
    early_instants, late_instants = _ticks(before_gap), _ticks(after_gap)
    offsets = _ticks(pc.local_timestamp(before_gap)) - early_instants
    return np.where(early_instants == late_instants, early_instants, local_times - offsets)


def _ticks(array: pa.Array) -> Int64s:
    return np.asarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False))
