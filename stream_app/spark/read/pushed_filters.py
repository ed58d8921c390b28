"""Translates Spark's filters to conditions, so that readers skip manifests, files and row groups.

A translated filter has the same result on every row, nulls and NaN included, so Spark need not
apply it again. The other filters stay with Spark. Filters are recognised by the names of their
classes, because Spark 4.0 does not have the classes.

Source: Spark 4.1 `pyspark/sql/datasource.py#Filter`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from stream_app.format.arrow_schema import timestamp_unit
from stream_app.format.binary_row import scaled_decimal
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)
from stream_app.predicate.predicate import And, Compare, IsNull, Not, OneOf, Predicate

_OPERATORS = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_SPARK_TIMESTAMP_DIGITS = 6
_NANOS_OF_UNIT = {"ms": 1_000_000, "us": 1_000}
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_MIDNIGHT = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = (0xD800, 0xE000)
_ROOTS: dict[type, frozenset[TypeRoot]] = {
    bool: frozenset((TypeRoot.BOOLEAN,)),
    # Spark sees the milliseconds of a TIME.
    int: frozenset((*INTEGER_ROOTS, TypeRoot.TIME)),
    float: frozenset(FLOAT_ROOTS),
    Decimal: frozenset((TypeRoot.DECIMAL,)),
    str: frozenset(STRING_ROOTS),
    bytes: frozenset(BINARY_ROOTS),
    datetime.date: frozenset((TypeRoot.DATE,)),
    datetime.datetime: frozenset(TIMESTAMP_ROOTS),
}
"""Python's classes of values, with the types of column that can hold them."""


def translate_filters(
    filters: Iterable[Any], columns: RowType
) -> tuple[list[Predicate], list[Any]]:
    """Return the conditions that equal the translated filters, and the remaining filters."""
    conditions, residual_filters = [], []
    for spark_filter in filters:
        condition = _condition(spark_filter, columns)
        if condition is None:
            residual_filters.append(spark_filter)
        else:
            conditions.append(condition)
    return conditions, residual_filters


def _condition(spark_filter: Any, columns: RowType) -> Predicate | None:
    name = type(spark_filter).__name__
    if name == "Not":
        inner = _condition(spark_filter.child, columns)
        return None if inner is None else Not(inner)
    path = spark_filter.attribute
    if len(path) != 1 or path[0] not in columns.names:
        return None
    column = columns.field(path[0])
    if name in ("IsNull", "IsNotNull"):
        return IsNull(column) if name == "IsNull" else Not(IsNull(column))
    return _comparison(name, column, spark_filter.value)


def _comparison(name: str, column: DataField, value: Any) -> Predicate | None:
    match name:
        case "StringStartsWith":
            return _starts_with(column, value)
        case "In":
            values = [_exact_value(element, column.data_type) for element in value]
            return None if None in values else OneOf(column, tuple(values))
        case "EqualNullSafe":
            return _null_safe_equality(column, value)
        case _ if name in _OPERATORS:
            exact_value = _exact_value(value, column.data_type)
            return None if exact_value is None else Compare(column, _OPERATORS[name], exact_value)
        case _:
            return None


def _null_safe_equality(column: DataField, value: Any) -> Predicate | None:
    if value is None:
        return IsNull(column)
    exact = _exact_value(value, column.data_type)
    if exact is None:
        return None
    return And((Not(IsNull(column)), Compare(column, "=", exact)))


def _starts_with(column: DataField, prefix: Any) -> Predicate | None:
    """Return a prefix as a range, which statistics can exclude: texts are ordered by characters."""
    if column.data_type.root not in STRING_ROOTS or not isinstance(prefix, str):
        return None
    lower_bound = Compare(column, ">=", prefix)
    end = _prefix_end(prefix)
    return lower_bound if end is None else And((lower_bound, Compare(column, "<", end)))


def _prefix_end(prefix: str) -> str | None:
    """Return the smallest text above all texts with this prefix, or None without one."""
    stem = prefix.rstrip(chr(_LAST_CHARACTER))
    if not stem:
        return None
    next_code = ord(stem[-1]) + 1
    first_surrogate, surrogates_end = _SURROGATES
    return stem[:-1] + chr(surrogates_end if next_code == first_surrogate else next_code)


def _exact_value(value: Any, data_type: DataType) -> object | None:
    """Return the value in the form of `predicate`; None if null or not of the column."""
    value_class = type(value)
    if data_type.root not in _ROOTS.get(value_class, ()):
        return None
    if value_class is Decimal:
        return _exact_decimal(value, data_type)
    if value_class is datetime.datetime:
        return _nanos(value, data_type)
    if value_class is datetime.date:
        return int(value.toordinal() - _EPOCH)
    exact: object = value
    return exact


def _exact_decimal(value: Decimal, data_type: DataType) -> Decimal | None:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent > data_type.scale:
        return None
    unscaled_value = int("".join(map(str, digits))) * 10 ** (data_type.scale + exponent)
    if unscaled_value >= 10**data_type.precision:
        return None
    return scaled_decimal(-unscaled_value if sign else unscaled_value, data_type.scale)


def _nanos(value: datetime.datetime, data_type: DataType) -> int | None:
    """Return nanoseconds since 1970; None if column or value is finer than Spark's microseconds."""
    has_zone = value.tzinfo is not None
    if data_type.root not in TIMESTAMP_ROOTS or data_type.precision > _SPARK_TIMESTAMP_DIGITS:
        return None
    if has_zone != (data_type.root is TypeRoot.TIMESTAMP_LTZ):
        return None
    naive_time = value.astimezone(datetime.UTC).replace(tzinfo=None) if has_zone else value
    nanos = (naive_time - _MIDNIGHT) // datetime.timedelta(microseconds=1) * 1000
    return None if nanos % _NANOS_OF_UNIT[timestamp_unit(data_type.precision)] else nanos
