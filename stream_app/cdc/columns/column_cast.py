"""Casts parsed JSON columns to the table's types, a whole column at a time.

The formats call it after a parser has read each column as `ColumnReading.wire_type`. A value that
does not fit its column exactly fails; it is never rounded, wrapped or truncated. Two exceptions
follow Paimon. Fractional seconds beyond the column's precision are cut off. The lengths of CHAR(n),
VARCHAR(n) and BINARY(n) are not enforced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, any_of, bools_of, null_where, own_bytes, valid_of
from stream_app.cdc.columns.base64_columns import (
    decode_base64,
    decode_hex,
    decode_latin_1,
    pad_left,
    reverse_bytes,
)
from stream_app.cdc.columns.column_reading import (
    EPOCH_DIGITS,
    ColumnReading,
    Encoding,
    Family,
    JsonKind,
)
from stream_app.cdc.columns.decimal_columns import (
    convert_by_scale,
    decimal_texts,
    decimals_from_bytes,
    narrow_decimals,
)
from stream_app.cdc.columns.nested_columns import Casts, cast_nested, cast_texts
from stream_app.cdc.columns.time_columns import (
    CastResult,
    cast_isolating,
    clock_texts,
    dates_from_days,
    dates_from_epoch,
    dates_from_iso,
    times_from_epoch,
    times_from_iso,
    timestamps_from_days,
    timestamps_from_epoch,
    timestamps_from_iso,
)
from stream_app.model.schema.data_type import TypeRoot
from stream_app.variants.json_column import variants_of

_INTEGER = r"^-?[0-9]+$"
_REAL = r"^([+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|NaN|-?Infinity)$"
_INTEGER_DECIMAL = pa.decimal128(38, 0)


def cast_column(reading: ColumnReading, json_kind: JsonKind, wire_values: pa.Array) -> CastResult:
    """Cast one column to the table's type.

    Args:
        json_kind: the JSON kind of its values.
        wire_values: the values as `reading.wire_type(json_kind)`, or all null.

    Returns:
        The values as `reading.arrow_type`, null where the JSON value is null or has failed; and the
        mask of failed values, or None if none has failed.
    """
    if wire_values.null_count == len(wire_values):
        return pa.nulls(len(wire_values), reading.arrow_type), None
    if reading.refusal:
        return _all_failed(reading, wire_values)
    values, has_failed = _CASTS[reading.family, json_kind](reading, wire_values)
    if values.type != reading.arrow_type:
        values = values.cast(reading.arrow_type)
    return values, has_failed


def cast_alone(
    reading: ColumnReading, json_kind: JsonKind, wire_values: Sequence[object]
) -> CastResult:
    """Cast single values from `wire_value` as `cast_column` does; None is a missing value."""
    needs_encoding = reading.encoding is Encoding.FLOAT32 or reading.encoding in EPOCH_DIGITS
    if reading.family in (Family.STRING, Family.FLOAT) and not needs_encoding:
        reading = reading.with_encoding(Encoding.TEXT)  # no base64 is left
    return cast_column(reading, json_kind, pa.array(wire_values, reading.wire_type(json_kind)))


def _all_failed(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    return pa.nulls(len(wire_values), reading.arrow_type), valid_of(wire_values)


def _plain_cast(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    return wire_values.cast(reading.arrow_type), None


def _boolean_number(_: ColumnReading, wire_values: pa.Array) -> CastResult:
    """Convert MySQL's BOOLEAN, which is a TINYINT(1)."""
    has_failed = bools_of(pc.and_(pc.not_equal(wire_values, 0), pc.not_equal(wire_values, 1)))
    return _with_failures(wire_values, has_failed, lambda fitting: pc.equal(fitting, 1))


def _boolean_text(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    """Convert ``true`` and ``false``, and ``1`` and ``0`` of a source that writes only text."""
    if reading.encoding is Encoding.TEXT:
        wire_values = pc.replace_with_mask(
            wire_values, pc.equal(wire_values, "1"), pa.scalar("true")
        )
        wire_values = pc.replace_with_mask(
            wire_values, pc.equal(wire_values, "0"), pa.scalar("false")
        )
    is_true = pc.equal(wire_values, "true")
    has_failed = valid_of(wire_values) & ~bools_of(pc.or_(is_true, pc.equal(wire_values, "false")))
    return _with_failures(is_true, has_failed, lambda fitting: fitting)


def _integer(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    try:
        return wire_values.cast(reading.arrow_type), None
    except pa.ArrowInvalid:
        low = -(2 ** (reading.arrow_type.bit_width - 1))
        has_failed = bools_of(pc.or_(pc.less(wire_values, low), pc.greater(wire_values, -low - 1)))
        return _with_failures(
            wire_values, has_failed, lambda fitting: fitting.cast(reading.arrow_type)
        )


def _integer_text(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    if reading.encoding is Encoding.BASE64:
        values, has_failed = decode_base64(wire_values)
        integers, unfit = _integers_from_bytes(values, reading.scale, reading.arrow_type)
        return integers, any_of(has_failed, unfit)
    return _text_cast(wire_values, _INTEGER, reading.arrow_type)


def _integers_from_bytes(values: pa.Array, scale: int, target_type: pa.DataType) -> CastResult:
    decimals, unfit = decimals_from_bytes(values, scale, _INTEGER_DECIMAL)
    integers = cast_isolating(decimals, target_type)
    return integers, any_of(unfit, valid_of(decimals) & ~valid_of(integers))


def _float_number(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    # The parser turns 1e39 into an infinite FLOAT, but a JSON number is never infinite.
    has_failed = bools_of(pc.is_inf(wire_values))
    return _with_failures(wire_values, has_failed, lambda fitting: fitting.cast(reading.arrow_type))


def _float_text(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    if reading.encoding is Encoding.BASE64:
        binary, has_failed = decode_base64(wire_values)
        texts, unfit = decimal_texts(binary, reading.scale)
        values, out_of_range = _floats_from_texts(texts, reading.arrow_type)
        return values, any_of(has_failed, unfit, out_of_range)
    is_single = reading.encoding is Encoding.FLOAT32
    return _floats_from_texts(wire_values, pa.float32() if is_single else reading.arrow_type)


def _floats_from_texts(texts: pa.Array, target_type: pa.DataType) -> CastResult:
    values, has_failed = _text_cast(texts, _REAL, target_type)
    is_infinite = bools_of(pc.is_inf(values))
    if is_infinite.any():
        is_infinite &= ~bools_of(pc.match_substring(texts, "Infinity"))
        return null_where(values, is_infinite), any_of(has_failed, is_infinite)
    return values, has_failed


def _decimal(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    if not pa.types.is_string(wire_values.type):
        return narrow_decimals(wire_values, reading.arrow_type)
    values, has_failed = decode_base64(wire_values)
    decimals, unfit = decimals_from_bytes(values, reading.scale, reading.arrow_type)
    return decimals, any_of(has_failed, unfit)


def _string_number(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    """Write a number as the source wrote it, or a time of day as ``07:30:00``."""
    digits = EPOCH_DIGITS.get(reading.encoding)
    if digits is None:
        return _plain_cast(reading, wire_values)
    is_count = pa.types.is_integer(wire_values.type)
    counts, has_failed = (
        (wire_values, None) if is_count else _text_cast(wire_values, _INTEGER, pa.int64())
    )
    return clock_texts(counts, digits), has_failed


def _string(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    if reading.encoding in EPOCH_DIGITS:
        return _string_number(reading, wire_values)
    if reading.encoding is not Encoding.BASE64:
        return wire_values, None
    values, has_failed = decode_base64(wire_values)
    texts, unfit = decimal_texts(values, reading.scale)
    return texts, any_of(has_failed, unfit)


def _struct(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    """Convert {"scale": 9, "value": base64}, whose scale may differ from row to row."""
    values, _ = decode_base64(pc.struct_field(wire_values, "value"))
    target_type = reading.arrow_type

    def convert(unscaled_values: pa.Array, scale: int) -> CastResult:
        match reading.family:
            case Family.DECIMAL:
                return decimals_from_bytes(unscaled_values, scale, target_type)
            case Family.INTEGER:
                return _integers_from_bytes(unscaled_values, scale, target_type)
            case Family.FLOAT:
                return _floats_from_texts(decimal_texts(unscaled_values, scale)[0], target_type)
            case _:
                return decimal_texts(unscaled_values, scale)

    result = convert_by_scale(values, pc.struct_field(wire_values, "scale"), convert, target_type)
    return result, any_of(valid_of(wire_values) & ~valid_of(result))


def _bytes(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    match reading.encoding:
        case Encoding.HEX:
            return decode_hex(wire_values)
        case Encoding.LATIN_1:
            return decode_latin_1(wire_values)
        case Encoding.TEXT:
            return wire_values.cast(pa.binary()), None
        case Encoding.BASE64_LITTLE_ENDIAN:
            values, has_failed = decode_base64(wire_values)
            values = reverse_bytes(values)
            if reading.data_type.root is TypeRoot.BINARY:  # PostgreSQL omits leading zeros
                values = pad_left(values, reading.data_type.length)
            return values, has_failed
        case _:
            return decode_base64(
                wire_values, is_url_safe=reading.encoding is Encoding.BASE64_URL_SAFE
            )


def _date_number(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    if reading.encoding is Encoding.EPOCH_DAYS:
        return dates_from_days(wire_values)
    digits = EPOCH_DIGITS.get(reading.encoding)
    return (
        _all_failed(reading, wire_values)
        if digits is None
        else dates_from_epoch(wire_values, digits)
    )


def _time_number(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    digits = EPOCH_DIGITS.get(reading.encoding)
    if digits is None:
        return _all_failed(reading, wire_values)
    return times_from_epoch(wire_values, digits, reading.arrow_type, reading.data_type.precision)


def _timestamp_number(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    target_type, precision = reading.arrow_type, reading.data_type.precision
    if reading.encoding is Encoding.EPOCH_DAYS:
        return timestamps_from_days(wire_values, target_type, precision)
    digits = EPOCH_DIGITS.get(reading.encoding)
    if digits is None:
        return _all_failed(reading, wire_values)
    return timestamps_from_epoch(wire_values, digits, target_type, precision)


def _iso_text(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    cast = times_from_iso if reading.family is Family.TIME else timestamps_from_iso
    return cast(wire_values, reading.arrow_type, reading.data_type.precision)


def _nested(reading: ColumnReading, wire_values: pa.Array) -> CastResult:
    cast = cast_texts if pa.types.is_string(wire_values.type) else cast_nested
    return cast(reading, wire_values, _SCALAR_CASTS)


_SCALAR_CASTS = Casts(cast_column, cast_alone)
_CASTS: dict[tuple[Family, JsonKind], Callable[[ColumnReading, pa.Array], CastResult]] = {
    (Family.BOOLEAN, JsonKind.BOOLEAN): lambda _, wire_values: (wire_values, None),
    (Family.BOOLEAN, JsonKind.NUMBER): _boolean_number,
    (Family.BOOLEAN, JsonKind.STRING): _boolean_text,
    (Family.INTEGER, JsonKind.BOOLEAN): _plain_cast,
    (Family.INTEGER, JsonKind.NUMBER): _integer,
    (Family.INTEGER, JsonKind.STRING): _integer_text,
    (Family.INTEGER, JsonKind.OBJECT): _struct,
    (Family.FLOAT, JsonKind.NUMBER): _float_number,
    (Family.FLOAT, JsonKind.STRING): _float_text,
    (Family.FLOAT, JsonKind.OBJECT): _struct,
    (Family.DECIMAL, JsonKind.NUMBER): _decimal,
    (Family.DECIMAL, JsonKind.STRING): _decimal,
    (Family.DECIMAL, JsonKind.OBJECT): _struct,
    (Family.STRING, JsonKind.BOOLEAN): _plain_cast,
    (Family.STRING, JsonKind.NUMBER): _string_number,
    (Family.STRING, JsonKind.STRING): _string,
    (Family.STRING, JsonKind.OBJECT): _struct,
    (Family.BINARY, JsonKind.STRING): _bytes,
    (Family.DATE, JsonKind.NUMBER): _date_number,
    (Family.DATE, JsonKind.STRING): lambda _, wire_values: dates_from_iso(wire_values),
    (Family.TIME, JsonKind.NUMBER): _time_number,
    (Family.TIME, JsonKind.STRING): _iso_text,
    (Family.TIMESTAMP, JsonKind.NUMBER): _timestamp_number,
    (Family.TIMESTAMP, JsonKind.STRING): _iso_text,
    (Family.NESTED, JsonKind.ARRAY): _nested,
    (Family.NESTED, JsonKind.OBJECT): _nested,
    (Family.NESTED, JsonKind.STRING): _nested,
    (Family.VARIANT, JsonKind.STRING): lambda _, wire_values: variants_of(wire_values),
}


def _text_cast(wire_values: pa.Array, pattern: str, target_type: pa.DataType) -> CastResult:
    """Cast text of the given form, because Arrow would accept ``0x10`` and ``inf`` too."""
    matching_texts = wire_values
    if not (pa.types.is_integer(target_type) and _has_only_digits(wire_values)):
        has_form = bools_of(pc.match_substring_regex(wire_values, pattern))
        matching_texts = wire_values if has_form.all() else null_where(wire_values, ~has_form)
    values = cast_isolating(matching_texts, target_type)
    return values, any_of(valid_of(wire_values) & ~valid_of(values))


def _has_only_digits(wire_values: pa.Array) -> bool:
    """Return whether the texts have only digits, signs and points, which Arrow casts correctly."""
    data, _ = own_bytes(wire_values)
    return len(data) > 0 and int(data.min()) >= ord("-") and int(data.max()) <= ord("9")


def _with_failures(
    wire_values: pa.Array, has_failed: Bools, cast: Callable[[pa.Array], pa.Array]
) -> CastResult:
    if not has_failed.any():
        return cast(wire_values), None
    return cast(null_where(wire_values, has_failed)), has_failed
