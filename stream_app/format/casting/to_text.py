"""Casts values to text as Java prints them.

Source: Paimon `casting/*ToStringCastRule.java`, `utils/DateTimeUtils.java#formatTimestamp`,
`utils/BinaryStringUtils.java#toCharacterString`; Java's `Double.toString`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s
from stream_app.format.arrow_schema import timestamp_unit
from stream_app.format.casting.arrays import integers_of_digits, numbers_of, regex_group, ticks_of
from stream_app.format.casting.local_zone import to_local_times
from stream_app.format.casting.times import MILLIS_OF_DAY, PER_SECOND
from stream_app.model.schema.data_type import DataType, TypeRoot

_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7
"""The bounds between which Java prints floating-point numbers without an exponent."""
_SHORTEST = (
    r"^(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]+))?(?:e(?P<exponent>[+-]?[0-9]+))?$"
)
_PRECISE_MIN = {pa.float32(): 1e-43, pa.float64(): 1e-321}
"""A number below this has so few bits that its first two digits differ from its shortest text."""
_SECOND_LENGTH = len("yyyy-MM-dd HH:mm:ss")
_Part = str | tuple[Int64s, int]
"""A character, or numbers and how many of their last digits are shown."""


def text_to_text(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Cut texts at the target length in characters; CHAR is padded with blanks."""
    lengths = pc.utf8_length(values)
    longest_length = pc.max(lengths).as_py() or 0
    if longest_length > target_type.length:
        values = pc.utf8_slice_codeunits(values, 0, target_type.length)
    if target_type.root is TypeRoot.CHAR:
        values = pc.utf8_rpad(values, target_type.length, " ")
    return values


def bytes_to_text(values: pa.Array, _: DataType, __: DataType) -> pa.Array:
    """Decode UTF-8 without regard to the target length. As in Java, invalid bytes become U+FFFD."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        # This runs only for a batch with invalid UTF-8.
        texts = [None if value is None else value.decode(errors="replace")
                 for value in values.to_pylist()]  # fmt: skip
        return pa.array(texts, pa.string())


def number_to_text(values: pa.Array, stored_type: DataType, target_type: DataType) -> pa.Array:
    """Print integers, floating-point numbers, decimals and booleans."""
    if stored_type.root is TypeRoot.DECIMAL:
        texts = _decimal_texts(values, stored_type.scale)
    elif pa.types.is_floating(values.type):
        texts = _float_texts(values)
    else:
        texts = values.cast(pa.string())
    return text_to_text(texts, stored_type, target_type)


def _decimal_texts(values: pa.Array, scale: int) -> pa.Array:
    """Print decimals without an exponent."""
    unscaled_texts = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(values), values.buffers(), offset=values.offset
    ).cast(pa.string())
    if scale == 0:
        return unscaled_texts
    is_negative = pc.starts_with(unscaled_texts, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(unscaled_texts, "-"), scale + 1, "0")
    plain = pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale), "."
    )
    return pc.binary_join_element_wise(pc.if_else(is_negative, "-", ""), plain, "")


def _float_texts(values: pa.Array) -> pa.Array:
    """Print the shortest digits that identify the number, in Java's layout.

    Java from version 19 on does the same; older versions sometimes print one more digit.
    """
    doubles = numbers_of(values).astype(np.float64)
    magnitudes = np.abs(doubles)
    shortest_texts = values.cast(pa.string())
    is_imprecise = (magnitudes > 0) & (magnitudes < _PRECISE_MIN[values.type])
    if is_imprecise.any():
        # Of these few numbers Java prints two digits where one suffices.
        two_digits = [f"{double:.1e}" for double in doubles[is_imprecise]]
        is_one_digit = pc.match_substring_regex(shortest_texts, "^-?[0-9]e")
        corrected_texts = pc.replace_with_mask(
            shortest_texts, pa.array(is_imprecise), pa.array(two_digits)
        )
        shortest_texts = pc.if_else(is_one_digit, corrected_texts, shortest_texts)
    plain = pc.if_else(
        pc.match_substring(shortest_texts, "."),
        shortest_texts,
        pc.binary_join_element_wise(shortest_texts, "0", "."),
    )
    is_plain = (magnitudes >= _PLAIN_FROM) & (magnitudes < _PLAIN_BELOW) | (magnitudes == 0)
    texts = (
        plain if is_plain.all() else pc.if_else(pa.array(is_plain), plain, _powers(shortest_texts))
    )
    for special, name in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        texts = pc.if_else(pc.equal(shortest_texts, special), name, texts)
    return texts


def _powers(shortest: pa.Array) -> pa.Array:
    """Print texts of the form `_SHORTEST` as ``d.ddE±n``; null for others.

    Four numbers, as Arrow prints them::

        shortest    ["10000000", "-0.000015", "1.25e+20", "nan"]
        digits      ["10000000", "0000015",   "125",      null]
        leading     [0,          5,           0,          -]       zeros
        power       [7,          -5,          20,         -]
        mantissa    ["1.0",      "1.5",       "1.25",     null]
                    ["1.0E7",    "-1.5E-5",   "1.25E20",  null]
    """
    groups = pc.extract_regex(shortest, _SHORTEST)
    whole_digits = regex_group(groups, "whole")
    fraction = pc.coalesce(regex_group(groups, "fraction"), pa.scalar(""))
    digits = pc.binary_join_element_wise(whole_digits, fraction, "")
    leading = pc.subtract(pc.utf8_length(digits), pc.utf8_length(pc.utf8_ltrim(digits, "0")))
    power = (
        integers_of_digits(regex_group(groups, "exponent"))
        + numbers_of(pc.utf8_length(whole_digits))
        - numbers_of(leading)
        - 1
    )
    digits = pc.utf8_trim(digits, "0")
    first_digit = pc.utf8_slice_codeunits(digits, 0, 1)
    other_digits = pc.utf8_slice_codeunits(digits, 1)
    other_digits = pc.if_else(pc.equal(other_digits, ""), "0", other_digits)
    mantissa = pc.binary_join_element_wise(first_digit, other_digits, ".")
    power_texts = pc.binary_join_element_wise(mantissa, pa.array(power).cast(pa.string()), "E")
    return pc.binary_join_element_wise(regex_group(groups, "sign"), power_texts, "")


def date_to_text(values: pa.Array, _: DataType, __: DataType) -> pa.Array:
    """Print dates as ``yyyy-MM-dd``."""
    return _join_parts([*_day_parts(ticks_of(values))], values)


def time_to_text(values: pa.Array, stored_type: DataType, _: DataType) -> pa.Array:
    """Print times as ``HH:mm:ss``; TIME(1) and finer have at least one fractional digit."""
    times_ms = ticks_of(values)
    times_ms = np.where(times_ms < 0, times_ms % MILLIS_OF_DAY, times_ms)
    digits = min(stored_type.precision, 3)
    texts = _join_parts([*_clock_parts(times_ms // 1000), ".", (times_ms % 1000, 3)], values)
    texts = pc.utf8_slice_codeunits(texts, 0, len("HH:mm:ss") + (digits and digits + 1))
    return pc.replace_substring_regex(texts, r"(\.[0-9]+?)0+$", r"\1") if digits > 1 else texts


def timestamp_to_text(values: pa.Array, stored_type: DataType, _: DataType) -> pa.Array:
    """Print as ``yyyy-MM-dd HH:mm:ss``, with at least the precision's fractional digits."""
    ticks = ticks_of(values)
    unit = timestamp_unit(stored_type.precision)
    if stored_type.root is TypeRoot.TIMESTAMP_LTZ:
        ticks = to_local_times(ticks, unit)
    per_second = PER_SECOND[unit]
    seconds = ticks // per_second
    nanos = (ticks % per_second) * (PER_SECOND["ns"] // per_second)
    texts = _join_parts(
        [*_day_parts(seconds // 86_400), " ", *_clock_parts(seconds % 86_400), ".", (nanos, 9)],
        values,
    )
    length = _SECOND_LENGTH + 1 + stored_type.precision
    further_digits = pc.utf8_rtrim(pc.utf8_slice_codeunits(texts, length), "0")
    texts = pc.utf8_slice_codeunits(texts, 0, length)
    texts = pc.binary_join_element_wise(texts, further_digits, "")
    return texts if stored_type.precision else pc.utf8_rtrim(texts, ".")


def _day_parts(days: Int64s) -> list[_Part]:
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]").astype(np.int64)
    month_days = (dates - dates.astype("datetime64[M]")).astype(np.int64)
    return [(months // 12 + 1970, 4), "-", (months % 12 + 1, 2), "-", (month_days + 1, 2)]


def _clock_parts(seconds: Int64s) -> list[_Part]:
    return [(seconds // 3600, 2), ":", (seconds // 60 % 60, 2), ":", (seconds % 60, 2)]


def _join_parts(parts: list[_Part], like: pa.Array) -> pa.Array:
    """Return Arrow texts from bytes of fixed width; null where `like` is null.

    Like Java, it shows only the last digits of a year after 9999, and before year 0 the characters
    of its remainders.
    """
    columns: list[npt.NDArray[np.uint8]] = []
    for piece in parts:
        if isinstance(piece, str):
            columns.append(np.full(len(like), ord(piece), np.uint8))
            continue
        integers, digits = piece
        magnitudes, signs = np.abs(integers), np.sign(integers)
        for power in range(digits - 1, -1, -1):
            columns.append((ord("0") + signs * (magnitudes // 10**power % 10)).astype(np.uint8))
    block = np.ascontiguousarray(np.stack(columns, axis=1))
    width = pa.binary(block.shape[1])
    lines = pa.FixedSizeBinaryArray.from_buffers(width, len(like), [None, pa.py_buffer(block)])
    texts = lines.cast(pa.binary()).cast(pa.string())
    return pc.if_else(like.is_valid(), texts, pa.scalar(None, pa.string()))
