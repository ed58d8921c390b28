"""Packs the metadata of files into bytes, in a tenth of the memory of the Python objects.

The driver has the files of all buckets to which a job writes. `Levels` packs its sorted runs, and
`packed_buckets` whole buckets to which no epoch writes. The bytes store files in columns, because
the files of a bucket share most of their values.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter

from stream_app.model.files.data_file_meta import DataFileMeta, SimpleStats

_OWN = tuple(member.name for member in fields(DataFileMeta) if not member.name.endswith("_stats"))
_STATS = tuple(
    f"{stats}.{member.name}"
    for stats in ("key_stats", "value_stats")
    for member in fields(SimpleStats)
)
_VALUES = attrgetter(*_OWN, *_STATS)
_PART = len(_STATS) // 2
_STATS_NAMES = tuple(member.name for member in fields(SimpleStats))


def pack_files(files: Sequence[DataFileMeta]) -> bytes:
    """Pack files into bytes."""
    columns = tuple(zip(*map(_VALUES, files), strict=True))
    return zlib.compress(pickle.dumps(columns), level=1)


def unpack_files(data: bytes) -> tuple[DataFileMeta, ...]:
    """Unpack the files of `pack_files`, in order."""
    count = len(_OWN)
    return tuple(
        DataFileMeta(
            **dict(zip(_OWN, row[:count], strict=True)),
            key_stats=SimpleStats(
                **dict(zip(_STATS_NAMES, row[count : count + _PART], strict=True))
            ),
            value_stats=SimpleStats(**dict(zip(_STATS_NAMES, row[count + _PART :], strict=True))),
        )
        for row in zip(*pickle.loads(zlib.decompress(data)), strict=True)
    )
