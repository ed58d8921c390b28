"""``sum`` and ``product``, with Java's arithmetic.

Whole numbers overflow silently, floating-point numbers add up one after the other, and a decimal
that overflows becomes null.

Source: Paimon 1.4 `mergetree/compact/aggregate/FieldSumAgg.java`, `FieldProductAgg.java`,
`utils/DecimalUtils.java`, `data/Decimal.java`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.errors import MergeError
from stream_app.mergetree.key_value_batch import Mask
from stream_app.mergetree.merge_engines.aggregates import decimals
from stream_app.mergetree.merge_engines.aggregates.steps import Op, Steps
from stream_app.model.schema.merge_rules import ColumnAggregate

_Values = npt.NDArray[Any]


def sum_values(column: pa.Array, steps: Steps, _: ColumnAggregate) -> pa.Array:
    """The sum of the values that are not null; undoing a value subtracts it."""
    counts, minus = _counting(column, steps), steps.is_any(Op.TAKE_BACK)
    if pa.types.is_decimal(column.type):
        return _decimal_sum(column, steps, counts, minus)
    values = _numbers(column)[steps.rows]
    if pa.types.is_floating(column.type):
        # Rounding depends on the order, so it is Java's.
        with np.errstate(all="ignore"):
            return _array(*_sum_in_order(values, steps, counts, minus), column.type)
    signed = np.where(counts, np.where(minus, -values, values), 0)
    return _array(np.add.reduceat(signed, steps.starts), steps.any(counts), column.type)


def product_of_values(column: pa.Array, steps: Steps, _: ColumnAggregate) -> pa.Array:
    """The product of the values that are not null; undoing a value divides by it.

    Raises:
        MergeError: a division by zero, or a decimal quotient without an end.
    """
    counts, minus = _counting(column, steps), steps.is_any(Op.TAKE_BACK)
    if pa.types.is_decimal(column.type):
        return _decimal_product(column, steps, counts, minus)
    values = _numbers(column)[steps.rows]
    is_whole = not pa.types.is_floating(column.type)
    if is_whole and not minus.any():
        ones = np.where(counts, values, 1)
        product = np.multiply.reduceat(ones, steps.starts)
        return _array(product, steps.any(counts), column.type)
    result = np.zeros(len(steps.starts), values.dtype)
    has = np.zeros(len(steps.starts), np.bool_)
    with np.errstate(all="ignore"):
        for segments, places in steps.rounds(counts):
            given, before, divides = values[places], result[segments], minus[places]
            if is_whole:
                quotient = _whole_quotient(before, given, divides & has[segments])
                quotient = _wrapped(quotient, column.type)
            else:
                quotient = before / given
            product = _wrapped(before * given, column.type) if is_whole else before * given
            new = np.where(divides, quotient, np.where(has[segments], product, given))
            takes = has[segments] | ~divides
            result[segments] = np.where(takes, new, before)
            has[segments] = takes
    return _array(result, has, column.type)


def _counting(column: pa.Array, steps: Steps) -> Mask:
    return steps.valid(column) & steps.since_begun() & ~steps.is_any(Op.SKIP, Op.CLEAR)


def _numbers(column: pa.Array) -> _Values:
    filled = column.fill_null(0) if column.null_count else column
    values: _Values = filled.to_numpy(zero_copy_only=False)
    return values if pa.types.is_floating(column.type) else values.astype(np.int64)


def _array(values: _Values, has: Mask, kind: pa.DataType) -> pa.Array:
    """Values as a column; whole numbers lose the bits that do not fit, as in Java."""
    narrow = values.astype(kind.to_pandas_dtype(), copy=False)
    return pa.array(narrow, kind, mask=~has)


def _wrapped(values: _Values, kind: pa.DataType) -> _Values:
    return values.astype(kind.to_pandas_dtype()).astype(np.int64)


def _sum_in_order(values: _Values, steps: Steps, counts: Mask, minus: Mask) -> tuple[_Values, Mask]:
    result = np.zeros(len(steps.starts), values.dtype)
    has = np.zeros(len(steps.starts), np.bool_)
    for segments, places in steps.rounds(counts):
        signed = np.where(minus[places], -values[places], values[places])
        result[segments] = np.where(has[segments], result[segments] + signed, signed)
        has[segments] = True
    return result, has


def _whole_quotient(dividend: _Values, divisor: _Values, divides: Mask) -> _Values:
    """Quotients cut toward zero, where `divides`."""
    if (divides & (divisor == 0)).any():
        raise MergeError(
            "the aggregate function product cannot undo a row by a division by zero",
            fix="set fields.<column>.ignore-retract = true, or leave out zeros",
        )
    safe = np.where(divides, divisor, 1)
    quotient = dividend // safe
    cut = (dividend % safe != 0) & ((dividend < 0) != (safe < 0))
    return np.where(cut, quotient + 1, quotient)


def _decimal_sum(column: pa.Array, steps: Steps, counts: Mask, minus: Mask) -> pa.Array:
    kind = column.type
    if kind.precision <= decimals.COMPACT_PRECISION:
        values = np.where(counts, decimals.compact_integers(column)[steps.rows], 0)
        # A sum of 18 digits that nobody checks; below this bound no partial sum leaves 64 bits.
        if np.abs(values.astype(np.float64)).sum() < 9e18:
            total = np.add.reduceat(np.where(minus, -values, values), steps.starts)
            if kind.precision <= decimals.STORED_AS_INT32:
                total = total.astype(np.int32).astype(np.int64)  # as Paimon's writer cuts it
            return decimals.from_compact_integers(total, steps.any(counts), kind)
    whole = decimals.integers(column)[steps.rows]
    result = np.zeros(len(steps.starts), object)
    has = np.zeros(len(steps.starts), np.bool_)
    for segments, places in steps.rounds(counts):
        signed = np.where(minus[places], -whole[places], whole[places])
        added = np.where(has[segments], result[segments] + signed, signed)
        result[segments] = added
        has[segments] = ~decimals.overflows(added, kind, is_sum=True)
    return decimals.from_integers(result, has, kind)


def _decimal_product(column: pa.Array, steps: Steps, counts: Mask, minus: Mask) -> pa.Array:
    kind = column.type
    whole = decimals.integers(column)[steps.rows]
    result = np.zeros(len(steps.starts), object)
    has = np.zeros(len(steps.starts), np.bool_)
    for segments, places in steps.rounds(counts):
        given, before, had = whole[places], result[segments], has[segments]
        divides = minus[places]
        ones = np.where(divides & had, given, 1)
        quotient = decimals.quotient(before, ones, kind.scale)
        product = decimals.product(before, given, kind.scale)
        new = np.where(had, np.where(divides, quotient, product), given)
        takes = had | ~divides
        result[segments] = np.where(takes, new, before)
        has[segments] = takes & ~decimals.overflows(result[segments], kind, is_sum=False)
    return decimals.from_integers(result, has, kind)
