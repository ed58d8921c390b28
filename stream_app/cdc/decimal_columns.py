"""Exact decimals from two's complement bytes and from text, never through a float.

Called by `column_cast`. The bytes are `java.math.BigInteger.toByteArray`: big-endian, as few
bytes as the number needs, the first bit being the sign.

Source: Kafka Connect `data/Decimal.java`, Debezium `data/VariableScaleDecimal.java`.
"""

from __future__ import annotations

import decimal
import re

import numpy as np
import pyarrow as pa

from stream_app.cdc.arrow_buffers import (
    Bools,
    Bytes,
    Int64s,
    bytes_of,
    lengths_of,
    null_where,
    offsets_of,
    valid_of,
)

_WIDTH = 16
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SHOWN_MAX = 80
# Digits enough for any value that fits a decimal128, whatever the text looks like.
_EXACT = decimal.Context(prec=80, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def decimals_from_bytes(
    values: pa.Array, scale: int, target: pa.Decimal128Type
) -> tuple[pa.Array, Bools | None]:
    """Two's complement numbers of one scale → decimals of `target`.

    Returns:
        The decimals, null where the number does not fit exactly, and where it does not fit.
    """
    lengths = lengths_of(values)
    wide = (lengths > _WIDTH) | (lengths == 0)
    wide &= valid_of(values) if wide.any() else False
    if scale != target.scale or wide.any():
        return _one_by_one(values, scale, target)
    raw = _right_aligned(values)
    buffers = [values.buffers()[0] if values.null_count else None, pa.py_buffer(raw)]
    if buffers[0] is not None and values.offset:
        buffers[0] = pa.array(valid_of(values)).buffers()[1]
    decimals = pa.Array.from_buffers(target, len(values), buffers)
    failed = beyond_precision(decimals)
    return (decimals, None) if failed is None else (null_where(decimals, failed), failed)


def _right_aligned(values: pa.Array) -> Bytes:
    """Little-endian 16-byte numbers, sign extended; one NumPy pass for each length there is."""
    offsets, data, lengths = offsets_of(values), bytes_of(values), lengths_of(values)
    out = np.zeros((len(values), _WIDTH), np.uint8)
    for length in np.flatnonzero(np.bincount(lengths, minlength=1)):
        if length == 0:
            continue
        rows = np.flatnonzero(lengths == length)
        starts = offsets[rows]
        first = data[starts]
        number = np.empty((len(rows), _WIDTH), np.uint8)
        number[:, length:] = np.where(first & 0x80, 0xFF, 0)[:, None]
        for place in range(length):
            number[:, place] = data[starts + (length - 1 - place)]
        out[rows] = number
    return out


def beyond_precision(decimals: pa.Array) -> Bools | None:
    """Where decimals have more digits than their type says; None when none has.

    Arrow's parser of JSON does not check this: it reads 12345 into a decimal128(4, 0).
    """
    kind = decimals.type
    words = np.frombuffer(decimals.buffers()[1], dtype=np.int64) if len(decimals) else None
    if words is None:
        return None
    words = words.reshape(-1, 2)[decimals.offset : decimals.offset + len(decimals)]
    low, high = words[:, 0], words[:, 1]
    limit = 10**kind.precision
    if kind.precision <= 18:
        failed = (high != low >> 63) | (low >= limit) | (low <= -limit)
    else:
        failed = _not_below(high, low, limit) | ~_not_below(high, low, 1 - limit)
    if not failed.any():
        return None
    failed = failed & valid_of(decimals)
    return failed if failed.any() else None


def _not_below(high: Int64s, low: Int64s, bound: int) -> Bools:
    """Where the 128-bit number of two words is ≥ `bound`."""
    bound_high, bound_low = bound >> 64, np.uint64(bound & 0xFFFF_FFFF_FFFF_FFFF)
    result: Bools = high > bound_high
    result |= (high == bound_high) & (low.view(np.uint64) >= bound_low)
    return result


def _one_by_one(
    values: pa.Array, scale: int, target: pa.Decimal128Type
) -> tuple[pa.Array, Bools | None]:
    """The rare rest: numbers of another scale, or with more than 16 bytes."""
    out: list[decimal.Decimal | None] = []
    failed = np.zeros(len(values), np.bool_)
    for row, value in enumerate(values.to_pylist()):
        out.append(None)
        if value is None:
            continue
        try:
            out[row] = exact_decimal(number_text(value, scale), target)
        except ValueError:
            failed[row] = True
    return pa.array(out, target), failed if failed.any() else None


def number_text(value: bytes, scale: int) -> str:
    """The text of a two's complement number with `scale` fractional digits.

    Raises:
        ValueError: no bytes, or so many that it cannot be a decimal.
    """
    if not 0 < len(value) <= 64 or abs(scale) > 1000:
        raise ValueError("is not the two's complement of a decimal")
    return f"{int.from_bytes(value, 'big', signed=True)}E{-scale}"


def exact_decimal(text: str, target: pa.Decimal128Type) -> decimal.Decimal:
    """The number that `text` is, in the scale of `target`, every digit kept.

    Raises:
        ValueError: no number, too large, or with digits that the scale has no room for.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError("is not a number")
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError("has an exponent out of range") from None
    whole = target.precision - target.scale
    if number and number.adjusted() >= whole:
        raise ValueError(
            f"has {number.adjusted() + 1} digits before the point, the column takes {whole}"
        )
    rounded = number.quantize(decimal.Decimal((0, (1,), -target.scale)), context=_EXACT)
    if rounded != number:
        digits = "".join(map(str, number.as_tuple().digits))
        fractional = -int(number.as_tuple().exponent) - (len(digits) - len(digits.rstrip("0")))
        raise ValueError(f"has {fractional} fractional digits, the column takes {target.scale}")
    return rounded


def why_no_decimal(value: bytes, scale: int, target: pa.Decimal128Type) -> str:
    """Why a two's complement number is no value of `target`, with the number that it is."""
    try:
        text = number_text(value, scale)
    except ValueError as problem:
        return str(problem)
    try:
        exact_decimal(text, target)
    except ValueError as problem:
        number = format(decimal.Decimal(text), "f")
        shown = number if len(number) <= _SHOWN_MAX else number[:_SHOWN_MAX] + "…"
        return f"is {shown}, which {problem}"
    return "is not a value of that type"
