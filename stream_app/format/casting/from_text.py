"""Casts texts to numbers, booleans and bytes as Java parses them, and refuses other texts.

Source: Paimon `casting/StringTo*CastRule.java`, `utils/BinaryStringUtils.java`; Java's
`Double.parseDouble` and `BigDecimal`.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.format.arrow_schema import arrow_type
from stream_app.format.casting.arrays import cast_error, refuse_where, regex_group
from stream_app.format.casting.numbers import fit_decimal
from stream_app.model.schema.data_type import DataType, TypeRoot

_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")
_INTEGER = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)(?P<fraction>\.[0-9]*)?$"
_LONG_DIGITS = 19
_VALUE_ENDS = {
    TypeRoot.TINYINT: 1 << 7,
    TypeRoot.SMALLINT: 1 << 15,
    TypeRoot.INT: 1 << 31,
    TypeRoot.BIGINT: 1 << 63,
}
_USUAL_FLOAT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_HEX_FLOAT = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_NAMED_FLOAT = {"NaN": "nan", "Infinity": "inf"}
_BLANKS = "".join(map(chr, range(0x21)))
_SCALE = 38
"""The largest scale of a DECIMAL, so that no digit is lost before `fit_decimal`."""
_USUAL_DECIMAL = r"^[+-]?([0-9]{1,37}\.?[0-9]{0,38}|\.[0-9]{1,38})$"
_EXPONENT_DIGITS_MAX = 10
"""The maximum digits of an exponent, those of the largest int: Java refuses more."""
_EXACT = decimal.Context(prec=120, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def text_to_boolean(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Parse ``true``, ``t``, ``yes``, ``y``, ``1`` and their opposites, in any case."""
    lower_texts = pc.utf8_lower(values)
    is_true = pc.is_in(lower_texts, pa.array(_TRUE))
    is_false = pc.is_in(lower_texts, pa.array(_FALSE))
    refuse_where(values, pc.invert(pc.or_(is_true, is_false)), target_type)
    return pc.if_else(values.is_valid(), is_true, pa.scalar(None, pa.bool_()))


def text_to_integer(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Parse integers, truncate digits after a point, and refuse integers out of range.

    Four texts::

        values    ["+007", "-12.9", "-.5", null]
        sign      ["+",    "-",     "-",   null]
        whole     ["007",  "12",    "",    null]
        digits    ["7",    "12",    "0",   null]
                  [7,      -12,     0,     null]
    """
    groups = pc.extract_regex(values, _INTEGER)
    sign, whole_digits = regex_group(groups, "sign"), regex_group(groups, "whole")
    is_only_sign = pc.equal(pc.utf8_length(values), pc.utf8_length(sign))
    refuse_where(values, pc.or_(groups.is_null(), pc.fill_null(is_only_sign, False)), target_type)
    digits = pc.utf8_ltrim(whole_digits, "0")
    digits = pc.if_else(pc.equal(digits, ""), "0", digits)
    refuse_where(values, pc.greater(pc.utf8_length(digits), _LONG_DIGITS), target_type)
    minus_signs = pc.if_else(pc.equal(sign, "-"), "-", "")
    signed_digits = pc.binary_join_element_wise(minus_signs, digits, "")
    decimals = signed_digits.cast(pa.decimal128(_LONG_DIGITS, 0))
    value_end = _VALUE_ENDS[target_type.root]
    minimum, maximum = (pa.scalar(decimal.Decimal(bound)) for bound in (-value_end, value_end - 1))
    refuse_where(
        values, pc.or_(pc.less(decimals, minimum), pc.greater(decimals, maximum)), target_type
    )
    return decimals.cast(arrow_type(target_type))


def text_to_float(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Parse numbers as Java: also ``NaN``, ``Infinity``, a final ``f`` or ``d``, and blanks."""
    is_usual = pc.fill_null(pc.match_substring_regex(values, _USUAL_FLOAT), True)
    if not pc.all(is_usual).as_py():
        values = _parse_each(values, lambda text: _plain_float(text, target_type), pa.string())
    return values.cast(arrow_type(target_type))


def _plain_float(text: str, target_type: DataType) -> str:
    """Rewrite a text so that Arrow parses it as Java parses the original."""
    stripped_text = text.strip(_BLANKS)
    unsigned_text = stripped_text.lstrip("+-") if stripped_text[1:2] not in ("+", "-") else ""
    if unsigned_text in _NAMED_FLOAT:
        return ("-" if stripped_text[0] == "-" else "") + _NAMED_FLOAT[unsigned_text]
    digits = stripped_text[:-1] if stripped_text[-1:] in tuple("fFdD") else stripped_text
    if _FLOAT.fullmatch(digits):
        return digits
    if _HEX_FLOAT.fullmatch(digits):
        return repr(float.fromhex(digits))
    raise cast_error(text, target_type)


def text_to_decimal(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Parse decimals, rounded half up; a number with too many digits becomes null."""
    is_usual = pc.fill_null(pc.match_substring_regex(values, _USUAL_DECIMAL), True)
    if not pc.all(is_usual).as_py():
        return _parse_each(
            values, lambda text: _parse_decimal(text, target_type), arrow_type(target_type)
        )
    return fit_decimal(values.cast(pa.decimal256(2 * _SCALE, _SCALE)), target_type)


def _parse_decimal(text: str, target_type: DataType) -> decimal.Decimal | None:
    """Parse a decimal of any length, with or without exponent."""
    mantissa, _, exponent = text.lower().partition("e")
    power = exponent.lstrip("+-") or "0"
    if not _FLOAT.fullmatch(text) or len(power) > _EXPONENT_DIGITS_MAX:
        raise cast_error(text, target_type)
    value = decimal.Decimal(mantissa)
    shift = int(exponent or "0")
    if not value:
        return decimal.Decimal(0)
    if value.adjusted() + shift >= target_type.precision - target_type.scale:
        return None
    if value.adjusted() + shift < -target_type.scale - 1:
        return decimal.Decimal(0)
    context = decimal.Context(prec=max(_EXACT.prec, len(value.as_tuple().digits)))
    rounded_value = value.scaleb(shift, context).quantize(
        decimal.Decimal(1).scaleb(-target_type.scale), decimal.ROUND_HALF_UP, context
    )
    return (
        rounded_value
        if rounded_value.adjusted() < target_type.precision - target_type.scale
        else None
    )


def to_bytes(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Cut bytes, or the UTF-8 of texts, at the target length; pad BINARY with zeros."""
    values = values.cast(pa.binary())
    lengths = pc.binary_length(values)
    if (pc.max(lengths).as_py() or 0) > target_type.length:
        values = pc.binary_slice(values, 0, target_type.length)
    if target_type.root is TypeRoot.BINARY and (pc.min(lengths).as_py() or 0) < target_type.length:
        zeros = pc.binary_repeat(b"\0", pc.subtract(target_type.length, pc.binary_length(values)))
        values = pc.binary_join_element_wise(values, zeros, b"")
    return values


def _parse_each(values: pa.Array, parse: Callable[[str], Any], data_type: pa.DataType) -> pa.Array:
    """Parse each distinct text once in Python, for batches with a text of unusual form."""
    encoded_texts = values.dictionary_encode()
    distinct_values = pa.array(
        [parse(text) for text in encoded_texts.dictionary.to_pylist()], data_type
    )
    return distinct_values.take(encoded_texts.indices)
