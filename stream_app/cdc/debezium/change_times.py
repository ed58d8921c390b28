"""Debezium's messages → when the source made each change (``source.ts_ms``).

Flattened messages tell it as ``__source_ts_ms``, with ``add.fields=source.ts_ms``. Read apart from
the decoding, for tables with the metadata column ``op_ts`` alone.

Source: Debezium documentation, "Data change events" and "New record state extraction".
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.columns.arrow_buffers import valid_of
from stream_app.cdc.columns.json_lines import looks_like_object, parse_objects
from stream_app.cdc.columns.nesting import deep_ones
from stream_app.cdc.debezium.schema import split_envelopes

_FLAT = "__source_ts_ms"
_FIELDS = pa.schema(
    [pa.field("source", pa.struct([("ts_ms", pa.int64())])), pa.field(_FLAT, pa.int64())]
)
_MILLIS = pa.timestamp("ms", "UTC")
_FEW = 32
"""So many messages are read one by one when they do not parse together."""
_INT64 = range(-(2**63), 2**63)
Index = npt.NDArray[np.integer[Any]]


def change_times(messages: pa.RecordBatch) -> pa.Array:
    """When each change was made: timestamp in ms of UTC [n]; null: the message does not tell.

    Args:
        messages: columns of `MESSAGE_SCHEMA`; only ``value`` is read.
    """
    values = messages.column("value")
    if values.type != pa.binary():
        values = values.cast(pa.binary())
    present = np.flatnonzero(valid_of(values))
    times = _Times(messages.num_rows)
    for group in split_envelopes(values.drop_null(), {}):
        index = present[group.index]
        readable = looks_like_object(group.payloads) & ~deep_ones(group.payloads)
        times.parse(group.payloads.filter(pa.array(readable)), index[readable])
        times.read(group.payloads.filter(pa.array(~readable)), index[~readable])
    return pa.array(times.millis, mask=~times.known).view(_MILLIS)


class _Times:
    def __init__(self, count: int) -> None:
        self.millis = np.zeros(count, np.int64)
        self.known = np.zeros(count, np.bool_)

    def parse(self, values: pa.Array, index: Index) -> None:
        """Read many messages in columns; by halves where they do not parse together."""
        if not len(values):
            return
        columns = parse_objects(values, _FIELDS)
        if columns is None:
            if len(values) <= _FEW:
                self.read(values, index)
                return
            half = len(values) // 2
            self.parse(values.slice(0, half), index[:half])
            self.parse(values.slice(half), index[half:])
            return
        source, flat = columns
        found = pc.coalesce(pc.struct_field(source, "ts_ms"), flat)
        self.known[index] = valid_of(found)
        self.millis[index] = pc.fill_null(found, 0).to_numpy()

    def read(self, values: pa.Array, index: Index) -> None:
        """Read odd messages one by one."""
        for at, value in zip(index.tolist(), values.to_pylist(), strict=True):
            found = _time_of(value)
            if found is not None:
                self.millis[at], self.known[at] = found, True


def _time_of(value: bytes) -> int | None:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if isinstance(document, dict) and isinstance(document.get("payload"), dict):
        document = document["payload"]
    if not isinstance(document, dict):
        return None
    source = document.get("source")
    found = source.get("ts_ms") if isinstance(source, dict) else document.get(_FLAT)
    is_time = isinstance(found, int) and not isinstance(found, bool) and found in _INT64
    return found if is_time else None
