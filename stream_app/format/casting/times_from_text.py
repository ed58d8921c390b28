"""Casts texts to dates, times and timestamps as Paimon parses them.

A text of only digits, perhaps with a minus, is the number that Paimon stores: days, milliseconds,
or for a TIMESTAMP ticks of its precision.

Source: Paimon `casting/StringToDateCastRule.java`, `StringToTimeCastRule.java`,
`StringToTimestampCastRule.java`, `utils/BinaryStringUtils.java`, `utils/DateTimeUtils.java`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.format.arrow_schema import arrow_type
from stream_app.format.casting.arrays import (
    CastError,
    array_of_numbers,
    integers_of_digits,
    refuse_where,
    regex_group,
)
from stream_app.format.casting.from_text import text_to_integer
from stream_app.format.casting.local_zone import to_instants
from stream_app.format.casting.times import timestamps
from stream_app.model.schema.data_type import DataType, TypeRoot

_NUMBER = "^-?[0-9]+$"
_INT = DataType(root=TypeRoot.INT)
_BIGINT = DataType(root=TypeRoot.BIGINT)
_B = r"[\x00-\x20]*"
_DATE = (
    rf"^{_B}(?P<year>[0-9]{{1,9}}){_B}"
    rf"(?:-{_B}(?P<month>[0-9]{{1,9}}){_B}(?:-{_B}(?P<day>[0-9]{{1,9}}){_B})?)?$"
)
_TIME = (
    rf"(?s)^{_B}(?P<hour>[0-9]{{1,9}}){_B}"
    rf"(?::{_B}(?P<minute>[0-9]{{1,9}}){_B}"
    rf"(?::{_B}(?P<second>[0-9]{{1,9}}){_B}(?:\.(?P<fraction>[^+-]*))?)?)?"
    rf"(?:(?P<sign>[+-]){_B}(?P<zone_hour>[0-9]{{1,9}}){_B}"
    rf"(?::{_B}(?P<zone_minute>[0-9]{{1,9}}){_B})?)?$"
)
_TIMESTAMP = (
    r"^(?P<year>[0-9]{4}|\+[0-9]{5,9})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?: (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})"
    r"(?:\.(?P<fraction>[0-9]{0,9}))?)?$"
)
_NANOS_OF_TICK = {0: 1_000_000_000, 3: 1_000_000, 6: 1_000, 9: 1}
"""Precisions at which Paimon reads a number, and what it counts."""
_MINUTE, _HOUR = 60_000, 3_600_000
_SECONDS_OF_DAY = 86_400


def text_to_date(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Parse ``yyyy[-M[-d]]``; text after a blank is ignored."""
    is_numeric, days = _as_numbers(values, _INT, target_type)
    texts = pc.replace_substring_regex(values, r"(?s)^([^ ]+) .*$", r"\1")
    groups = pc.extract_regex(texts, _DATE)
    refuse_where(values, pc.and_(groups.is_null(), pc.invert(is_numeric)), target_type)
    year = integers_of_digits(regex_group(groups, "year"))
    month, day = (_digits_or_one(regex_group(groups, name)) for name in ("month", "day"))
    is_valid = (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1)
    is_valid &= day <= _month_days(year, np.clip(month, 1, 12))
    refuse_where(values, pc.and_(pa.array(~is_valid), pc.invert(is_numeric)), target_type)
    parsed_days = _days(year, np.clip(month, 1, 12)) + day - 1
    dates = np.where(_bools(is_numeric), days, parsed_days).astype(np.int32)
    return array_of_numbers(dates, values, pa.int32()).view(pa.date32())


def text_to_time(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Parse ``H[:m[:s[.f]]]`` and an offset of hours, or of minutes too if the text has seconds.

    Paimon adds the offset after a plus, and rounds a fraction to milliseconds. Four texts, of
    which the first is a number of milliseconds::

        values     ["5000", "1:2",   "1:2:3.4567", "10:30:00+02:15"]
        hour       [-,      1,       1,            12]
        minute     [-,      2,       2,            45]
        second     [-,      0,       3,            0]
                   [5000,   3720000, 3723457,      45900000]
    """
    is_numeric, numbers_ms = _as_numbers(values, _INT, target_type)
    groups = pc.extract_regex(values, _TIME)
    lacks_second = pc.equal(pc.coalesce(regex_group(groups, "second"), pa.scalar("")), "")
    has_lone_minute = pc.and_(
        lacks_second, pc.greater(pc.utf8_length(regex_group(groups, "zone_minute")), 0)
    )
    is_unreadable = pc.or_(groups.is_null(), pc.fill_null(has_lone_minute, False))
    refuse_where(values, pc.and_(is_unreadable, pc.invert(is_numeric)), target_type)
    hour, minute, second = (
        integers_of_digits(regex_group(groups, name)) for name in ("hour", "minute", "second")
    )
    is_minus = _bools(pc.equal(regex_group(groups, "sign"), "-"))
    zone_hour, zone_minute = (
        integers_of_digits(regex_group(groups, f"zone_{name}")) for name in ("hour", "minute")
    )
    hour = np.where(is_minus, hour - zone_hour, hour + zone_hour)
    minute = np.where(is_minus, minute - zone_minute, minute + zone_minute)
    parsed_ms = hour * _HOUR + minute * _MINUTE + second * 1000
    parsed_ms = parsed_ms + _rounded_ms(regex_group(groups, "fraction"))
    times = np.where(_bools(is_numeric), numbers_ms, parsed_ms).astype(np.int32)
    return array_of_numbers(times, values, pa.int32()).view(arrow_type(target_type))


def _rounded_ms(fraction: pa.Array) -> Int64s:
    """Return a fraction's milliseconds, rounded by the fourth digit; a non-digit counts as 0."""
    text = pc.utf8_trim(pc.coalesce(fraction, pa.scalar("")), "".join(map(chr, range(0x21))))
    digits = pc.replace_substring_regex(pc.utf8_slice_codeunits(text, 0, 3), "[^0-9]", "0")
    is_rounded_up = pc.match_substring_regex(pc.utf8_slice_codeunits(text, 3, 4), r"[5-\x{10FFFF}]")
    return integers_of_digits(pc.utf8_rpad(digits, 3, "0")) + _bools(is_rounded_up)


def text_to_timestamp(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Parse ``yyyy-M-d[ H:m:s[.f]]``, for a TIMESTAMP_LTZ as this machine's local time."""
    is_local = target_type.root is TypeRoot.TIMESTAMP_LTZ
    is_numeric = pc.and_(pc.match_substring_regex(values, _NUMBER), not is_local)
    is_numeric, ticks = _as_numbers(values, _BIGINT, target_type, is_numeric)
    groups = pc.extract_regex(values, _TIMESTAMP)
    refuse_where(values, pc.and_(groups.is_null(), pc.invert(is_numeric)), target_type)
    seconds, nanos, is_valid = _parse_parts(groups)
    refuse_where(values, pc.and_(pa.array(~is_valid), pc.invert(is_numeric)), target_type)
    if is_local:
        seconds = to_instants(seconds, "s")
    is_number = _bools(is_numeric)
    if is_number.any():
        if target_type.precision not in _NANOS_OF_TICK:
            raise CastError(
                f"a number is not a valid {target_type.as_nullable()}, only of 0, 3, 6 or 9 digits"
            )
        per_second = 1_000_000_000 // _NANOS_OF_TICK[target_type.precision]
        tick_nanos = ticks % per_second * _NANOS_OF_TICK[target_type.precision]
        seconds = np.where(is_number, ticks // per_second, seconds)
        nanos = np.where(is_number, tick_nanos, nanos)
    return _from_seconds(seconds, nanos, values, target_type)


def _parse_parts(groups: pa.StructArray) -> tuple[Int64s, Int64s, Bools]:
    """Return local seconds since 1970, nanoseconds, and whether the text names an existing time.

    A day that the month lacks becomes its last day, and 24:00:00 the next midnight.
    """
    year, month, day, hour, minute, second = (
        integers_of_digits(pc.utf8_ltrim(regex_group(groups, name), "+"))
        for name in ("year", "month", "day", "hour", "minute", "second")
    )
    fraction = pc.coalesce(regex_group(groups, "fraction"), pa.scalar(""))
    nanos = integers_of_digits(pc.utf8_rpad(fraction, 9, "0"))
    is_valid = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    is_valid &= (minute < 60) & (second < 60)
    is_valid &= (hour < 24) | ((hour == 24) & (minute == 0) & (second == 0) & (nanos == 0))
    is_text = ~_bools(groups.is_null())
    is_valid |= ~is_text
    month = np.clip(month, 1, 12)
    day = np.minimum(day, _month_days(year, month))
    day_seconds = hour * 3600 + minute * 60 + second
    seconds = (_days(year, month) + day - 1) * _SECONDS_OF_DAY + day_seconds
    return np.where(is_text, seconds, 0), nanos, is_valid


def _from_seconds(
    seconds: Int64s, nanos: Int64s, like: pa.Array, target_type: DataType
) -> pa.Array:
    """Build timestamps with the type's number of fractional digits."""
    step = 10 ** (9 - target_type.precision)
    nanos = nanos - nanos % step
    if target_type.precision <= 6:
        return timestamps(seconds * 1_000_000 + nanos // 1000, "us", like, target_type)
    whole_seconds = timestamps(seconds, "s", like, target_type)
    return array_of_numbers(
        whole_seconds.cast(pa.int64()).fill_null(0).to_numpy() + nanos, like, pa.int64()
    ).view(arrow_type(target_type))


def _as_numbers(
    values: pa.Array,
    number_type: DataType,
    target_type: DataType,
    is_numeric: pa.Array | None = None,
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the mask of texts that are numbers (false for null), and the numbers.

    Raises:
        CastError: a number does not fit into `number_type`.
    """
    if is_numeric is None:
        is_numeric = pc.match_substring_regex(values, _NUMBER)
    is_numeric = pc.fill_null(is_numeric, False)
    if not pc.any(is_numeric).as_py():
        return is_numeric, np.zeros(len(values), np.int64)
    numeric_texts = pc.if_else(is_numeric, values, pa.scalar(None, pa.string()))
    try:
        parsed_numbers = text_to_integer(numeric_texts, _INT, number_type)
    except CastError as error:
        raise CastError(f"{error}, and so no {target_type.as_nullable()}") from None
    return is_numeric, np.asarray(parsed_numbers.fill_null(0).to_numpy(), np.int64)


def _digits_or_one(texts: pa.Array) -> Int64s:
    filled_texts = pc.coalesce(texts, pa.scalar("1"))
    return integers_of_digits(pc.if_else(pc.equal(filled_texts, ""), "1", filled_texts))


def _bools(values: pa.Array) -> Bools:
    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), np.bool_)


def _days(year: Int64s, month: Int64s) -> Int64s:
    """Return the days from 1970 to the first of a month."""
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    return months.astype("datetime64[D]").astype(np.int64)


def _month_days(year: Int64s, month: Int64s) -> Int64s:
    return _days(year, month + 1) - _days(year, month)
