"""Combines the values of a segment into a value that no row has.

Source: Paimon `mergetree/compact/aggregate/FieldAggregator.java`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    ChangeOp,
    SegmentChanges,
    SegmentValues,
)

Combine = Callable[[pa.Array, Int64s], pa.Array]
"""Values [m] of k groups, in order; where each begins and the last one ends, int64 [k + 1] → one
value a group. A group has two values at least."""


def is_counted_change(column: pa.Array, changes: SegmentChanges) -> Bools:
    """Return the mask of changes with a value that still counts: bool [changes]."""
    if changes.ops is None:
        return changes.is_valid(column)
    return (
        changes.is_valid(column)
        & changes.is_since_restart()
        & ~changes.is_any(ChangeOp.SKIP, ChangeOp.CLEAR)
    )


def combine_segments(
    column: pa.Array, changes: SegmentChanges, is_counted: Bools, combine: Combine
) -> SegmentValues:
    """Combine each segment into one value. A single value stays unchanged, and no value gives null.

    Three segments of four changes, whose values are added up::

        column          [1, 2, 4, null]
        starts          [0,    2, 3]
        is_counted      [T, T, T, F]
        sizes           [2,    1, 0]
        results         [3]             of the segment with several values
        result_indices  [4, 2, -1]      4 is the index of the first result, after the column
                        [3, 4, null]

    Args:
        is_counted: bool [changes]; the changes whose values are combined.
    """
    indices, sizes = changes.in_order(is_counted), changes.sums(is_counted.astype(np.int64))
    ends = np.cumsum(sizes)
    result_indices = np.full(len(sizes), -1, dtype=np.int64)
    nonempty_indices = np.flatnonzero(sizes)
    result_indices[nonempty_indices] = changes.row_indices[indices[ends[nonempty_indices] - 1]]
    multi_value_indices = np.flatnonzero(sizes > 1)
    if not len(multi_value_indices):
        return result_indices
    combined_indices = indices[np.flatnonzero(np.repeat(sizes > 1, sizes))]
    values = column.take(pa.array(changes.row_indices[combined_indices]))
    results = combine(values, np.cumsum(np.concatenate(([0], sizes[multi_value_indices]))))
    result_indices[multi_value_indices] = len(column) + np.arange(len(multi_value_indices))
    return pa.concat_arrays([column, results]).take(
        pa.array(result_indices, mask=result_indices < 0)
    )
