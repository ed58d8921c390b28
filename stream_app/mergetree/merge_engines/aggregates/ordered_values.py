"""Converts columns to integers that compare as Paimon compares the values.

Source: Paimon `utils/InternalRowUtils.java#compare`, `codegen/GenerateUtils.scala`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, valid_of
from stream_app.mergetree.key_value_batch import integer_view, ordered_floats


def stored_numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers of a column, [n] of its type; arbitrary for nulls.

    Args:
        column: integers or floating-point numbers; the result shares its memory.
    """
    values = np.frombuffer(column.buffers()[1], column.type.to_pandas_dtype())
    return values[column.offset : column.offset + len(column)]


def text_lengths(column: pa.Array) -> npt.NDArray[np.int32]:
    """Return the bytes of each text: int32 [n]; arbitrary for nulls."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return np.diff(offsets[column.offset : column.offset + len(column) + 1])


def fill_nulls(values: npt.NDArray[Any], is_valid: Bools, neutral: float) -> npt.NDArray[Any]:
    """Return a copy with `neutral` for nulls: [n]."""
    copy = values.copy()
    copy[np.flatnonzero(~is_valid)] = neutral
    return copy


def number_column(
    values: npt.NDArray[Any], has_value: Bools | None, data_type: pa.DataType
) -> pa.Array:
    """Return numbers as a column, null where not `has_value`; `data_type` has the same width."""
    validity = None if has_value is None else pa.array(has_value).buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(data_type, len(values), [validity, data])


def is_plain_number(data_type: pa.DataType) -> bool:
    """Return whether `ordered_integers` needs no sort."""
    return bool(pa.types.is_primitive(data_type)) and not pa.types.is_decimal(data_type)


def ordered_integers(column: pa.Array) -> Int64s:
    """Return integers in the order of the values; arbitrary for nulls.

    Args:
        column: [n] of any scalar type.

    Returns:
        int64 [n]: the values themselves, or else their ranks.
    """
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    column = ordered_floats(integer_view(column))
    if pa.types.is_integer(column.type):
        return stored_numbers(column).astype(np.int64, copy=False)
    ranks: Int64s = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def from_ordered_integers(
    values: Int64s, has_value: Bools | None, data_type: pa.DataType
) -> pa.Array:
    """Convert `ordered_integers`, int64 [n], back to values; null where not `has_value`."""
    if pa.types.is_boolean(data_type):
        return pa.array(values != 0, mask=None if has_value is None else ~has_value)
    bits = values.astype(f"i{data_type.bit_width // 8}", copy=False)
    if pa.types.is_floating(data_type):
        bits = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    return number_column(bits, has_value, data_type)


def sequence_ranks(columns: Sequence[pa.Array]) -> Int64s:
    """Return each row's rank by columns, the most significant first; nulls come first.

    Two columns of four rows::

        a    [1, null, 1, 1]
        b    [5, 9,    4, 5]
             [3, 1,    2, 3]

    Returns:
        int64 [n], from 1 on without gaps; 0 where all columns are null.
    """
    keys: list[Int64s] = []
    is_empty = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        is_valid = valid_of(column)
        is_empty &= ~is_valid
        keys.append(np.where(is_valid, ordered_integers(column), 0))
        if column.null_count:
            keys.append(is_valid.astype(np.int64))
            keys[-1], keys[-2] = keys[-2], keys[-1]
    if len(keys) == 1:
        ranks = _ranks(keys[0])
    else:
        order = np.lexsort(keys[::-1])
        differs = np.zeros(len(order), np.bool_)
        for key in keys:
            differs[1:] |= key[order[1:]] != key[order[:-1]]
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.cumsum(differs) + 1
    return np.where(is_empty, 0, ranks)


def _ranks(values: Int64s) -> Int64s:
    """Return ranks from 1 on; in a small range the values serve as ranks, with gaps."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low < 1 << 31:
        return values - (low - 1)
    return np.unique(values, return_inverse=True)[1].astype(np.int64).reshape(-1) + 1
