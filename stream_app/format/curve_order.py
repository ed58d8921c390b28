"""Computes rows' positions on Morton's curve (Z-order) and Hilbert's curve through several columns.

A column's value becomes a 64-bit word with the order of values. Only the first eight bytes of a
text count, and nulls come first. A position on a curve has as many words as there are columns.

Source: Paimon `sort/zorder/ZIndexer.java`, `sort/zorder/ZOrderByteUtils.java`; Skilling,
"Programming the Hilbert curve", 2004.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.format.binary_row_columns import Words, text_words
from stream_app.format.file_index.index_values import index_numbers, sort_keys
from stream_app.model.schema.data_type import BINARY_ROOTS, STRING_ROOTS, DataType, TypeRoot

_BITS = 64
_SIGN = np.uint64(1 << 63)
_PREFIX_MASKS = np.array([0, *((1 << _BITS) - (1 << 8 * (8 - n)) for n in range(1, 9))], np.uint64)
"""Keeps the first 0 to 8 bytes of a big-endian word."""


def ordered_words(values: pa.Array, data_type: DataType) -> Words:
    """Return the words of a column's values: uint64 [n].

    Only the upper 64 bits of a DECIMAL of more than 18 digits count.
    """
    words = np.zeros(len(values), dtype=np.uint64)
    is_valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
    present_values = values.drop_null()
    if data_type.root in STRING_ROOTS | BINARY_ROOTS:
        text = text_words(present_values)
        prefix = text.words_at[text.starts].byteswap()
        words[is_valid] = prefix & _PREFIX_MASKS[np.minimum(text.lengths, 8)]
    elif data_type.root is TypeRoot.DECIMAL:
        halves = np.frombuffer(present_values.buffers()[1], dtype=np.uint64).reshape(-1, 2)
        upper = int(data_type.precision > 18)
        words[is_valid] = (
            halves[present_values.offset : present_values.offset + len(present_values), upper]
            ^ _SIGN
        )
    else:
        keys = sort_keys(index_numbers(present_values, data_type), data_type)
        words[is_valid] = keys.astype(np.int64).view(np.uint64) ^ _SIGN
    return words


def z_order(columns: Sequence[Words]) -> list[Words]:
    """Return the positions on Morton's curve, which interleave the columns' bits.

    Two rows of two columns of two bits, 10 and 01, and 11 and 00, have the positions 1001 and 1010.

    Args:
        columns: uint64 [n] each.

    Returns:
        As many uint64 [n], the most significant first.
    """
    positions = [np.zeros_like(column) for column in columns]
    for bit in range(_BITS * len(columns)):
        position, column = positions[bit // _BITS], columns[bit % len(columns)]
        ones = column >> np.uint64(_BITS - 1 - bit // len(columns)) & np.uint64(1)
        position |= ones << np.uint64(_BITS - 1 - bit % _BITS)
    return positions


def hilbert_order(columns: Sequence[Words]) -> list[Words]:
    """Return the positions on Hilbert's curve; arguments and result are those of `z_order`.

    Neighbours on this curve differ by one in one column only. Four rows of two columns::

        columns    [0, 1, 1, 0]   [0, 0, 1, 1]
        positions  [0, 1, 2, 3]   the last word; the first is 0
        z_order    [0, 2, 3, 1]   takes a longer step from 1 to 2
    """
    axes = [column.copy() for column in columns]
    for bit in reversed(range(1, _BITS)):
        lower_bits = np.uint64((1 << bit) - 1)
        for index in range(len(axes)):
            is_set = (axes[index] >> np.uint64(bit) & np.uint64(1)).astype(bool)
            swapped_bits = np.where(is_set, np.uint64(0), (axes[0] ^ axes[index]) & lower_bits)
            axes[0] ^= np.where(is_set, lower_bits, swapped_bits)
            if index:
                axes[index] ^= swapped_bits
    for index in range(1, len(axes)):
        axes[index] ^= axes[index - 1]
    inversion = np.zeros_like(axes[0])
    for bit in reversed(range(1, _BITS)):
        is_set = (axes[-1] >> np.uint64(bit) & np.uint64(1)).astype(bool)
        inversion ^= np.where(is_set, np.uint64((1 << bit) - 1), np.uint64(0))
    return z_order([axis ^ inversion for axis in axes])
