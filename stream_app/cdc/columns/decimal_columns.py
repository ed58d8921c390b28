"""Converts two's complement bytes and text to exact decimals, never through a float.

`column_cast` calls it. The bytes are those of `java.math.BigInteger.toByteArray`: big-endian, of
minimal length, with the sign in the first bit.

Arrow scales a decimal modulo the width of its type, and does not detect overflow. So this module
checks bounds before Arrow scales a value, or scales it in 256 bits, where the product of two
38-digit factors fits.

Source: Kafka Connect `data/Decimal.java`, Debezium `data/VariableScaleDecimal.java`.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import (
    Bools,
    Bytes,
    Int64s,
    any_of,
    bytes_of,
    lengths_of,
    null_where,
    offsets_of,
    valid_of,
)

_DECIMAL128_SIZE = 16
_DIGITS_MAX = 38
SCALE_MAX = 1000
"""The largest scale that is read, of either sign: text would grow with it."""
_NUMBER_BYTES_MAX = 64
_TEXT_BYTES_MAX = 1024
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SHOWN_LENGTH_MAX = 80
# Enough digits for any text whose value fits a decimal128.
_EXACT = decimal.Context(prec=80, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def decimals_from_bytes(
    values: pa.Array, scale: int, target_type: pa.Decimal128Type
) -> tuple[pa.Array, Bools | None]:
    """Convert two's complement numbers of one scale to decimals of `target_type`.

    Returns:
        The decimals, null where the number does not fit exactly; and the mask of those numbers.
    """
    digits = target_type.precision - (target_type.scale - scale)
    if not 1 <= digits <= target_type.precision or _has_unusual_width(values).any():
        return _convert_one_by_one(
            values, lambda value: exact_decimal(number_text(value, scale), target_type), target_type
        )
    # These have so few digits that the zeros of the larger scale fit after them.
    decimals, has_failed = within_precision(_unscaled_values(values, pa.decimal128(digits, scale)))
    return (decimals if scale == target_type.scale else decimals.cast(target_type)), has_failed


def _has_unusual_width(values: pa.Array) -> Bools:
    """Mark numbers without bytes, or with more bytes than a decimal128 has."""
    lengths = lengths_of(values)
    is_unusual: Bools = (lengths > _DECIMAL128_SIZE) | (lengths == 0)
    return is_unusual & valid_of(values) if is_unusual.any() else is_unusual


def _unscaled_values(values: pa.Array, target_type: pa.Decimal128Type) -> pa.Array:
    """Return numbers of 1 to 16 bytes as unscaled values of `target_type`, of any precision."""
    buffers = [
        values.buffers()[0] if values.null_count else None,
        pa.py_buffer(_sign_extend(values)),
    ]
    if buffers[0] is not None and values.offset:
        buffers[0] = pa.array(valid_of(values)).buffers()[1]
    return pa.Array.from_buffers(target_type, len(values), buffers)


def _sign_extend(values: pa.Array) -> Bytes:
    """Sign-extend numbers to 16 bytes, little-endian, with one NumPy pass for each length."""
    offsets, data, lengths = offsets_of(values), bytes_of(values), lengths_of(values)
    extended_values = np.zeros((len(values), _DECIMAL128_SIZE), np.uint8)
    for length in np.flatnonzero(np.bincount(lengths, minlength=1)):
        if length == 0:
            continue
        indices = np.flatnonzero(lengths == length)
        starts = offsets[indices]
        first_bytes = data[starts]
        part = np.empty((len(indices), _DECIMAL128_SIZE), np.uint8)
        part[:, length:] = np.where(first_bytes & 0x80, 0xFF, 0)[:, None]
        for index in range(length):
            part[:, index] = data[starts + (length - 1 - index)]
        extended_values[indices] = part
    return extended_values


def parse_type(target_type: pa.Decimal128Type) -> pa.DataType:
    """Return the type in which a parser may read numbers for a column of `target_type`.

    The parser checks the number of digits and then scales. So the type must have space for a number
    with all digits of the precision, times 10 to the power of the scale.
    """
    if target_type.precision + target_type.scale <= _DIGITS_MAX:
        return target_type
    return pa.decimal256(_DIGITS_MAX, target_type.scale)


def narrow_decimals(
    decimals: pa.Array, target_type: pa.Decimal128Type
) -> tuple[pa.Array, Bools | None]:
    """Convert decimals of `parse_type(target_type)` to `target_type`.

    Arrow's parser of JSON does not check the precision: it reads 12345 into a decimal128(4, 0).

    Returns:
        The decimals, null where they do not fit; and the mask of those that do not fit, if any.
    """
    if pa.types.is_decimal128(decimals.type):
        return within_precision(decimals)
    words = np.frombuffer(decimals.buffers()[1], dtype=np.int64).reshape(-1, 4)
    words = words[decimals.offset : decimals.offset + len(decimals)]
    sign = words[:, 1] >> 63
    is_wide: Bools = (words[:, 2] != sign) | (words[:, 3] != sign)
    if is_wide.any():
        decimals = null_where(decimals, is_wide)
    validity = pa.array(valid_of(decimals)).buffers()[1] if decimals.null_count else None
    data = pa.py_buffer(np.ascontiguousarray(words[:, :2]))
    fitting_decimals, has_failed = within_precision(
        pa.Array.from_buffers(target_type, len(decimals), [validity, data])
    )
    return fitting_decimals, any_of(is_wide, has_failed)


def within_precision(decimals: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Check that decimal128s have no more digits than their type.

    Returns:
        The decimals, null where they have more; and the mask of those with more, if any.
    """
    data_type = decimals.type
    words = np.frombuffer(decimals.buffers()[1], dtype=np.int64) if len(decimals) else None
    if words is None:
        return decimals, None
    words = words.reshape(-1, 2)[decimals.offset : decimals.offset + len(decimals)]
    low, high = words[:, 0], words[:, 1]
    unscaled_end = 10**data_type.precision
    if data_type.precision <= 18:
        has_failed = (high != low >> 63) | (low >= unscaled_end) | (low <= -unscaled_end)
    else:
        has_failed = _is_at_least(high, low, unscaled_end) | ~_is_at_least(
            high, low, 1 - unscaled_end
        )
    if has_failed.any():
        has_failed = has_failed & valid_of(decimals)
    return (null_where(decimals, has_failed), has_failed) if has_failed.any() else (decimals, None)


def _is_at_least(high: Int64s, low: Int64s, bound: int) -> Bools:
    """Return the mask of 128-bit numbers, given as two words, that are ≥ `bound`."""
    bound_high, bound_low = bound >> 64, np.uint64(bound & 0xFFFF_FFFF_FFFF_FFFF)
    is_at_least: Bools = high > bound_high
    is_at_least |= (high == bound_high) & (low.view(np.uint64) >= bound_low)
    return is_at_least


def _convert_one_by_one(
    values: pa.Array, convert: Callable[[bytes], object], target_type: pa.DataType
) -> tuple[pa.Array, Bools | None]:
    """Convert numbers with a larger scale, or with no or too many bytes, which are rare."""
    results: list[object] = []
    has_failed = np.zeros(len(values), np.bool_)
    for row_index, value in enumerate(values.to_pylist()):
        results.append(None)
        try:
            results[row_index] = None if value is None else convert(value)
        except ValueError:
            has_failed[row_index] = True
    return pa.array(results, target_type), any_of(has_failed)


def number_text(value: bytes, scale: int) -> str:
    """Return the text of a two's complement number with `scale` fractional digits.

    Raises:
        ValueError: the value has no bytes, or too many for a decimal.
    """
    if not 0 < len(value) <= _NUMBER_BYTES_MAX or abs(scale) > SCALE_MAX:
        raise ValueError("is not the two's complement of a decimal")
    return f"{int.from_bytes(value, 'big', signed=True)}E{-scale}"


def decimal_text(value: bytes, scale: int) -> str:
    """Write the number without an exponent, as `java.math.BigDecimal.toPlainString` does.

    Raises:
        ValueError: the value has no bytes, or more than `_TEXT_BYTES_MAX`.
    """
    if not 0 < len(value) <= _TEXT_BYTES_MAX or abs(scale) > SCALE_MAX:
        raise ValueError("is not the two's complement of a number of reasonable size")
    unscaled_value = int.from_bytes(value, "big", signed=True)
    digits = str(abs(unscaled_value)) + "0" * (-scale if unscaled_value else 0)
    if scale > 0:
        digits = digits.rjust(scale + 1, "0")
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    return f"-{digits}" if unscaled_value < 0 else digits


def decimal_texts(values: pa.Array, scale: int) -> tuple[pa.Array, Bools | None]:
    """Return the numbers of a binary column as texts; null, with a mask, where one fails."""
    unscaled_values, has_failed = None, None
    if abs(scale) <= SCALE_MAX and not _has_unusual_width(values).any():
        unscaled_values, has_failed = within_precision(
            _unscaled_values(values, pa.decimal128(_DIGITS_MAX, 0))
        )
    if unscaled_values is None or has_failed is not None:
        return _convert_one_by_one(values, lambda value: decimal_text(value, scale), pa.string())
    texts = unscaled_values.cast(pa.string())
    if scale <= 0:
        zeros = pc.if_else(pc.equal(texts, "0"), "", "0" * -scale)
        return pc.binary_join_element_wise(texts, zeros, ""), None
    digits = pc.ascii_lpad(pc.ascii_ltrim(texts, "-"), scale + 1, "0")
    sign = pc.if_else(pc.starts_with(texts, "-"), "-", "")
    integers = pc.utf8_slice_codeunits(digits, 0, -scale)
    fractions = pc.utf8_slice_codeunits(digits, -scale, None)
    return pc.binary_join_element_wise(sign, integers, ".", fractions, ""), None


def convert_by_scale(
    values: pa.Array,
    scales: pa.Array,
    convert: Callable[[pa.Array, int], tuple[pa.Array, Bools | None]],
    target_type: pa.DataType,
) -> pa.Array:
    """Convert numbers with individual scales; null where a number or its scale is invalid.

    Args:
        values, scales: binary and int32.
        convert: converts numbers of one scale to `target_type`.
    """
    filled_scales = pc.fill_null(scales, 0).to_numpy()
    is_usable = valid_of(scales) & valid_of(values)
    is_usable &= (filled_scales >= -SCALE_MAX) & (filled_scales <= SCALE_MAX)
    usable_indices = np.flatnonzero(is_usable)
    if not len(usable_indices):
        return pa.nulls(len(values), target_type)
    usable_indices = usable_indices[np.argsort(filled_scales[usable_indices], kind="stable")]
    ends = [*(np.flatnonzero(np.diff(filled_scales[usable_indices])) + 1), len(usable_indices)]
    parts, start = [], 0
    for end in ends:  # one pass for each scale, of which at most 2,001 are usable
        part = values.take(pa.array(usable_indices[start:end]))
        parts.append(convert(part, int(filled_scales[usable_indices[start]]))[0])
        start = end
    indices = np.zeros(len(values), np.int64)
    indices[usable_indices] = np.arange(len(usable_indices))
    return pa.concat_arrays(parts).take(pa.array(indices, mask=~is_usable))


def exact_decimal(text: str, target_type: pa.Decimal128Type) -> decimal.Decimal:
    """Return the number in `text`, in the scale of `target_type`, with every digit kept.

    Raises:
        ValueError: the text is not a number, is too large, or has more fractional digits than the
            scale.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError("is not a number")
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError("has an exponent out of range") from None
    whole_digits = target_type.precision - target_type.scale
    if value and value.adjusted() >= whole_digits:
        raise ValueError(
            f"has {value.adjusted() + 1} digits before the point, the column takes {whole_digits}"
        )
    rounded_value = value.quantize(decimal.Decimal((0, (1,), -target_type.scale)), context=_EXACT)
    if rounded_value != value:
        digits = "".join(map(str, value.as_tuple().digits))
        fractional = -int(value.as_tuple().exponent) - (len(digits) - len(digits.rstrip("0")))
        raise ValueError(
            f"has {fractional} fractional digits, the column takes {target_type.scale}"
        )
    return rounded_value


def why_no_decimal(value: bytes, scale: int, target_type: pa.Decimal128Type) -> str:
    """Explain why a two's complement number is not a value of `target_type`."""
    try:
        text = number_text(value, scale)
    except ValueError as problem:
        return str(problem)
    try:
        exact_decimal(text, target_type)
    except ValueError as problem:
        plain_text = format(decimal.Decimal(text), "f")
        shown_text = (
            plain_text
            if len(plain_text) <= _SHOWN_LENGTH_MAX
            else plain_text[:_SHOWN_LENGTH_MAX] + "…"
        )
        return f"is {shown_text}, which {problem}"
    return "is not a value of that type"
