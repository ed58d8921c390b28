"""Encodes columns of any type as numbers that are equal exactly if the values are equal.

Merge engines and `key_differences` call it for nested columns, which Arrow neither hashes nor
compares.

Source: Paimon `codegen/GenerateUtils.scala#generateEquals`, which compares maps without regard to
the order of their entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.key_value_batch import integer_view, ordered_floats


def value_codes(column: pa.Array) -> Int64s:
    """Return a number for each value, equal for equal values, 0 for null: int64 [n]."""
    arrow_type = column.type
    if pa.types.is_struct(arrow_type):
        # `flatten` returns nulls for the fields of a null row.
        codes = combined_codes([value_codes(child) for child in column.flatten()], len(column))
    elif pa.types.is_map(arrow_type):
        codes = _map_codes(column)
    elif pa.types.is_list(arrow_type):
        bounds, elements = bounds_of_lists(column)
        codes = _sequence_codes(value_codes(elements), bounds)
    else:
        encoded_column = ordered_floats(integer_view(column)).dictionary_encode()
        indices: Int64s = encoded_column.indices.fill_null(-1).to_numpy().astype(np.int64)
        return indices + 1
    if column.null_count:
        codes = np.where(column.is_valid().to_numpy(zero_copy_only=False), codes, 0)
    return codes


def combined_codes(codes: Sequence[Int64s], count: int) -> Int64s:
    """Combine columns of codes: return a number from 1 on, equal for equal rows: int64 [count].

    Two columns of three rows::

        [[1, 1, 2], [5, 5, 5]]
        [1, 1, 2]
    """
    if not codes:
        return np.ones(count, np.int64)
    rows = np.stack(codes, axis=1)
    return _sequence_codes(rows.reshape(-1), np.arange(count + 1, dtype=np.int64) * len(codes))


def bounds_of_lists(column: pa.Array) -> tuple[Int64s, pa.Array]:
    """Return the bounds of each list's or map's elements, and the elements.

    Returns:
        int64 [n + 1] from 0 on, and the elements, which for a map are its entries as structs. A
        null has no elements.
    """
    if column.null_count:
        column = column.take(pa.array(np.arange(len(column))))  # this makes nulls have no elements
    offsets = column.offsets.to_numpy().astype(np.int64)
    first_offset = int(offsets[0]) if len(offsets) else 0
    if pa.types.is_map(column.type):
        elements = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    else:
        elements = column.values
    return offsets - first_offset, elements.slice(first_offset, int(offsets[-1]) - first_offset)


def _map_codes(column: pa.Array) -> Int64s:
    bounds, entries = bounds_of_lists(column)
    keys, values = map(value_codes, entries.flatten())
    owners = np.repeat(np.arange(len(column)), np.diff(bounds))
    order = np.lexsort((values, keys, owners))
    return _sequence_codes(combined_codes([keys[order], values[order]], len(order)), bounds)


def _sequence_codes(codes: Int64s, bounds: Int64s) -> Int64s:
    """Return a number from 1 on for each list of numbers between bounds, equal for equal lists."""
    offsets = pa.py_buffer(np.ascontiguousarray(bounds * 8))
    data = pa.py_buffer(np.ascontiguousarray(codes, np.int64))
    runs = pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, [None, offsets, data])
    group_codes: Int64s = runs.dictionary_encode().indices.to_numpy().astype(np.int64) + 1
    return group_codes


def has_same_values(left: pa.Array, right: pa.Array) -> Bools:
    """Return the mask of equal values, including nulls, in two nested columns: bool [n]."""
    codes = value_codes(pa.concat_arrays([left, right]))
    is_same: Bools = codes[: len(left)] == codes[len(left) :]
    return is_same
