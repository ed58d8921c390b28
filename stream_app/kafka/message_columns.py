"""Converts messages of librdkafka to Arrow columns, without an object for each message.

`range_reader` calls it with the addresses of messages of one partition. A message is a struct at
its address. Its key and value are in the buffer from the broker, mostly one after another. So NumPy
collects addresses and lengths of all cells, and Arrow copies the cells. Arrow views a stretch of
memory as an array in which cells and gaps alternate, and takes every second element.

The module reads only memory of messages that are not yet released. These are the structs, the cells
to which they point, and the word that `message_stamps` reads.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.kafka.librdkafka import Message

WORD = 8
"""The number of bytes of an address, and of an offset."""
_INT32S_IN_WORD = 2
_STRETCH_GAP_MAX = 64 << 10
"""The maximum gap between cells of a stretch: Arrow allocates by the length of a stretch."""
_MILLI_MICROS = 1000


class MessageFields(NamedTuple):
    """The fields of messages, each an array of shape (messages,).

    Attributes:
        errors: codes; 0 marks a message.
        values, keys: addresses; 0 for null.
    """

    errors: npt.NDArray[Any]
    offsets: Int64s
    values: Int64s
    value_lengths: Int64s
    keys: Int64s
    key_lengths: Int64s


def message_fields(pointers: Int64s) -> MessageFields:
    """Read the structs at these addresses."""
    base = int(pointers.min())
    memory = pa.foreign_buffer(base, int(pointers.max()) - base + _struct_size())
    words = np.frombuffer(memory, np.int64)
    word_index = (pointers - base) // WORD
    codes = np.frombuffer(memory, np.int32)

    def field(name: str) -> Int64s:
        field_offset: int = getattr(Message, name).offset
        values: Int64s = words[word_index + field_offset // WORD]
        return values

    return MessageFields(
        errors=codes[word_index * _INT32S_IN_WORD],
        offsets=field("offset"),
        values=field("payload"),
        value_lengths=field("len"),
        keys=field("key"),
        key_lengths=field("key_len"),
    )


def words_of(pointers: Int64s, word_index: int) -> Int64s:
    """Return the word of this number, counted from 0, of the memory at each of these addresses."""
    base = int(pointers.min())
    memory = pa.foreign_buffer(base, int(pointers.max()) - base + (word_index + 1) * WORD)
    words: Int64s = np.frombuffer(memory, np.int64)[(pointers - base) // WORD + word_index]
    return words


def message_batch(
    topic: str, partition: int, fields: MessageFields, timestamps: Int64s
) -> pa.RecordBatch:
    """Return a batch of `MESSAGE_SCHEMA`, which owns copies.

    Args:
        timestamps: milliseconds since 1970; -1 for a message without one.
    """
    count = len(fields.offsets)
    types = dict(zip(MESSAGE_SCHEMA.names, MESSAGE_SCHEMA.types, strict=True))
    columns = [
        pa.repeat(pa.scalar(topic, types["topic"]), count),
        pa.repeat(pa.scalar(partition, types["partition"]), count),
        pa.array(fields.offsets),
        pa.array(timestamps * _MILLI_MICROS).cast(types["timestamp"]),
        copy_cells(fields.keys, fields.key_lengths),
        copy_cells(fields.values, fields.value_lengths),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


def copy_cells(addresses: Int64s, lengths: Int64s) -> pa.Array:
    """Return binary cells, copied from these addresses; the address 0 is a null."""
    has_address = addresses != 0
    if has_address.all():
        return _copy_each(addresses, lengths)
    if not has_address.any():
        return pa.nulls(len(addresses), pa.binary())
    # A null is an empty cell at the address of its neighbour, and a bit.
    nearest_indices = np.maximum.accumulate(
        np.where(has_address, np.arange(len(has_address)), np.argmax(has_address))
    )
    cells = _copy_each(addresses[nearest_indices], np.where(has_address, lengths, 0))
    bits = pa.py_buffer(np.packbits(has_address, bitorder="little"))
    return pa.Array.from_buffers(
        pa.binary(), len(cells), [bits, *cells.buffers()[1:]], int((~has_address).sum())
    )


def _copy_each(addresses: Int64s, lengths: Int64s) -> pa.Array:
    ends = addresses + lengths
    gaps = addresses[1:] - ends[:-1]
    later_starts = np.flatnonzero((gaps < 0) | (gaps > _STRETCH_GAP_MAX)) + 1
    bounds = [0, *later_starts.tolist(), len(addresses)]
    stretches = [
        _copy_ascending(addresses[start:end], ends[start:end])
        for start, end in itertools.pairwise(bounds)
    ]
    return pa.concat_arrays(stretches).cast(pa.binary())


def _copy_ascending(starts: Int64s, ends: Int64s) -> pa.Array:
    """Copy cells whose addresses ascend."""
    base = int(starts[0])
    bounds: npt.NDArray[Any] = np.empty((len(starts), 2), np.int64)
    bounds[:, 0], bounds[:, 1] = starts - base, ends - base
    # The last cell has no gap after it, so the last bound is repeated.
    offsets = np.append(bounds.reshape(-1), bounds[-1, 1])
    memory = pa.foreign_buffer(base, max(int(bounds[-1, 1]), 1))
    cells_and_gaps = pa.Array.from_buffers(
        pa.large_binary(), 2 * len(starts), [None, pa.py_buffer(offsets), memory]
    )
    return cells_and_gaps.take(pa.array(np.arange(0, 2 * len(starts), 2)))


def _struct_size() -> int:
    # Whole words: the struct ends with a pointer.
    return Message._private.offset + WORD
