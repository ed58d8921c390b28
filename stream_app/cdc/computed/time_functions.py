"""year, month, day, hour, minute, second and date_format, on whole columns.

A column is a date, a timestamp, a whole number that counts units since 1970, or a text. Times are
in UTC. Values outside the years 0000 to 9999 fail, as in `columns.time_columns`.

Source: Paimon `flink/action/cdc/Expression.java#TemporalExpressionBase`,
`utils/DateTimeUtils.java#toLocalDateTime`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, any_of, int64s_of, valid_of
from stream_app.cdc.columns.time_columns import (
    UNIT_DIGITS,
    CastResult,
    cast_isolating,
    timestamps_from_iso,
)
from stream_app.cdc.computed.date_pattern import DAY, NANO, PatternPart, unit_of

PRECISIONS = (0, 3, 6, 9)
"""Fractional digits of a second that a number may count."""

_FIRST_SECOND = -719_528 * DAY
_LAST_SECOND = 2_932_897 * DAY - 1
_NUMBER = r"^[+-]?[0-9]{1,19}$"
_ONE_DIGIT = r"\b([0-9])\b"
_FRACTION = r"[.](?P<digits>[0-9]{1,9})"
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Instants:
    """n instants.

    Attributes:
        seconds: int64 [n], seconds since 1970 in UTC; 0 for null.
        nanos: int64 [n], of the second.
        is_valid: bool [n].
        has_failed: bool [n]; where a value is not an instant.
    """

    seconds: Int64s
    nanos: Int64s
    is_valid: Bools
    has_failed: Bools

    def __len__(self) -> int:
        return len(self.seconds)


def time_field(values: pa.Array, field: str, precision: int | None) -> CastResult:
    """Return one field of each instant, such as ``year``: int32 [n]."""
    instants = instants_of(values, precision)
    field_values = _FIELDS[field](instants.seconds)
    return pa.array(field_values.astype(np.int32), mask=~instants.is_valid), any_of(
        instants.has_failed
    )


def date_format(
    values: pa.Array, parts: tuple[PatternPart, ...], precision: int | None = None
) -> CastResult:
    """Return each instant as text [n].

    A text that changes once a day is formatted once for each day, and so on.
    """
    instants = instants_of(values, precision)
    unit = unit_of(parts)
    if unit == NANO:
        texts = _format_parts(instants.seconds, instants.nanos, parts)
    else:
        units = pa.array(instants.seconds // unit).dictionary_encode()
        unit_starts = units.dictionary.to_numpy() * unit
        texts = _format_parts(unit_starts, np.zeros_like(unit_starts), parts)
        texts = texts.take(units.indices)
    if not instants.is_valid.all():
        texts = pc.if_else(pa.array(instants.is_valid), texts, pa.scalar(None, pa.string()))
    return texts, any_of(instants.has_failed)


def instants_of(values: pa.Array, precision: int | None) -> Instants:
    """Return the instants of a column of dates, timestamps, whole numbers or texts.

    Args:
        precision: the number of fractional digits of a second in numbers, also as texts, or None
            for dates and timestamps.
    """
    arrow_type, is_valid = values.type, valid_of(values)
    if pa.types.is_string(arrow_type):
        ticks, digits, nanos = _instants_of_texts(values, precision)
        is_parsed = valid_of(ticks)
    else:
        ticks = values
        digits = precision or 0
        nanos = None
        is_parsed = is_valid
        if pa.types.is_date(arrow_type):
            ticks = pc.multiply(values.view(pa.int32()).cast(pa.int64()), DAY)
        elif pa.types.is_timestamp(arrow_type):
            ticks = values.view(pa.int64())
            digits = UNIT_DIGITS[arrow_type.unit]
        else:
            ticks = values.cast(pa.int64())
    counts = np.where(is_parsed, int64s_of(pc.fill_null(ticks, 0)), 0)
    seconds, fraction = np.divmod(counts, 10**digits)
    is_in_range = is_parsed & (seconds >= _FIRST_SECOND) & (seconds <= _LAST_SECOND)
    return Instants(
        np.where(is_in_range, seconds, 0),
        np.where(is_in_range, fraction * 10 ** (9 - digits) if nanos is None else nanos, 0),
        is_in_range,
        is_valid & ~is_in_range,
    )


def _instants_of_texts(
    texts: pa.Array, precision: int | None
) -> tuple[pa.Array, int, Int64s | None]:
    """Parse texts to counts, and return the fractional digits of their unit, and nanoseconds.

    Four texts without a precision, so that counts are of microseconds, 6 digits::

        texts     ["1970-01-02T03:04:05.123456789Z", "1970-1-2 3:04:05", "1970-01-02", "soon"]
        counts    [97445123456,                      97445000000,        86400000000,  null]
        nanos     [123456789,                        0,                  0,            0]
    """
    if precision is not None:
        numeric = pc.match_substring_regex(texts, _NUMBER)
        digits = pc.if_else(numeric, texts, pa.scalar(None, pa.string()))
        return cast_isolating(pc.replace_substring(digits, "+", ""), pa.int64()), precision, None
    microseconds = pa.timestamp("us")
    stamps, has_failed = timestamps_from_iso(texts, microseconds, 6)
    if has_failed is not None:
        # Paimon also takes months, days, hours, minutes and seconds of one digit.
        padded_texts = pc.replace_substring_regex(
            pc.replace_substring(texts, "T", " "), _ONE_DIGIT, "0\\1"
        )
        stamps = pc.coalesce(stamps, timestamps_from_iso(padded_texts, microseconds, 6)[0])
    fraction = pc.struct_field(pc.extract_regex(texts, _FRACTION), "digits")
    nanos = pc.utf8_rpad(pc.fill_null(fraction, "0"), 9, "0").cast(pa.int64())
    return stamps.view(pa.int64()), 6, nanos.to_numpy()


def _format_parts(seconds: Int64s, nanos: Int64s, parts: tuple[PatternPart, ...]) -> pa.Array:
    """Return string [n]: the times by the parts of a pattern, which are joined."""
    columns: list[pa.Array | str] = []
    for part in parts:
        if not part.count:
            columns.append(part.text)
        elif part.text == "S":
            digits = pc.utf8_lpad(pa.array(nanos).cast(pa.string()), 9, "0")
            columns.append(pc.utf8_slice_codeunits(digits, 0, part.count))
        elif part.text == "E" or (part.text in "ML" and part.count > 2):
            columns.append(_name(seconds, part))
        elif part.text == "a":
            half_days = pa.array(_day_second(seconds) // (DAY // 2))
            columns.append(pa.array(["AM", "PM"]).take(half_days))
        else:
            columns.append(_padded_number(_LETTERS[part.text](seconds), part))
    if len(columns) == 1 and not isinstance(columns[0], str):
        return columns[0]
    if all(isinstance(column, str) for column in columns):
        return pa.repeat("".join(map(str, columns)), len(seconds))
    return pc.binary_join_element_wise(*columns, "")


def _name(seconds: Int64s, part: PatternPart) -> pa.Array:
    if part.text == "E":
        # 1970-01-01 was a Thursday.
        names = list(_DAYS)
        name_indices = (seconds // DAY + 3) % 7
    else:
        names = list(_MONTHS)
        name_indices = _FIELDS["month"](seconds) - 1
    texts = names if part.count == 4 else [name[:3] for name in names]
    return pa.array(texts).take(pa.array(name_indices))


def _padded_number(values: Int64s, part: PatternPart) -> pa.Array:
    if part.text in "yuY" and part.count == 2:
        values = values % 100
    texts = pc.utf8_lpad(pa.array(values).cast(pa.string()), part.count, "0")
    is_short_quarter = part.text in "Qq" and part.count == 3
    return pc.replace_substring(texts, "00", "Q") if is_short_quarter else texts


def _calendar_field(field_of: Callable[[pa.Array], pa.Array]) -> Callable[[Int64s], Int64s]:
    def read(seconds: Int64s) -> Int64s:
        stamps = pa.array(seconds).view(pa.timestamp("s"))
        field_values: Int64s = field_of(stamps).cast(pa.int64()).to_numpy(zero_copy_only=False)
        return field_values

    return read


def _day_second(seconds: Int64s) -> Int64s:
    return seconds % DAY


_year = _calendar_field(pc.year)


def _year_of_era(seconds: Int64s) -> Int64s:
    """Return the year of the letter y, for which the year before year 1 is year 1 BC."""
    years = _year(seconds)
    era_years: Int64s = np.where(years > 0, years, 1 - years)
    return era_years


_FIELDS: Mapping[str, Callable[[Int64s], Int64s]] = {
    "year": _year,
    "month": _calendar_field(pc.month),
    "day": _calendar_field(pc.day),
    "hour": lambda seconds: _day_second(seconds) // 3_600,
    "minute": lambda seconds: seconds // 60 % 60,
    "second": lambda seconds: seconds % 60,
}
_LETTERS: Mapping[str, Callable[[Int64s], Int64s]] = {
    "y": _year_of_era,
    "u": _year,
    "Y": _calendar_field(pc.iso_year),
    "Q": _calendar_field(pc.quarter),
    "q": _calendar_field(pc.quarter),
    "M": _FIELDS["month"],
    "L": _FIELDS["month"],
    "w": _calendar_field(pc.iso_week),
    "D": _calendar_field(pc.day_of_year),
    "d": _FIELDS["day"],
    "H": _FIELDS["hour"],
    "k": lambda seconds: (_FIELDS["hour"](seconds) - 1) % 24 + 1,
    "K": lambda seconds: _FIELDS["hour"](seconds) % 12,
    "h": lambda seconds: (_FIELDS["hour"](seconds) - 1) % 12 + 1,
    "m": _FIELDS["minute"],
    "s": _FIELDS["second"],
}
