"""Computes ``sum`` and ``product`` with Java's arithmetic.

Integers overflow silently, floating-point numbers are added one after another, and a decimal that
overflows becomes null. Decimals are computed as unscaled integers. Up to 18 digits they are int64.
Longer ones are Python integers in an object array, on which NumPy operates element by element.

Source: Paimon 1.4 `mergetree/compact/aggregate/FieldSumAgg.java`, `FieldProductAgg.java`,
`utils/DecimalUtils.java`, `data/Decimal.java#fromBigDecimal`; Java's `BigDecimal`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s, valid_of
from stream_app.errors import MergeError
from stream_app.mergetree.merge_engines.aggregates.chosen_values import nearest_valid
from stream_app.mergetree.merge_engines.aggregates.combined_values import is_counted_change
from stream_app.mergetree.merge_engines.aggregates.ordered_values import (
    fill_nulls,
    number_column,
    stored_numbers,
)
from stream_app.mergetree.merge_engines.aggregates.segment_changes import ChangeOp, SegmentChanges
from stream_app.model.schema.merge.merge_rules import ColumnAggregate

INT32_PRECISION = 9
"""Digits of decimals that Parquet files store in 32 bits."""
COMPACT_PRECISION = 18
"""Digits that fit into 64 bits."""
_QUOTIENT_FACTOR = 10**130
"""A factor that makes every finite quotient of two 38-digit numbers whole."""
Integers = npt.NDArray[Any]
"""Python integers, object [n]."""
_NEUTRAL = -0.0
"""A neutral summand, which leaves each number unchanged; 0.0 would turn -0.0 into 0.0."""
_Values = npt.NDArray[Any]


def _limbs(column: pa.Array) -> Int64s:
    """Return the low and high 64 bits of decimals: int64 [n, 2]; arbitrary for nulls."""
    values = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    limbs: Int64s = values[column.offset : column.offset + len(column)]
    return limbs


def compact_integers(column: pa.Array) -> Int64s:
    """Return the unscaled numbers of decimals with up to 18 digits: int64 [n]."""
    return np.ascontiguousarray(_limbs(column)[:, 0])


def integers(column: pa.Array) -> Integers:
    """Return the unscaled numbers of decimals of any precision: object [n]."""
    limbs = _limbs(column)
    low = limbs[:, 0].astype(np.uint64).astype(object)
    unscaled_values: Integers = limbs[:, 1].astype(object) * (1 << 64) + low
    return unscaled_values


def from_compact_integers(values: Int64s, has_value: Bools, data_type: pa.DataType) -> pa.Array:
    """Convert int64 [n] to decimals, null where not `has_value`.

    A value may exceed the type's digits.
    """
    limbs = np.stack([values, values >> 63], axis=1)
    return _from_limbs(limbs, has_value, data_type)


def from_integers(values: Integers, has_value: Bools, data_type: pa.DataType) -> pa.Array:
    """Convert Python integers to decimals; null where not `has_value`."""
    values = np.where(has_value, values, 0)
    low = (values & ((1 << 64) - 1)).astype(np.uint64).view(np.int64)
    return _from_limbs(
        np.stack([low, (values >> 64).astype(np.int64)], axis=1), has_value, data_type
    )


def _from_limbs(limbs: Int64s, has_value: Bools, data_type: pa.DataType) -> pa.Array:
    validity = pa.array(has_value).buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(limbs))
    return pa.Array.from_buffers(data_type, len(has_value), [validity, data])


def overflows(values: Integers, data_type: pa.DataType, *, is_sum: bool) -> Bools:
    """Return the mask of results that become null; Java checks sums of ≤ 18 digits for 64 bits."""
    is_long = is_sum and data_type.precision <= COMPACT_PRECISION
    bound = 1 << 63 if is_long else 10**data_type.precision
    return np.asarray(np.abs(values) >= bound, np.bool_)


def product(left: Integers, right: Integers, scale: int) -> Integers:
    """Multiply at the same scale, rounded half up (away from zero)."""
    return _round(left * right, 10**scale)


def quotient(dividend: Integers, divisor: Integers, scale: int) -> Integers:
    """Divide at the same scale, rounded half up.

    Raises:
        MergeError: a divisor is zero, or a quotient does not terminate (1 ÷ 3), which Java refuses.
    """
    if (divisor == 0).any() or ((dividend * _QUOTIENT_FACTOR) % divisor != 0).any():
        raise MergeError(
            "the aggregate function product cannot undo a row: a decimal quotient is not finite",
            fix="set fields.<column>.ignore-retract = true",
        )
    signs = np.where(divisor < 0, -1, 1).astype(object)
    return _round(dividend * 10**scale * signs, np.abs(divisor))


def _round(numerator: Integers, denominator: Any) -> Integers:
    magnitude: Integers = (2 * np.abs(numerator) + denominator) // (2 * denominator)
    return np.where(numerator < 0, -magnitude, magnitude)


def sum_values(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> pa.Array:
    """Return the sum of the values that are not null. Undoing a value subtracts it."""
    if changes.ops is None and not pa.types.is_decimal(column.type):
        return _plain_sum(column, changes)
    is_counted, is_retract = is_counted_change(column, changes), changes.is_any(ChangeOp.RETRACT)
    if pa.types.is_decimal(column.type):
        return _decimal_sum(column, changes, is_counted, is_retract)
    values = _widened_values(column)[changes.row_indices]
    signed_values = np.where(
        is_counted, np.where(is_retract, -values, values), np.array(_NEUTRAL, values.dtype)
    )
    is_floating = pa.types.is_floating(column.type)
    total = _sum_in_order(signed_values, changes) if is_floating else changes.sums(signed_values)
    return _array(total, changes.has_any(is_counted), column.type)


def _plain_sum(column: pa.Array, changes: SegmentChanges) -> pa.Array:
    values = stored_numbers(column)
    has_value = None
    if column.null_count:
        is_valid = valid_of(column)
        values = fill_nulls(values, is_valid, _NEUTRAL)
        has_value = is_valid[nearest_valid(column, changes, changes.newest_row_indices, -1)]
    with np.errstate(all="ignore"):
        return _array(changes.reduce(values, np.add), has_value, column.type)


def product_of_values(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> pa.Array:
    """Return the product of the values that are not null. Undoing a value divides by it.

    Raises:
        MergeError: a divisor is zero, or a decimal quotient does not terminate.
    """
    is_counted, is_retract = is_counted_change(column, changes), changes.is_any(ChangeOp.RETRACT)
    if pa.types.is_decimal(column.type):
        return _decimal_product(column, changes, is_counted, is_retract)
    values = _widened_values(column)[changes.row_indices]
    is_integer = not pa.types.is_floating(column.type)
    if is_integer and not is_retract.any():
        factors = np.where(is_counted, values, 1)
        products = np.multiply.reduceat(factors, changes.starts)
        return _array(products, changes.has_any(is_counted), column.type)
    result = np.zeros(len(changes.starts), values.dtype)
    has_value = np.zeros(len(changes.starts), np.bool_)
    with np.errstate(all="ignore"):
        for segments, indices in changes.rounds(is_counted):
            factors, old_values, is_divided = values[indices], result[segments], is_retract[indices]
            has_old = has_value[segments]
            products = old_values * factors
            if is_integer:
                quotients = _whole_quotient(old_values, factors, is_divided & has_old)
                quotients, products = _wrap(quotients, column.type), _wrap(products, column.type)
            else:
                quotients = old_values / factors
            new_values = np.where(is_divided, quotients, np.where(has_old, products, factors))
            has_new = has_old | ~is_divided
            result[segments] = np.where(has_new, new_values, old_values)
            has_value[segments] = has_new
    return _array(result, has_value, column.type)


def _widened_values(column: pa.Array) -> _Values:
    values = stored_numbers(column)
    return values if pa.types.is_floating(column.type) else values.astype(np.int64)


def _array(values: _Values, has_value: Bools | None, data_type: pa.DataType) -> pa.Array:
    """Convert values to a column. As in Java, integers lose the bits that do not fit."""
    narrow_values = values.astype(data_type.to_pandas_dtype(), copy=False)
    return number_column(narrow_values, has_value, data_type)


def _wrap(values: _Values, data_type: pa.DataType) -> _Values:
    """Keep the low bits of integers that a type has, as int64 [n]."""
    return values.astype(data_type.to_pandas_dtype()).astype(np.int64)


def _sum_in_order(values: _Values, changes: SegmentChanges) -> _Values:
    """Add floating-point values in Java's order, on which rounding depends."""
    result = values[changes.starts]
    with np.errstate(all="ignore"):
        for round_index, (segments, indices) in enumerate(changes.rounds(None)):
            if round_index:
                result[segments] += values[indices]
    return result


def _whole_quotient(dividend: _Values, divisor: _Values, is_divided: Bools) -> _Values:
    """Divide integers where `is_divided`, rounded toward zero."""
    if (is_divided & (divisor == 0)).any():
        raise MergeError(
            "the aggregate function product cannot undo a row by a division by zero",
            fix="set fields.<column>.ignore-retract = true, or omit zeros",
        )
    safe_divisor = np.where(is_divided, divisor, 1)
    quotient = dividend // safe_divisor
    is_rounded_down = (dividend % safe_divisor != 0) & ((dividend < 0) != (safe_divisor < 0))
    return np.where(is_rounded_down, quotient + 1, quotient)


def _decimal_sum(
    column: pa.Array, changes: SegmentChanges, is_counted: Bools, is_retract: Bools
) -> pa.Array:
    """Return each segment's sum of decimals; a sum that overflows is null."""
    arrow_type = column.type
    if arrow_type.precision <= COMPACT_PRECISION:
        values = np.where(is_counted, compact_integers(column)[changes.row_indices], 0)
        # Java does not check sums of 18 digits. Below this bound no partial sum exceeds 64 bits.
        if np.abs(values.astype(np.float64)).sum() < 9e18:
            total = changes.sums(np.where(is_retract, -values, values))
            if arrow_type.precision <= INT32_PRECISION:
                total = total.astype(np.int32).astype(np.int64)  # as Paimon's writer truncates it
            return from_compact_integers(total, changes.has_any(is_counted), arrow_type)
    unscaled_values = integers(column)[changes.row_indices]
    result = np.zeros(len(changes.starts), object)
    has_value = np.zeros(len(changes.starts), np.bool_)
    for segments, indices in changes.rounds(is_counted):
        signed_values = np.where(
            is_retract[indices], -unscaled_values[indices], unscaled_values[indices]
        )
        new_values = np.where(has_value[segments], result[segments] + signed_values, signed_values)
        result[segments] = new_values
        has_value[segments] = ~overflows(new_values, arrow_type, is_sum=True)
    return from_integers(result, has_value, arrow_type)


def _decimal_product(
    column: pa.Array, changes: SegmentChanges, is_counted: Bools, is_retract: Bools
) -> pa.Array:
    """Return each segment's product of decimals; a product that overflows is null."""
    arrow_type = column.type
    unscaled_values = integers(column)[changes.row_indices]
    result = np.zeros(len(changes.starts), object)
    has_value = np.zeros(len(changes.starts), np.bool_)
    for segments, indices in changes.rounds(is_counted):
        factors = unscaled_values[indices]
        old_values = result[segments]
        has_old = has_value[segments]
        is_divided = is_retract[indices]
        divisors = np.where(is_divided & has_old, factors, 1)
        quotients = quotient(old_values, divisors, arrow_type.scale)
        products = product(old_values, factors, arrow_type.scale)
        new_values = np.where(has_old, np.where(is_divided, quotients, products), factors)
        has_new = has_old | ~is_divided
        result[segments] = np.where(has_new, new_values, old_values)
        has_value[segments] = has_new & ~overflows(result[segments], arrow_type, is_sum=False)
    return from_integers(result, has_value, arrow_type)
