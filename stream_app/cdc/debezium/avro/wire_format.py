"""Confluent's wire format: a zero, the number of a schema, and the value."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from stream_app.cdc.columns.arrow_buffers import Int64s, bytes_of, lengths_of, offsets_of
from stream_app.cdc.record_images import UnreadableRecordError
from stream_app.cdc.schemas import NO_AVRO

MAGIC = 0
HEAD = struct.Struct(">BI")


def schema_number(message: bytes) -> int:
    """The number of a message's schema.

    Raises:
        UnreadableRecordError: the message is not in Confluent's wire format.
    """
    if len(message) < HEAD.size or message[0] != MAGIC:
        raise UnreadableRecordError(NO_AVRO)
    return int(HEAD.unpack_from(message)[1])


def schema_numbers(values: pa.Array) -> Int64s:
    """The number of each message's schema; -1: it is not in Confluent's wire format.

    Args:
        values: binary [n] without nulls.
    """
    offsets, data = offsets_of(values).astype(np.int64), bytes_of(values)
    numbers: Int64s = np.full(len(values), -1, np.int64)
    rows = np.flatnonzero(lengths_of(values) >= HEAD.size)
    rows = rows[data[offsets[rows]] == MAGIC]
    head = data[offsets[rows][:, None] + np.arange(1, HEAD.size)]
    numbers[rows] = np.ascontiguousarray(head).view(">u4")[:, 0]
    return numbers


def by_number(numbers: Int64s) -> Iterator[tuple[int, Int64s]]:
    """The positions of each number, ascending; takes n log n steps for any count of numbers.

    Args:
        numbers: int64 [n].
    """
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=numbers[order[0]] - 1))
    for places in np.split(order, begins[1:]):  # a loop over schemas
        yield int(numbers[places[0]]), places
