"""Converts epoch counts and ISO 8601 text to dates, times and timestamps, without floats.

`column_cast` calls it. Digits finer than the column's precision are cut off towards the past, as
in Paimon's cast to TIMESTAMP(p). Values outside the years 0000 to 9999 fail, including PostgreSQL's
``infinity``. `has_cut_digits` reports where digits are cut off.

Source: Paimon `docs/concepts/data-types.md` (ranges), `utils/DateTimeUtils.java`.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import (
    Bools,
    Int64s,
    any_of,
    bools_of,
    int64s_of,
    lengths_of,
    null_where,
    own_bytes,
    valid_of,
)
from stream_app.cdc.columns.column_reading import (
    EPOCH_DIGITS,
    TIME_FAMILIES,
    ColumnReading,
    Family,
    JsonKind,
)

CastResult = tuple[pa.Array, Bools | None]
"""The values [n], null where a cast has failed, and the mask of failed ones; None if all fit."""

_DAY_SECONDS = 86_400
_FIRST_DAY = -719_528
_LAST_DAY = 2_932_896
_INT64_MAX = 2**63 - 1
UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}

_DATE = r"\d{4}-\d{2}-\d{2}"
_ZONE = r"(Z|[+-]\d{2}(:?\d{2})?)"


_Forms = tuple[tuple[str, str | None], ...]
_WHOLE_LENGTHS = {
    Family.TIME: len("00:00:00."),
    Family.TIMESTAMP: len("0000-00-00T00:00:00."),
}
"""Characters of a text before the digits of its fraction."""
_FINE_FRACTION = r"^(.{19}[.]\d{6})\d{1,3}"
_ZONED_DATE = rf"^({_DATE})Z$"


def _forms(digits: int) -> _Forms:
    """Return the patterns of texts with and without a zone, each with the zone of its cast."""
    clock = rf"\d{{2}}:\d{{2}}(:\d{{2}}([.]\d{{1,{digits}}})?)?"
    return (rf"^{_DATE}[T ]{clock}{_ZONE}$", "UTC"), (rf"^{_DATE}([T ]{clock})?$", None)


_FORMS = {digits: _forms(digits) for digits in (6, 9)}


def dates_from_days(days: pa.Array) -> CastResult:
    """Convert int64 days since 1970-01-01 to date32."""
    return _dates(int64s_of(days), days)


def dates_from_epoch(values: pa.Array, digits: int) -> CastResult:
    """Convert int64 units of 10^-digits seconds since the epoch to the UTC day as date32."""
    days = np.floor_divide(int64s_of(values), _DAY_SECONDS * 10**digits)
    return _dates(days, values)


def dates_from_iso(texts: pa.Array) -> CastResult:
    """Parse ``2024-02-29`` or ``2024-02-29Z`` to date32."""
    is_match = bools_of(pc.match_substring_regex(texts, rf"^{_DATE}Z?$"))
    texts_without_zone = pc.replace_substring(texts, "Z", "")
    return _cast_matching(texts_without_zone, is_match, pa.date32())


def timestamps_from_days(days: pa.Array, target_type: pa.DataType, precision: int) -> CastResult:
    """Convert int64 days since 1970-01-01 to timestamps of the days' midnights."""
    day_counts = int64s_of(days)
    has_failed = _is_out_of_range(day_counts, days, _FIRST_DAY, _LAST_DAY)
    if has_failed is not None:
        days = null_where(days, has_failed)
    seconds = pc.multiply(days, _DAY_SECONDS)
    stamps, outside = timestamps_from_epoch(seconds, 0, target_type, precision)
    return stamps, any_of(has_failed, outside)


def times_from_epoch(
    values: pa.Array, digits: int, target_type: pa.DataType, precision: int
) -> CastResult:
    """Convert int64 units of 10^-digits seconds since midnight to times."""
    ticks = int64s_of(values)
    end = _DAY_SECONDS * 10**digits
    has_failed = _is_out_of_range(ticks, values, 0, end - 1)
    converted_ticks = _rescale(ticks, digits, _digits_of(target_type), precision)
    return _build(converted_ticks, values, has_failed, target_type)


def times_from_iso(texts: pa.Array, target_type: pa.DataType, precision: int) -> CastResult:
    """Parse ``07:30:00Z`` or ``23:59:59.999999`` to time; other zones are converted to UTC."""
    # A time is parsed as a time of 1970-01-01. Its zone may move it to another day, so only the
    # remainder within a day counts.
    stamped_texts = pc.binary_join_element_wise("1970-01-01T", texts, "")
    instants, has_failed = _instants(stamped_texts, 9)
    day_nanos = pc.fill_null(instants, 0).to_numpy() % (_DAY_SECONDS * 10**9)
    wire_values = _build(day_nanos, instants, None, pa.int64())[0]
    times, _ = times_from_epoch(wire_values, 9, target_type, precision)
    return times, has_failed


def clock_texts(counts: pa.Array, digits: int) -> pa.Array:
    """Convert int64 units of 10^-digits seconds to ``07:30:00.000000``; also ``-838:59:59.000000``.

    All texts have the same number of fractional digits, so they sort as times do.
    """
    ticks = int64s_of(counts)
    seconds, fraction = np.divmod(np.abs(ticks), 10**digits)
    parts = [seconds // 3600, seconds // 60 % 60, seconds % 60, fraction]
    texts = [
        pc.utf8_lpad(pa.array(part).cast(pa.string()), width, "0")
        for part, width in zip(parts, (2, 2, 2, digits), strict=True)
    ]
    clock = pc.binary_join_element_wise(*texts[:3], ":")
    sign = pa.array(np.where(ticks < 0, "-", ""), pa.string())
    signed_clock = pc.binary_join_element_wise(sign, clock, "")
    return null_where(pc.binary_join_element_wise(signed_clock, texts[3], "."), ~valid_of(counts))


def timestamps_from_epoch(
    values: pa.Array, digits: int, target_type: pa.DataType, precision: int
) -> CastResult:
    """Convert int64 units of 10^-digits seconds since 1970 to timestamps in the target's unit."""
    ticks = int64s_of(values)
    target_digits = _digits_of(target_type)
    unit = 10**digits
    low = _FIRST_DAY * _DAY_SECONDS * unit
    high = (_LAST_DAY + 1) * _DAY_SECONDS * unit - 1
    if target_digits > digits:
        ticks_max = _INT64_MAX // 10 ** (target_digits - digits)
        low, high = max(low, -ticks_max), min(high, ticks_max)
    has_failed = _is_out_of_range(ticks, values, low, high)
    if digits == target_digits and precision >= digits and has_failed is None:
        return values.view(target_type), None
    return _build(
        _rescale(ticks, digits, target_digits, precision), values, has_failed, target_type
    )


def timestamps_from_iso(texts: pa.Array, target_type: pa.DataType, precision: int) -> CastResult:
    """Convert ISO 8601 texts to timestamps; a text without a zone is taken as UTC."""
    digits = 9 if _digits_of(target_type) == 9 else 6
    instants, has_failed = _instants(texts, digits)
    stamps, outside = timestamps_from_epoch(instants, digits, target_type, precision)
    return stamps, any_of(has_failed, outside)


def _instants(texts: pa.Array, digits: int) -> CastResult:
    """Convert ISO 8601 texts to int64 units of 10^-digits seconds since 1970; digits: 6 or 9."""
    result, has_other_form = _timestamp_texts(texts, digits)
    if has_other_form.any():
        # Arrow does not read a date with a Z, or digits finer than its unit.
        remaining_texts = pc.replace_substring_regex(
            null_where(texts, ~has_other_form), _ZONED_DATE, r"\1"
        )
        if digits < 9:
            remaining_texts = pc.replace_substring_regex(remaining_texts, _FINE_FRACTION, r"\1")
        result = pc.coalesce(result, _timestamp_texts(remaining_texts, digits)[0])
    return result, any_of(valid_of(texts) & ~valid_of(result))


def _timestamp_texts(texts: pa.Array, digits: int) -> tuple[pa.Array, Bools]:
    """Parse the texts with the form of a timestamp; null for others, with the mask of these.

    Texts are matched first, because Arrow would accept ``2024-02-29T07Z`` too.
    """
    unit = "ns" if digits == 9 else "us"
    result = pa.nulls(len(texts), pa.int64())
    if _are_plain(texts, digits):
        parsed_times, _ = _cast_matching(texts, valid_of(texts), pa.timestamp(unit))
        return parsed_times.view(pa.int64()), np.zeros(len(texts), np.bool_)
    has_other_form = valid_of(texts)
    for pattern, zone in _order_forms(_FORMS[digits], texts):
        if has_other_form.any():
            is_match = bools_of(pc.match_substring_regex(texts, pattern))
            parsed_times, _ = _cast_matching(texts, is_match, pa.timestamp(unit, zone))
            result = pc.coalesce(result, parsed_times.view(pa.int64()))
            has_other_form &= ~is_match
    return result, has_other_form


def _are_plain(texts: pa.Array, digits: int) -> bool:
    """Return whether the bytes show that all texts are timestamps of one length without a zone."""
    data, _ = own_bytes(texts)
    count = len(texts) - texts.null_count
    length = len(data) // max(count, 1)
    if not count or not 19 <= length <= 20 + digits or length == 20:
        return False
    if len(data) != count * length or (lengths_of(texts)[valid_of(texts)] != length).any():
        return False
    characters = data.reshape(count, length)
    mark_columns = [4, 7, 10, 13, 16, *([19] if length > 19 else [])]
    digit_columns = np.delete(np.arange(length), mark_columns)
    expected_marks = np.frombuffer(b"--_::."[: len(mark_columns)], np.uint8)
    is_mark = characters[:, mark_columns] == expected_marks
    is_mark[:, 2] = (characters[:, 10] == ord(" ")) | (characters[:, 10] == ord("T"))
    return bool(is_mark.all() and ((characters[:, digit_columns] - ord("0")) < 10).all())


def _order_forms(forms: _Forms, texts: pa.Array) -> _Forms:
    """Return the forms, that of the first text first: most texts of a column are alike."""
    first_text = next((text for text in texts.slice(0, 1).to_pylist() if text), "")
    has_zone = re.search(f"{_ZONE}$", first_text[11:]) is not None
    return forms if has_zone else forms[::-1]


def _cast_matching(texts: pa.Array, is_match: Bools, target_type: pa.DataType) -> CastResult:
    """Cast the texts that match; other texts, and dates that do not exist, become null."""
    matching_texts = texts if is_match.all() else null_where(texts, ~is_match)
    result = cast_isolating(matching_texts, target_type)
    return result, any_of(valid_of(texts) & ~valid_of(result))


def cast_isolating(array: pa.Array, target_type: pa.DataType) -> pa.Array:
    """Cast an array; values that cannot be cast become null.

    Arrow casts all values or none. So on a failure the array is halved until the failing values are
    isolated.
    """
    try:
        return array.cast(target_type)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return pa.nulls(1, target_type)
        half = len(array) // 2
        left, right = array.slice(0, half), array.slice(half)
        return pa.concat_arrays(
            [cast_isolating(left, target_type), cast_isolating(right, target_type)]
        )


def _digits_of(target_type: pa.DataType) -> int:
    return UNIT_DIGITS[target_type.unit]


def _rescale(ticks: Int64s, digits: int, target_digits: int, precision: int) -> Int64s:
    """Convert counts to other units, and cut off digits finer than `precision`."""
    kept_digits = min(precision, target_digits)
    if kept_digits < digits:
        ticks = np.floor_divide(ticks, 10 ** (digits - kept_digits))
        digits = kept_digits
    with np.errstate(over="ignore"):  # only values already marked as failed can overflow
        return ticks * np.int64(10 ** (target_digits - digits))


def _is_out_of_range(ticks: Int64s, values: pa.Array, low: int, high: int) -> Bools | None:
    if len(ticks) == 0:
        return None
    if not values.null_count and ticks.min() >= low and ticks.max() <= high:
        return None
    has_failed: Bools = (ticks < low) | (ticks > high)
    return any_of(has_failed & valid_of(values))


def _dates(days: Int64s, values: pa.Array) -> CastResult:
    outside = _is_out_of_range(days, values, _FIRST_DAY, _LAST_DAY)
    return _build(days, values, outside, pa.date32())


def _build(
    ticks: Int64s, values: pa.Array, has_failed: Bools | None, target_type: pa.DataType
) -> CastResult:
    """Build an array of `target_type`, null where `values` is null or a value has failed."""
    is_null = any_of(~valid_of(values) if values.null_count else None, has_failed)
    if target_type.bit_width == 32:
        ticks = ticks.astype(np.int32)
    array = pa.array(ticks, mask=is_null)
    return array.view(target_type), has_failed


def has_cut_digits(
    reading: ColumnReading, json_kind: JsonKind, wire_values: pa.Array
) -> Bools | None:
    """Mark the values that lose digits: bool [n], or None if no value does.

    Args:
        json_kind: the JSON kind of its values.
        wire_values: the values, as `cast_column` takes them. Those that fail to cast may be marked
            too.
    """
    if not may_cut(reading) or wire_values.null_count == len(wire_values):
        return None
    if json_kind is JsonKind.NUMBER:
        unit = _smallest_unit(reading)
        loses_digits: Bools = (
            int64s_of(wire_values) % unit != 0 if unit > 1 else np.zeros(len(wire_values), np.bool_)
        )
        loses_digits &= valid_of(wire_values)
    elif json_kind is JsonKind.STRING and reading.family is not Family.DATE:
        loses_digits = _loses_fraction(
            wire_values, _WHOLE_LENGTHS[reading.family], held_digits(reading)
        )
    else:
        return None
    return loses_digits if loses_digits.any() else None


def may_cut(reading: ColumnReading) -> bool:
    """Return whether the column holds times, so that values may lose digits."""
    return reading.family in TIME_FAMILIES and not reading.refusal


def held_digits(reading: ColumnReading) -> int:
    """Return the digits of a second that a column of times keeps."""
    return min(reading.data_type.precision, UNIT_DIGITS[reading.arrow_type.unit])


def _smallest_unit(reading: ColumnReading) -> int:
    """Return the divisor of counts that lose no digit; 1 if no count can lose one."""
    digits = EPOCH_DIGITS.get(reading.encoding)
    if digits is None:
        return 1
    if reading.family is Family.DATE:
        return int(_DAY_SECONDS * 10**digits)
    return int(10 ** max(digits - held_digits(reading), 0))


def _loses_fraction(texts: pa.Array, length_before: int, digits: int) -> Bools:
    # Comparing lengths avoids the slower pattern for the usual texts.
    lengths = lengths_of(texts) - bools_of(pc.ends_with(texts, pattern="Z"))
    if int(lengths.max()) <= length_before + digits:
        return np.zeros(len(texts), np.bool_)
    return bools_of(pc.match_substring_regex(texts, rf"[.][0-9]{{{digits}}}[0-9]*[1-9]"))
