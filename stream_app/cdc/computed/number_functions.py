"""truncate of numbers: down to a multiple of a width, below zero as well.

Source: Paimon `flink/action/cdc/Expression.java#TruncateComputer`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.columns.arrow_buffers import any_of, null_where, valid_of
from stream_app.cdc.columns.decimal_columns import within_precision
from stream_app.cdc.columns.time_columns import Casted, cast_isolating

WIDTH_MAX = 2**31 - 1
_INT64_MIN = -(2**63)


def truncate_integers(values: pa.Array, width: int) -> Casted:
    """``v - floormod(v, width)`` as integers of the same type; fails where that is too small."""
    numbers = pc.fill_null(values, 0).cast(pa.int64()).to_numpy()
    rest = np.mod(numbers, width)
    fits = valid_of(values) & (numbers >= _INT64_MIN + rest)
    truncated = pa.array(np.where(fits, numbers, rest) - rest)
    integers = cast_isolating(null_where(truncated, ~fits), values.type)
    return integers, any_of(valid_of(values) & ~valid_of(integers))


def truncate_decimals(values: pa.Array, width: int) -> Casted:
    """The same of the unscaled numbers [n]: 12.34 by 10 is 12.30.

    An unscaled number is ``high * 2^64 + low``. The width is below 2^31, so all remainders and
    their products fit into 64 bits.
    """
    if not len(values):
        return values, None
    words = np.frombuffer(values.buffers()[1], "<i8").reshape(-1, 2)
    words = words[values.offset : values.offset + len(values)]
    low, high = np.ascontiguousarray(words[:, 0]).view(np.uint64), words[:, 1]
    shift = np.int64(2**64 % width)
    rest = np.mod(high, width) * shift % width + (low % np.uint64(width)).astype(np.int64)
    rest = np.mod(rest, width).astype(np.uint64)
    result = np.empty((len(values), 2), np.int64)
    result[:, 0] = (low - rest).view(np.int64)  # without a sign, it wraps around
    result[:, 1] = high - (low < rest)
    truncated = pa.Array.from_buffers(
        values.type, len(values), [None, pa.py_buffer(result.tobytes())]
    )
    return within_precision(null_where(truncated, ~valid_of(values)))
