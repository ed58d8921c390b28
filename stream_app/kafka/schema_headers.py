"""Moves a message's schema header in front of its key or value, where older serializers put it.

`range_reader` uses it for formats whose options name such headers. Each header takes two calls of
librdkafka; the bytes are copied and joined in columns.

Source: librdkafka `rdkafka.h`, `rd_kafka_header_get_last`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.schema_registry_port import SchemaHeaders
from stream_app.kafka.librdkafka import load_librdkafka
from stream_app.kafka.message_columns import WORD, copy_cells


@dataclass(frozen=True, slots=True)
class HeaderMover:
    """A mover of schema headers in front of messages' keys and values; None moves none."""

    headers: SchemaHeaders | None

    def prepend(self, messages: pa.RecordBatch, pointers: Int64s) -> pa.RecordBatch:
        """Put the headers before the keys and values of messages [n].

        A null, and a message without the header, stay as they are.

        Args:
            pointers: their addresses in librdkafka, int64 [n].
        """
        if self.headers is None:
            return messages
        lists: Int64s = np.zeros(len(pointers), np.int64)
        codes = map(
            load_librdkafka().message_headers, pointers.tolist(), _addresses(lists).tolist()
        )
        deque(codes, maxlen=0)
        for column, name in (("key", self.headers.key), ("value", self.headers.value)):
            column_index = messages.schema.get_field_index(column)
            heads = _header_values(lists, name.encode())
            if heads.null_count < len(heads):
                cells = messages.column(column_index)
                magic = pa.scalar(self.headers.magic, pa.binary())
                headed_cells = pc.binary_join_element_wise(magic, heads, cells, b"")
                messages = messages.set_column(
                    column_index,
                    messages.schema.field(column_index),
                    pc.coalesce(headed_cells, cells),
                )
        return messages


def _header_values(lists: Int64s, name: bytes) -> pa.Array:
    """Return the newest header of a name in each list; null without one."""
    values: Int64s = np.zeros(len(lists), np.int64)
    lengths: Int64s = np.zeros(len(lists), np.int64)
    indices = np.flatnonzero(lists)
    deque(
        map(
            load_librdkafka().header_get_last,
            lists[indices].tolist(),
            repeat(name),
            _addresses(values)[indices].tolist(),
            _addresses(lengths)[indices].tolist(),
        ),
        maxlen=0,
    )
    return copy_cells(values, lengths)


def _addresses(words: Int64s) -> Int64s:
    addresses: Int64s = words.ctypes.data + WORD * np.arange(len(words), dtype=np.int64)
    return addresses
