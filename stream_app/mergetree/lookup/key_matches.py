"""Finds keys among the rows of a file: a semi-join of two sorted batches.

Used by key_lookup. Whole columns at a time: integers by binary search, other keys by numbers that
Arrow's hash tables give to their values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.mergetree.key_value_batch import Indices, Mask, integer_view


def key_matches(
    keys: pa.RecordBatch, rows: pa.RecordBatch, names: Sequence[str]
) -> tuple[Indices, Indices]:
    """Which keys are among the rows.

    Three keys and four rows::

        keys       [3, 5, 9]
        rows       [1, 3, 4, 9]
        at         [0, 2]
        places     [1, 3]

    Args:
        keys: distinct, ascending; columns `names` [n].
        rows: ascending keys, none twice; columns `names`, and others [m].
        names: the columns of the key.

    Returns:
        `at`, int64 [k]: the place of each key that was found, ascending. `places`, int64 [k]: its
        row.
    """
    if len(names) > 1:
        return _of_any(keys, rows, names)
    wanted, stored = (integer_view(batch.column(names[0])) for batch in (keys, rows))
    if pa.types.is_integer(wanted.type) and not wanted.null_count + stored.null_count:
        return _of_integers(wanted, stored)
    numbers = pc.index_in(stored, wanted)
    return numbers.drop_null().to_numpy().astype(np.int64), np.flatnonzero(_valid(numbers))


def _valid(column: pa.Array) -> Mask:
    """Where a column has a value: bool [n]."""
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _of_integers(wanted: pa.Array, stored: pa.Array) -> tuple[Indices, Indices]:
    keys, rows = (column.to_numpy(zero_copy_only=False) for column in (wanted, stored))
    places = np.searchsorted(rows, keys)
    inside = np.flatnonzero(places < len(rows))
    at = inside[rows[places[inside]] == keys[inside]]
    return at, places[at]


def _of_any(
    keys: pa.RecordBatch, rows: pa.RecordBatch, names: Sequence[str]
) -> tuple[Indices, Indices]:
    """Column by column: a number for each key so far, and the rows that still may have one.

    Keys (a, 1), (a, 2), (b, 2) have the numbers 0, 0, 1 after the first column, 0, 1, 2 after both.
    """
    numbers = np.zeros(keys.num_rows, np.int64)
    places = np.arange(rows.num_rows)
    of_rows = np.zeros(rows.num_rows, np.int64)
    for name in names:
        values = pc.unique(keys.column(name))
        codes = pc.index_in(keys.column(name), values).to_numpy()
        row_codes = pc.index_in(rows.column(name).take(pa.array(places)), values)
        known = _valid(row_codes)
        pairs = of_rows[known] * len(values) + row_codes.drop_null().to_numpy()
        distinct, numbers = np.unique(numbers * len(values) + codes, return_inverse=True)
        nearest = np.minimum(np.searchsorted(distinct, pairs), max(len(distinct) - 1, 0))
        hit = distinct[nearest] == pairs
        places, of_rows = places[known][hit], nearest[hit]
    key_of_number = np.empty(keys.num_rows, np.int64)
    key_of_number[numbers] = np.arange(keys.num_rows)
    return key_of_number[of_rows], places
