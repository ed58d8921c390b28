"""Parsed JSON columns → columns of the table's types, whole columns at a time.

Called by the formats after a parser has read each column as `ColumnReading.wire_type`. A value
that does not fit its column exactly fails; it is never rounded, wrapped or cut, with two
exceptions that follow Paimon: fractional seconds finer than the column's precision are cut off,
and CHAR(n)/VARCHAR(n)/BINARY(n) lengths are not enforced.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.arrow_buffers import Bools, bools_of, null_where, valid_of
from stream_app.cdc.base64_columns import decode_base64, decode_hex
from stream_app.cdc.column_reading import (
    EPOCH_DIGITS,
    ColumnReading,
    Encoding,
    Family,
    JsonKind,
)
from stream_app.cdc.decimal_columns import (
    beyond_precision,
    decimals_from_bytes,
    exact_decimal,
)
from stream_app.cdc.time_columns import (
    Casted,
    cast_isolating,
    dates_from_days,
    dates_from_epoch,
    dates_from_iso,
    times_from_epoch,
    times_from_iso,
    timestamps_from_epoch,
    timestamps_from_iso,
)

_INTEGER = r"^-?[0-9]+$"
_REAL = r"^([+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|NaN|-?Infinity)$"
_WHOLE_DECIMAL = pa.decimal128(38, 0)


def cast_column(reading: ColumnReading, kind: JsonKind, wire: pa.Array) -> Casted:
    """One column in the table's type.

    Args:
        kind: the JSON kind of its values.
        wire: the values as `reading.wire_type(kind)`, or all null.

    Returns:
        The values as `reading.arrow_type`, null where the JSON value is null or has failed, and
        where values have failed (None: nowhere).
    """
    if wire.null_count == len(wire):
        return pa.nulls(len(wire), reading.arrow_type), None
    values, failed = _CASTS[reading.family, kind](reading, wire)
    if values.type != reading.arrow_type:
        values = values.cast(reading.arrow_type)
    return values, failed


def _as_it_is(_: ColumnReading, wire: pa.Array) -> Casted:
    return wire, None


def _plain_cast(reading: ColumnReading, wire: pa.Array) -> Casted:
    return wire.cast(reading.arrow_type), None


def _boolean_number(_: ColumnReading, wire: pa.Array) -> Casted:
    """MySQL's BOOLEAN is a TINYINT(1)."""
    failed = bools_of(pc.and_(pc.not_equal(wire, 0), pc.not_equal(wire, 1)))
    return _with_failures(wire, failed, lambda fitting: pc.equal(fitting, 1))


def _boolean_text(_: ColumnReading, wire: pa.Array) -> Casted:
    true = pc.equal(wire, "true")
    failed = valid_of(wire) & ~bools_of(pc.or_(true, pc.equal(wire, "false")))
    return _with_failures(true, failed, lambda fitting: fitting)


def _integer(reading: ColumnReading, wire: pa.Array) -> Casted:
    try:
        return wire.cast(reading.arrow_type), None
    except pa.ArrowInvalid:
        low = -(2 ** (reading.arrow_type.bit_width - 1))
        failed = bools_of(pc.or_(pc.less(wire, low), pc.greater(wire, -low - 1)))
        return _with_failures(wire, failed, lambda fitting: fitting.cast(reading.arrow_type))


def _integer_text(reading: ColumnReading, wire: pa.Array) -> Casted:
    if reading.encoding is Encoding.BASE64:
        values, failed = decode_base64(wire)
        numbers, unfit = decimals_from_bytes(values, reading.scale, _WHOLE_DECIMAL)
        whole = cast_isolating(numbers, reading.arrow_type)
        return whole, _union(failed, unfit, valid_of(numbers) & ~valid_of(whole))
    return _text_cast(wire, _INTEGER, reading.arrow_type)


def _float_number(reading: ColumnReading, wire: pa.Array) -> Casted:
    # The parser turns 1e39 into an infinite FLOAT; a JSON number never is infinite.
    failed = bools_of(pc.is_inf(wire))
    return _with_failures(wire, failed, lambda fitting: fitting.cast(reading.arrow_type))


def _float_text(reading: ColumnReading, wire: pa.Array) -> Casted:
    values, failed = _text_cast(wire, _REAL, reading.arrow_type)
    endless = bools_of(pc.is_inf(values))
    if endless.any():
        endless &= ~bools_of(pc.match_substring(wire, "Infinity"))
        return null_where(values, endless), _union(failed, endless)
    return values, failed


def _decimal(_: ColumnReading, wire: pa.Array) -> Casted:
    failed = beyond_precision(wire)
    return (wire, None) if failed is None else (null_where(wire, failed), failed)


def _decimal_string(reading: ColumnReading, wire: pa.Array) -> Casted:
    if reading.encoding is not Encoding.BASE64:
        return _decimal(reading, wire)
    values, failed = decode_base64(wire)
    decimals, unfit = decimals_from_bytes(values, reading.scale, reading.arrow_type)
    return decimals, _union(failed, unfit)


def _decimal_struct(reading: ColumnReading, wire: pa.Array) -> Casted:
    """{"scale": 9, "value": base64}: each row has its own scale, so rows are grouped by it."""
    values, failed = decode_base64(pc.struct_field(wire, "value"))
    scales = pc.struct_field(wire, "scale")
    result = pa.nulls(len(wire), reading.arrow_type)
    for scale in pc.unique(scales.drop_null()).to_pylist():
        ours = bools_of(pc.equal(scales, scale))
        part, _ = decimals_from_bytes(null_where(values, ~ours), scale, reading.arrow_type)
        result = pc.coalesce(result, part)
    return result, _union(failed, valid_of(wire) & ~valid_of(result))


def _bytes(reading: ColumnReading, wire: pa.Array) -> Casted:
    match reading.encoding:
        case Encoding.HEX:
            return decode_hex(wire)
        case Encoding.TEXT:
            return wire.cast(pa.binary()), None
        case _:
            return decode_base64(wire, url_safe=reading.encoding is Encoding.BASE64_URL_SAFE)


def _date_number(reading: ColumnReading, wire: pa.Array) -> Casted:
    digits = EPOCH_DIGITS.get(reading.encoding)
    return dates_from_days(wire) if digits is None else dates_from_epoch(wire, digits)


def _date_text(_: ColumnReading, wire: pa.Array) -> Casted:
    return dates_from_iso(wire)


def _time_number(reading: ColumnReading, wire: pa.Array) -> Casted:
    digits = EPOCH_DIGITS.get(reading.encoding, 6)
    return times_from_epoch(wire, digits, reading.arrow_type, reading.data_type.precision)


def _time_text(reading: ColumnReading, wire: pa.Array) -> Casted:
    return times_from_iso(wire, reading.arrow_type, reading.data_type.precision)


def _timestamp_number(reading: ColumnReading, wire: pa.Array) -> Casted:
    digits = EPOCH_DIGITS.get(reading.encoding, 6)
    return timestamps_from_epoch(wire, digits, reading.arrow_type, reading.data_type.precision)


def _timestamp_text(reading: ColumnReading, wire: pa.Array) -> Casted:
    return timestamps_from_iso(wire, reading.arrow_type, reading.data_type.precision)


_CASTS: dict[tuple[Family, JsonKind], Callable[[ColumnReading, pa.Array], Casted]] = {
    (Family.BOOLEAN, JsonKind.BOOLEAN): _as_it_is,
    (Family.BOOLEAN, JsonKind.NUMBER): _boolean_number,
    (Family.BOOLEAN, JsonKind.STRING): _boolean_text,
    (Family.INTEGER, JsonKind.BOOLEAN): _plain_cast,
    (Family.INTEGER, JsonKind.NUMBER): _integer,
    (Family.INTEGER, JsonKind.STRING): _integer_text,
    (Family.FLOAT, JsonKind.NUMBER): _float_number,
    (Family.FLOAT, JsonKind.STRING): _float_text,
    (Family.DECIMAL, JsonKind.NUMBER): _decimal,
    (Family.DECIMAL, JsonKind.STRING): _decimal_string,
    (Family.DECIMAL, JsonKind.OBJECT): _decimal_struct,
    (Family.STRING, JsonKind.BOOLEAN): _plain_cast,
    (Family.STRING, JsonKind.NUMBER): _plain_cast,
    (Family.STRING, JsonKind.STRING): _as_it_is,
    (Family.BINARY, JsonKind.STRING): _bytes,
    (Family.DATE, JsonKind.NUMBER): _date_number,
    (Family.DATE, JsonKind.STRING): _date_text,
    (Family.TIME, JsonKind.NUMBER): _time_number,
    (Family.TIME, JsonKind.STRING): _time_text,
    (Family.TIMESTAMP, JsonKind.NUMBER): _timestamp_number,
    (Family.TIMESTAMP, JsonKind.STRING): _timestamp_text,
}


def _text_cast(wire: pa.Array, pattern: str, target: pa.DataType) -> Casted:
    """Cast text that has the given form; Arrow alone would take ``0x10`` and ``inf`` too."""
    formed = bools_of(pc.match_substring_regex(wire, pattern))
    values = cast_isolating(wire if formed.all() else null_where(wire, ~formed), target)
    failed = valid_of(wire) & ~valid_of(values)
    return values, failed if failed.any() else None


def _with_failures(wire: pa.Array, failed: Bools, cast: Callable[[pa.Array], pa.Array]) -> Casted:
    if not failed.any():
        return cast(wire), None
    return cast(null_where(wire, failed)), failed


def _union(*masks: Bools | None) -> Bools | None:
    present = [mask for mask in masks if mask is not None]
    if not present:
        return None
    union: Bools = np.logical_or.reduce(present)
    return union if union.any() else None


def wire_value(reading: ColumnReading, kind: JsonKind, text: str) -> tuple[JsonKind, object]:
    """One value of a record that is read on its own, ready for `cast_column`.

    Args:
        kind, text: the value's JSON kind, and its text: of a string the characters, else JSON.

    Returns:
        The kind to cast it as and the value as Python's equivalent of that wire type.

    Raises:
        ValueError: says in a few words why the value cannot stand in the column.
    """
    family = reading.family
    if family is Family.STRING:
        return JsonKind.STRING, "0" if kind is JsonKind.NUMBER and text == "-0" else text
    if family is Family.DECIMAL:
        return _decimal_wire_value(reading, kind, text)
    if reading.wire_type(kind) is None:
        raise ValueError(f"is a JSON {kind.name.lower()}")
    if kind is JsonKind.BOOLEAN:
        return kind, text == "true"
    if kind is JsonKind.NUMBER:
        # Text is cast to a FLOAT in one step; through Python's float it would be rounded twice.
        return (JsonKind.STRING, text) if family is Family.FLOAT else (kind, _int64(text))
    return kind, text


def _decimal_wire_value(
    reading: ColumnReading, kind: JsonKind, text: str
) -> tuple[JsonKind, object]:
    if kind is JsonKind.STRING and reading.encoding is Encoding.BASE64:
        return kind, text
    if kind is JsonKind.OBJECT:
        return kind, _decimal_parts(text)
    if kind not in (JsonKind.NUMBER, JsonKind.STRING):
        raise ValueError(f"is a JSON {kind.name.lower()}")
    return JsonKind.NUMBER, exact_decimal(text, reading.arrow_type)


def _decimal_parts(text: str) -> dict[str, object]:
    parts = json.loads(text)
    scale, value = parts.get("scale"), parts.get("value")
    if type(scale) is not int or abs(scale) > 1000 or not isinstance(value, str):
        raise ValueError("is not a decimal of the form {scale, value}")
    return {"scale": scale, "value": value}


def _int64(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("is not a whole number")
    if len(digits) > 19 or not -(2**63) <= int(text) < 2**63:
        raise ValueError("is out of range")
    return int(text)
