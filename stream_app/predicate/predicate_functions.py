"""Defines the functions that read conditions may call: members of VARIANTs, elements of arrays.

`parser` looks up functions here by name. A call becomes a user-defined function of Arrow, which is
registered only in this process. So conditions of jobs, whose tasks run elsewhere, must not call
functions.

Source: Spark's `variant_get`, `try_variant_get` and `array_contains`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_scalar, arrow_type
from stream_app.model.schema.data_type import (
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    LIST_ROOTS,
    STRING,
    DataField,
    DataType,
    TypeRoot,
    parse_data_type,
)
from stream_app.predicate.literal import Literal, LiteralKind, fitted_literal
from stream_app.predicate.predicate import Call
from stream_app.variants import layout
from stream_app.variants.json_texts import variant_json
from stream_app.variants.paths import at_path, parse_path
from stream_app.variants.variant_reader import Variant

_TRUE_WORDS = frozenset({"t", "true", "y", "yes", "1"})
_FALSE_WORDS = frozenset({"f", "false", "n", "no", "0"})
_DIGITS_MAX = 76
"""The precision of calculations, which is that of Arrow's largest decimals."""
_SHOWN_LENGTH_MAX = 80
"""The characters of a member that an error shows."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
ConditionFunction = Callable[[DataField, Sequence[Literal]], Call]
"""Makes a call of a column and literals; raises ValueError if they do not fit."""
_TIME_KINDS = (layout.DATE, layout.TIMESTAMP, layout.TIMESTAMP_NTZ)
"""Kinds whose values are integers without being numbers."""


def _variant_get(column: DataField, literals: Sequence[Literal], *, fails: bool) -> Call:
    """Return a call of `variant_get`, or of `try_variant_get` if it does not fail.

    Raises:
        ValueError: the arguments do not fit; it names what fits.
    """
    texts = [literal.text for literal in literals if literal.kind is LiteralKind.TEXT]
    if column.data_type.root is not TypeRoot.VARIANT or not 1 <= len(literals) <= 2:
        raise ValueError("expected a VARIANT, a 'path' and at most one 'type'")
    if len(texts) < len(literals):
        raise ValueError("expected the path and the type in quotes")
    name = "variant_get" if fails else "try_variant_get"
    try:
        parse_path(texts[0])
        target_type = parse_data_type(texts[1]) if texts[1:] else STRING
    except UsageError as error:
        raise ValueError(error.problem) from None
    if target_type.root not in _CONVERSIONS:
        raise ValueError(f"it cannot return {target_type}")
    return Call(
        field_id=column.field_id,
        name=f"{name}({column.name}, '{texts[0]}', '{target_type}')",
        data_type=target_type.as_nullable(),
        function=name,
        column=column,
        literals=(pa.scalar(texts[0]), pa.scalar(str(target_type))),
        compute=partial(_members, fails=fails),
    )


def _members(values: pa.Array, path: pa.Scalar, type_text: pa.Scalar, *, fails: bool) -> pa.Array:
    """Return the values at a path, cast to a type; null for a missing value."""
    steps = parse_path(path.as_py())
    target_type = parse_data_type(type_text.as_py())
    convert = _CONVERSIONS[target_type.root]
    members = []
    for value, metadata, is_valid in zip(
        values.field(layout.VALUE).to_pylist(),
        values.field(layout.METADATA).to_pylist(),
        values.is_valid().to_pylist(),
        strict=True,
    ):
        variant = at_path(Variant(value, metadata), steps) if is_valid else None
        try:
            member = None if variant is None or _is_null(variant) else convert(variant, target_type)
        except (ArithmeticError, TypeError, ValueError):
            if fails:
                raise _misfit_error(variant, target_type) from None
            member = None
        members.append(member)
    return pa.array(members, arrow_type(target_type))


def _misfit_error(variant: Variant | None, target_type: DataType) -> UsageError:
    text = "" if variant is None else variant_json(variant)
    return UsageError(
        f"variant_get cannot read a member as {target_type}: {text[:_SHOWN_LENGTH_MAX]}",
        fix="use try_variant_get, which returns null for such a member, or name another type",
    )


def _is_null(variant: Variant) -> bool:
    return variant.basic_kind == layout.PRIMITIVE and variant.kind == layout.NULL


def _scalar(variant: Variant) -> Any:
    """Return a VARIANT's text, number or boolean.

    Raises:
        TypeError: the value is of another type.
    """
    if variant.basic_kind in (layout.OBJECT, layout.ARRAY):
        raise TypeError
    value = variant.scalar()
    is_time = variant.basic_kind != layout.SHORT_TEXT and variant.kind in _TIME_KINDS
    if isinstance(value, bytes) or is_time:
        raise TypeError
    return value


def _text(variant: Variant, _: DataType) -> str:
    is_text = variant.basic_kind == layout.SHORT_TEXT or (
        variant.basic_kind == layout.PRIMITIVE and variant.kind == layout.LONG_TEXT
    )
    text = variant_json(variant)
    if is_text:
        return str(variant.scalar())
    is_quoted = variant.basic_kind == layout.PRIMITIVE and text.startswith('"')
    return text[1:-1] if is_quoted else text


def _boolean(variant: Variant, _: DataType) -> bool:
    value = _scalar(variant)
    if not isinstance(value, str):
        return bool(value)
    word = value.strip().lower()
    if word not in _TRUE_WORDS | _FALSE_WORDS:
        raise ValueError
    return word in _TRUE_WORDS


def _integer(variant: Variant, target_type: DataType) -> int:
    """Truncate the fraction of a number; a text must not have one."""
    value = int(_scalar(variant))
    bits = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
    value_end = 1 << bits[target_type.root] - 1
    if not -value_end <= value < value_end:
        raise OverflowError
    return value


def _float(variant: Variant, _: DataType) -> float:
    return float(_scalar(variant))


def _decimal(variant: Variant, target_type: DataType) -> Decimal:
    value = _scalar(variant)
    parsed_decimal = Decimal(repr(value) if isinstance(value, float) else value)
    context = Context(prec=_DIGITS_MAX, rounding=ROUND_HALF_UP)
    rounded_decimal = parsed_decimal.quantize(
        Decimal(1).scaleb(-target_type.scale), context=context
    )
    if (
        not rounded_decimal.is_finite()
        or len(rounded_decimal.as_tuple().digits) > target_type.precision
    ):
        raise OverflowError
    return rounded_decimal


def _date(variant: Variant, _: DataType) -> Any:
    if variant.basic_kind == layout.PRIMITIVE and variant.kind == layout.DATE:
        return np.datetime64(int(str(variant.scalar())), "D").item()
    value = _scalar(variant)
    if not isinstance(value, str) or not _DAY.fullmatch(value.strip()):
        raise ValueError
    return np.datetime64(value.strip(), "D").item()


_CONVERSIONS: Mapping[TypeRoot, Callable[[Variant, DataType], Any]] = {
    TypeRoot.VARCHAR: _text,
    TypeRoot.BOOLEAN: _boolean,
    **dict.fromkeys(INTEGER_ROOTS, _integer),
    **dict.fromkeys(FLOAT_ROOTS, _float),
    TypeRoot.DECIMAL: _decimal,
    TypeRoot.DATE: _date,
}


def _array_contains(column: DataField, literals: Sequence[Literal]) -> Call:
    """Return a call of `array_contains`; a value that no element can equal becomes null.

    Raises:
        ValueError: the arguments do not fit; it names what fits.
    """
    element = column.data_type.element
    if column.data_type.root not in LIST_ROOTS or element is None or len(literals) != 1:
        raise ValueError("expected an ARRAY, and a value of its elements")
    try:
        fitted_value = fitted_literal(literals[0], element)
    except ValueError as problem:
        raise ValueError(f"expected {problem}") from None
    return Call(
        field_id=column.field_id,
        name=f"array_contains({column.name}, {literals[0].kind} {literals[0].text!r})",
        data_type=DataType(root=TypeRoot.BOOLEAN),
        function="array_contains",
        column=column,
        literals=(
            arrow_scalar(fitted_value.value, element)
            if fitted_value.is_exact
            else pa.scalar(None, arrow_type(element)),
        ),
        compute=_contains,
    )


def _contains(values: pa.Array, value: pa.Scalar) -> pa.Array:
    """Return whether each array has the value; null if only a null may equal it.

    Args:
        value: null if elements cannot have it exactly.

    Example:
        The arrays [1, 2], [2, null], [1, null] and null contain 1: true, null, true and null.
    """
    if pa.types.is_fixed_size_list(values.type):
        size = values.type.list_size
        offsets = np.arange(len(values) + 1, dtype=np.int64) * size
        elements = values.values.slice(values.offset * size, len(values) * size)
    else:
        offsets = values.offsets.to_numpy().astype(np.int64)
        elements = values.values.slice(offsets[0], offsets[-1] - offsets[0])
        offsets = offsets - offsets[0]
    has_value = _counts(_equal(elements, value), offsets) > 0
    has_null = _counts(elements.is_null().to_numpy(zero_copy_only=False), offsets) > 0
    is_unknown = ~has_value & has_null
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(has_value, pa.bool_(), mask=is_unknown | is_null)


def _equal(elements: pa.Array, value: pa.Scalar) -> np.ndarray:
    """Return whether each element equals the value, and no null does: bool [m]."""
    if not value.is_valid:
        return np.zeros(len(elements), np.bool_)
    equal = pc.equal(elements, value)
    if pa.types.is_floating(elements.type) and value.as_py() != value.as_py():
        equal = pc.is_nan(elements)  # NaN equals NaN here, as in Spark
    is_equal: np.ndarray = pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
    return is_equal


def _counts(mask: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the number of true elements of each array: int64 [n]."""
    sums = np.append(0, np.cumsum(mask))
    counts: np.ndarray = sums[offsets[1:]] - sums[offsets[:-1]]
    return counts


CONDITION_FUNCTIONS: Mapping[str, ConditionFunction] = {
    "variant_get": partial(_variant_get, fails=True),
    "try_variant_get": partial(_variant_get, fails=False),
    "array_contains": _array_contains,
}
