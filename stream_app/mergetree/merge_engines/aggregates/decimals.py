"""Decimal columns as whole numbers of their last digit, and Java's arithmetic of them.

Numbers of up to 18 digits are int64. Longer ones are Python integers in an array of objects, whose
operations NumPy applies to all of them.

Source: Paimon `data/Decimal.java#fromBigDecimal`, `utils/DecimalUtils.java`; Java's `BigDecimal`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.errors import MergeError
from stream_app.mergetree.key_value_batch import Indices, Mask

STORED_AS_INT32 = 9
"""Digits of decimals that Parquet files hold in 32 bits."""
COMPACT_PRECISION = 18
"""Digits that fit into 64 bits."""
_ENDS_WITHIN = 10**130
"""Digits within which every finite quotient of two 38-digit numbers ends."""
Integers = npt.NDArray[Any]
"""Python integers, object [n]."""


def _limbs(column: pa.Array) -> Indices:
    """Low and high 64 bits: int64 [n, 2]; anything for nulls."""
    values = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    limbs: Indices = values[column.offset : column.offset + len(column)]
    return limbs


def compact_integers(column: pa.Array) -> Indices:
    """Decimals of up to 18 digits: int64 [n]."""
    return np.ascontiguousarray(_limbs(column)[:, 0])


def integers(column: pa.Array) -> Integers:
    """Decimals of any precision: object [n]."""
    limbs = _limbs(column)
    low = limbs[:, 0].astype(np.uint64).astype(object)
    whole: Integers = limbs[:, 1].astype(object) * (1 << 64) + low
    return whole


def from_compact_integers(values: Indices, has: Mask, kind: pa.DataType) -> pa.Array:
    """int64 [n] → decimals; null where not `has`. A value may have more digits than the type."""
    limbs = np.stack([values, values >> 63], axis=1)
    return _from_limbs(limbs, has, kind)


def from_integers(values: Integers, has: Mask, kind: pa.DataType) -> pa.Array:
    """Python integers → decimals; null where not `has`."""
    values = np.where(has, values, 0)
    low = (values & ((1 << 64) - 1)).astype(np.uint64).view(np.int64)
    return _from_limbs(np.stack([low, (values >> 64).astype(np.int64)], axis=1), has, kind)


def _from_limbs(limbs: Indices, has: Mask, kind: pa.DataType) -> pa.Array:
    validity = pa.array(has).buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(limbs))
    return pa.Array.from_buffers(kind, len(has), [validity, data])


def overflows(values: Integers, kind: pa.DataType, *, is_sum: bool) -> Mask:
    """Which results become null. Java does not check sums of up to 18 digits but for 64 bits."""
    digits_max = 10**kind.precision
    bound = 1 << 63 if is_sum and kind.precision <= COMPACT_PRECISION else digits_max
    return np.asarray(np.abs(values) >= bound, np.bool_)


def product(one: Integers, other: Integers, scale: int) -> Integers:
    """Products at the same scale, rounded half up (away from zero)."""
    return _rounded(one * other, 10**scale)


def quotient(dividend: Integers, divisor: Integers, scale: int) -> Integers:
    """Quotients at the same scale, rounded half up.

    Raises:
        MergeError: a divisor is zero, or a quotient has no end (1 ÷ 3), which Java refuses.
    """
    if (divisor == 0).any() or ((dividend * _ENDS_WITHIN) % divisor != 0).any():
        raise MergeError(
            "the aggregate function product cannot undo a row: a decimal quotient has no end",
            fix="set fields.<column>.ignore-retract = true",
        )
    sign = np.where(divisor < 0, -1, 1).astype(object)
    return _rounded(dividend * 10**scale * sign, np.abs(divisor))


def _rounded(numerator: Integers, denominator: Any) -> Integers:
    magnitude: Integers = (2 * np.abs(numerator) + denominator) // (2 * denominator)
    return np.where(numerator < 0, -magnitude, magnitude)
