"""Packs the metadata of files into bytes, in a tenth of the memory of the Python objects.

The driver has the files of all buckets to which a job writes. `Levels` packs its sorted runs, and
`table.compact.buckets.idle_buckets` the files of whole buckets. The bytes store the metadata in
columns, because the files of a bucket share most of their values.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from stream_app.model.files.data_file_meta import DataFileMeta, SimpleStats

_FILE_NAMES = tuple(
    member.name for member in fields(DataFileMeta) if not member.name.endswith("_stats")
)
_STATS_NAMES = tuple(member.name for member in fields(SimpleStats))
_VALUES = attrgetter(
    *_FILE_NAMES,
    *(f"key_stats.{name}" for name in _STATS_NAMES),
    *(f"value_stats.{name}" for name in _STATS_NAMES),
)
_FILE_END = len(_FILE_NAMES)
_KEY_STATS_END = _FILE_END + len(_STATS_NAMES)


def pack_metadata(files: Sequence[DataFileMeta]) -> bytes:
    """Pack the metadata of files."""
    columns = tuple(zip(*map(_VALUES, files), strict=True))
    return zlib.compress(pickle.dumps(columns), level=1)


def unpack_metadata(packed_metadata: bytes) -> tuple[DataFileMeta, ...]:
    """Return the files that `pack_metadata` packed, in order."""
    return tuple(
        DataFileMeta(
            **dict(zip(_FILE_NAMES, values[:_FILE_END], strict=True)),
            key_stats=_stats(values[_FILE_END:_KEY_STATS_END]),
            value_stats=_stats(values[_KEY_STATS_END:]),
        )
        for values in zip(*pickle.loads(zlib.decompress(packed_metadata)), strict=True)
    )


def _stats(values: Sequence[Any]) -> SimpleStats:
    return SimpleStats(**dict(zip(_STATS_NAMES, values, strict=True)))
