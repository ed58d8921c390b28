"""Converts JSON texts into values and dictionaries of VARIANTs, in bounded parts of a column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Bytes, Int64s, offsets_of, own_bytes
from stream_app.machine_code.compiler import compiled
from stream_app.variants.compiled.document_nodes import NodeBuffers, list_nodes
from stream_app.variants.compiled.member_numbers import MemberBuffers, number_members
from stream_app.variants.compiled.number_bytes import DoubleBuffers
from stream_app.variants.compiled.value_bytes import put_metadata, put_value
from stream_app.variants.layout import SIZE_MAX, VARIANT_NESTING_MAX

EncodedPart = tuple[pa.Array, pa.Array, Bools]
"""Values and dictionaries, binary [m]; and the mask of texts that are not documents, bool [m]."""
_PART_SIZE = 1 << 20
_TEXT_END = np.frombuffer(b'",' + bytes(30), np.uint8)
"""Bytes that end a text without an end of its own."""
_GROWTH, _HEAD = 4, 16
"""Bytes of output for each byte of a text, and for each text, at most. The worst is an array of
empty arrays: ``[],`` becomes three bytes and an offset of four."""
_NODE_ROW_COUNT = NodeBuffers._fields.index("scratch")
_MEMBER_ROW_COUNT = MemberBuffers._fields.index("last_counts")
_DOUBLE_ROW_COUNT = DoubleBuffers._fields.index("double_count")
"""The buffers with a row for each node, member and double, which precede the others."""


def encode_documents(texts: pa.Array) -> Iterator[EncodedPart]:
    """Encode texts part by part.

    Args:
        texts: string [n] without nulls.
    """
    row_index, offsets = 0, offsets_of(texts)
    while row_index < len(texts):
        byte_offset_max = offsets[row_index] + _PART_SIZE
        end = max(int(np.searchsorted(offsets, byte_offset_max, side="right")) - 1, row_index + 1)
        yield _encode_part(texts.slice(row_index, end - row_index))
        row_index = end


def _encode_part(column: pa.Array) -> EncodedPart:
    """Encode texts at once, in buffers that suffice for the longest text.

    Args:
        column: string [m] without nulls.
    """
    # A comma follows each text, because a text may be a number, which has no closing sign.
    data, offsets = own_bytes(pc.binary_join_element_wise(column, ",", ""))
    texts = np.concatenate([data, _TEXT_END])
    text_addresses = offsets + texts.ctypes.data
    count, size = len(column), len(data)
    longest_size = int(np.diff(offsets).max())
    # A value or an open bracket has two bytes.
    node_count_max = longest_size // 2 + VARIANT_NESTING_MAX + _HEAD
    memory = np.empty((_NODE_ROW_COUNT + _MEMBER_ROW_COUNT, node_count_max), np.int64)
    scratch = np.empty(longest_size + 8, np.uint8)
    scratch_end, double_count = np.zeros((2, 1), np.int64)
    last_counts = np.array([-1, 0, 0], np.int64)  # no previous document
    doubles = np.empty((_DOUBLE_ROW_COUNT, size // 3 + 1), np.int64)
    out = [
        np.empty(_GROWTH * size + _HEAD * (count + VARIANT_NESTING_MAX), np.uint8) for _ in range(2)
    ]
    sizes = np.zeros((2, count), np.int64)
    addresses = [int(array.ctypes.data) for array in memory]
    starts = _encode_texts(
        text_addresses,
        sizes,
        (int(out[0].ctypes.data) + len(out[0]), int(out[1].ctypes.data) + len(out[1])),
        NodeBuffers._make(
            [*addresses[:_NODE_ROW_COUNT], int(scratch.ctypes.data), int(scratch_end.ctypes.data)]
        ),
        MemberBuffers._make([*addresses[_NODE_ROW_COUNT:], int(last_counts.ctypes.data)]),
        DoubleBuffers._make(
            [*(int(array.ctypes.data) for array in doubles), int(double_count.ctypes.data)]
        ),
    )
    has_failed: Bools = sizes[0] == 0
    has_failed |= sizes.max(axis=0) > SIZE_MAX
    _put_doubles(out[0], texts, doubles[:, : double_count[0]], has_failed)
    values, metadata = (
        _binary_column(array[start - int(array.ctypes.data) :], lengths)
        for array, start, lengths in zip(out, starts, sizes, strict=True)
    )
    return values, metadata, has_failed


@compiled
def _encode_texts(
    text_addresses: Int64s,
    sizes: Int64s,
    ends: tuple[int, int],
    nodes: NodeBuffers,
    buffers: MemberBuffers,
    doubles: DoubleBuffers,
) -> tuple[int, int]:
    """Encode texts from the last to the first; return where both outputs begin.

    Args:
        text_addresses: int64 [n + 1]; the address at which each text begins, one byte after the
            previous text's end.
    """
    value_cursor, metadata_cursor = ends
    for row_index in range(len(text_addresses) - 2, -1, -1):
        node_count = list_nodes(text_addresses[row_index], text_addresses[row_index + 1] - 1, nodes)
        if node_count < 0:
            continue
        member_count = number_members(node_count, nodes, buffers)
        if member_count < 0:
            continue
        start = put_value(node_count, value_cursor, row_index, nodes, buffers, doubles)
        sizes[0, row_index] = value_cursor - start
        value_cursor = start
        start = put_metadata(member_count, metadata_cursor, nodes, buffers)
        sizes[1, row_index] = metadata_cursor - start
        metadata_cursor = start
    return value_cursor, metadata_cursor


def _put_doubles(out: Bytes, texts: Bytes, doubles: Int64s, has_failed: Bools) -> None:
    # The loop covers only the few numbers that have an exponent or more than 38 digits.
    for address, text_address, size, row_index in doubles.T.tolist():
        start = text_address - int(texts.ctypes.data)
        value = np.float64(texts[start : start + size].tobytes())
        has_failed[row_index] |= bool(np.isinf(value))
        byte_offset = address - int(out.ctypes.data)
        out[byte_offset : byte_offset + 8] = np.frombuffer(value.tobytes(), np.uint8)


def _binary_column(data: Bytes, sizes: Int64s) -> pa.Array:
    bounds = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
