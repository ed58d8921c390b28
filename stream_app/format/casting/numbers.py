"""Casts numbers and booleans to numbers.

A value that does not fit is converted as in Java. Integers keep their low bits. Floating-point
numbers saturate at the ends of an integer's range, and NaN becomes 0. A DECIMAL is rounded half up,
and becomes null if it has too many digits.

Source: Paimon `casting/NumericPrimitiveCastRule.java`, `NumericPrimitiveToDecimalCastRule.java`,
`DecimalTo*CastRule.java`, `Boolean*CastRule.java`, `utils/DecimalUtils.java`.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.format.arrow_schema import arrow_type
from stream_app.format.casting.arrays import Doubles, array_of_numbers, numbers_of, refuse_where
from stream_app.model.schema.data_type import FLOAT_ROOTS, DataType, TypeRoot

_COMPACT_DIGITS = 18
"""The maximum digits of a DECIMAL that Java keeps in a long."""
_WIDE_DIGITS = 76
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_TINY = 1e-40
"""The bound below which a number is 0 at every scale that a DECIMAL can have."""
_HUGE = 1e38
"""The least number with more digits than a DECIMAL can have."""


def integer_to_integer(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Keep the low bits."""
    target_arrow_type = arrow_type(target_type)
    integers = numbers_of(values).astype(target_arrow_type.to_pandas_dtype())
    return array_of_numbers(integers, values, target_arrow_type)


def integer_to_float(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Convert to the nearest floating-point number."""
    return _floats(numbers_of(values), values, target_type)


def float_to_integer(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Truncate toward zero; TINYINT and SMALLINT get the low bits of the INT."""
    target_arrow_type = arrow_type(target_type)
    is_long = target_type.root is TypeRoot.BIGINT
    integers = _saturate(numbers_of(values).astype(np.float64), is_long=is_long)
    return array_of_numbers(
        integers.astype(target_arrow_type.to_pandas_dtype()), values, target_arrow_type
    )


def float_to_float(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Convert to the nearest number of the other width, or to infinity."""
    return _floats(numbers_of(values), values, target_type)


def boolean_to_number(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Convert true to 1 and false to 0."""
    bits = values.cast(pa.int8())
    if target_type.root is TypeRoot.DECIMAL:
        return fit_decimal(bits.cast(pa.int64()).cast(pa.decimal256(19, 0)), target_type)
    return bits.cast(arrow_type(target_type))


def integer_to_boolean(values: pa.Array, _: DataType, __: DataType) -> pa.Array:
    """Return whether each number differs from 0."""
    return pc.not_equal(values, pa.scalar(0, values.type))


def integer_to_decimal(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Convert integers to decimals; a number with too many digits becomes null."""
    return fit_decimal(values.cast(pa.int64()).cast(pa.decimal256(19, 0)), target_type)


def float_to_decimal(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Convert to the shortest decimal that identifies the DOUBLE, rounded half up."""
    doubles = values.cast(pa.float64())
    double_values: Doubles = numbers_of(doubles)
    refuse_where(values, ~np.isfinite(double_values), target_type)
    magnitudes = np.abs(double_values)
    # A DOUBLE has 17 digits, so each of the two scales holds all digits of its numbers.
    is_large = magnitudes >= 1
    texts = doubles.cast(pa.string())
    large_decimals = _decimals(texts, is_large & (magnitudes < _HUGE), scale=36)
    small_decimals = _decimals(texts, ~is_large & (magnitudes >= _TINY), scale=75)
    zero = pa.scalar(Decimal(0), arrow_type(target_type))
    decimals = pc.if_else(
        pa.array(is_large),
        fit_decimal(large_decimals, target_type),
        fit_decimal(small_decimals, target_type),
    )
    decimals = pc.if_else(pa.array(magnitudes < _TINY), zero, decimals)
    return pc.if_else(values.is_valid(), decimals, pa.scalar(None, decimals.type))


def _decimals(texts: pa.Array, is_chosen: Bools, *, scale: int) -> pa.Array:
    """Parse the chosen texts as decimals; the others become null."""
    chosen_texts = pc.if_else(pa.array(is_chosen), texts, pa.scalar(None, pa.string()))
    return chosen_texts.cast(pa.decimal256(_WIDE_DIGITS, scale))


def decimal_to_decimal(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Change precision and scale, rounded half up; a number with too many digits becomes null."""
    return fit_decimal(_widen(values), target_type)


def _widen(values: pa.Array) -> pa.Array:
    """Widen the decimals, for rounding and another scale."""
    return values.cast(pa.decimal256(_WIDE_DIGITS, values.type.scale))


def fit_decimal(values: pa.Array, target_type: DataType) -> pa.Array:
    """Round decimals half up to the target type; a number with too many digits becomes null.

    Args:
        values: decimals of type `decimal256`, with at most 38 digits before the point.
    """
    if values.type.scale > target_type.scale:
        values = pc.round(values, target_type.scale, round_mode="half_towards_infinity")
    values = values.cast(pa.decimal256(_WIDE_DIGITS, target_type.scale))
    value_end = pa.scalar(Decimal(10 ** (target_type.precision - target_type.scale)), values.type)
    has_too_many_digits = pc.greater_equal(pc.abs(values), value_end)
    values = pc.if_else(has_too_many_digits, pa.scalar(None, values.type), values)
    return values.cast(arrow_type(target_type))


def decimal_to_integer(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Truncate toward zero, and keep the low bits."""
    target_arrow_type = arrow_type(target_type)
    whole_numbers = pc.trunc(_widen(values)).cast(pa.decimal128(38, 0))
    integers = low_words(whole_numbers).astype(target_arrow_type.to_pandas_dtype())
    return array_of_numbers(integers, values, target_arrow_type)


def decimal_to_float(values: pa.Array, stored_type: DataType, target_type: DataType) -> pa.Array:
    """Convert as Java does, which divides short DECIMALs and parses the text of long ones."""
    if stored_type.precision <= _COMPACT_DIGITS:
        doubles = low_words(values).astype(np.float64) / np.float64(10**stored_type.scale)
    else:
        doubles = numbers_of(values.cast(pa.string()).cast(pa.float64()))
    return _floats(doubles, values, target_type)


def low_words(decimals: pa.Array) -> Int64s:
    """Return the low 64 bits of a `decimal128` array's unscaled numbers, with zero for null."""
    filled_decimals = pc.fill_null(decimals, pa.scalar(Decimal(0), decimals.type))
    if not len(filled_decimals):
        return np.zeros(0, np.int64)
    words = np.frombuffer(filled_decimals.buffers()[1], np.int64)
    return words[
        2 * filled_decimals.offset : 2 * (filled_decimals.offset + len(filled_decimals)) : 2
    ]


def _saturate(doubles: Doubles, *, is_long: bool) -> Int64s:
    minimum, maximum = (_LONG_MIN, _LONG_MAX) if is_long else (_INT_MIN, _INT_MAX)
    truncated_values = np.trunc(np.where(np.isnan(doubles), 0.0, doubles))
    is_above, is_below = truncated_values >= float(maximum), truncated_values <= float(minimum)
    integers = np.where(is_above | is_below, 0.0, truncated_values).astype(np.int64)
    return np.where(is_above, maximum, np.where(is_below, minimum, integers))


def _floats(doubles: Doubles, like: pa.Array, target_type: DataType) -> pa.Array:
    assert target_type.root in FLOAT_ROOTS, target_type
    target_arrow_type = arrow_type(target_type)
    with np.errstate(over="ignore"):  # a number beyond FLOAT's range becomes infinity
        return array_of_numbers(
            doubles.astype(target_arrow_type.to_pandas_dtype()), like, target_arrow_type
        )
