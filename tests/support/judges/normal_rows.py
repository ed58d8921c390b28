"""Converts the rows of Paimon's Java, PyPaimon and our readers into one plain form.

A row is a dict by column name. Its values are
    None, bool, int, str, bytes
    float    FLOAT (widened exactly) and DOUBLE; but NaN is the string "NaN", which equals itself
    Decimal  with the column's scale
    str      DATE "2024-01-02", TIME "12:34:56.789", TIMESTAMP "2024-01-02T03:04:05.678901",
             TIMESTAMP_LTZ "2024-01-02T03:04:05Z" (UTC): ISO text with seconds always and without
             zeros at the end of the fraction, so that it does not depend on the stored unit
    list     ARRAY; for MAP and MULTISET a list of (key, value) sorted by key
    dict     ROW
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa

Row = dict[str, Any]
RowT = TypeVar("RowT", bound=Mapping[str, Any])
UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
SECONDS_PER_DAY = 86_400
NANOSECONDS = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})\d{1,3}(Z?)")
EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()


def normal_rows(table: pa.Table) -> list[Row]:
    """Return an Arrow table in the normal form."""
    names = table.column_names
    columns = [_column(column, column.type) for column in table.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def sorted_rows(rows: Iterable[RowT]) -> list[RowT]:
    """Return rows in an order that depends on their content only, for comparisons."""
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


def normal_value(value: Any) -> Any:
    """Return a Python literal of a test in the normal form; normal values stay."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, dt.datetime):
        return _datetime_text(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dt.time):
        return _trim_fraction(value.isoformat())
    if isinstance(value, Mapping):
        return {key: normal_value(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(normal_value(item) for item in value)
    if isinstance(value, list):
        return [normal_value(item) for item in value]
    return value


def without_nanoseconds(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Cut timestamps of normal rows to microseconds, for comparisons with a coarser reader."""
    return [{column: _to_microseconds(value) for column, value in row.items()} for row in rows]


def date_text(days: int) -> str:
    return dt.date.fromordinal(EPOCH_ORDINAL + days).isoformat()


def time_text(value: int, units_per_second: int) -> str:
    seconds, fraction = divmod(value, units_per_second)
    hours, rest = divmod(seconds, 3_600)
    whole = f"{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
    if fraction == 0:
        return whole
    digits = len(str(units_per_second)) - 1
    return _trim_fraction(f"{whole}.{fraction:0{digits}d}")


def timestamp_text(value: int, units_per_second: int) -> str:
    days, within_day = divmod(value, SECONDS_PER_DAY * units_per_second)
    return f"{date_text(days)}T{time_text(within_day, units_per_second)}"


def _to_microseconds(value: Any) -> Any:
    match = NANOSECONDS.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else _trim_fraction(match[1]) + match[2]


def _trim_fraction(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _datetime_text(value: dt.datetime) -> str:
    if value.tzinfo is None:
        return _trim_fraction(value.isoformat())
    return _trim_fraction(value.astimezone(dt.UTC).replace(tzinfo=None).isoformat()) + "Z"


def _column(column: pa.ChunkedArray, kind: pa.DataType) -> Sequence[Any]:
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_date(kind):
        return _temporal_column(column, kind)
    values = column.to_pylist()
    convert = _converter(kind)
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _temporal_column(column: pa.ChunkedArray, kind: pa.DataType) -> list[str | None]:
    """Convert a column by its integers, without pandas and without loss of nanoseconds."""
    convert = _temporal_converter(kind)
    storage = pa.int32() if kind.bit_width == 32 else pa.int64()
    numbers = column.cast(storage).to_pylist()
    return [None if number is None else convert(number) for number in numbers]


def _temporal_converter(kind: pa.DataType) -> Callable[[int], str]:
    if pa.types.is_date32(kind):
        return date_text
    if pa.types.is_date64(kind):
        return lambda millis: date_text(millis // (SECONDS_PER_DAY * 1_000))
    per_second = UNITS_PER_SECOND[kind.unit]
    if pa.types.is_time(kind):
        return lambda value: time_text(value, per_second)
    if kind.tz is None:
        return lambda value: timestamp_text(value, per_second)
    return lambda value: timestamp_text(value, per_second) + "Z"


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return the conversion of a type, or None if to_pylist gives the normal form."""
    if pa.types.is_floating(kind):
        return normal_value
    if not pa.types.is_nested(kind):
        return normal_value if pa.types.is_temporal(kind) else None  # below the top level
    if pa.types.is_struct(kind):
        inner = {field.name: _converter(field.type) or normal_value for field in kind}
        return lambda row: {k: None if v is None else inner[k](v) for k, v in row.items()}
    if pa.types.is_map(kind):
        key_of = _converter(kind.key_type) or normal_value
        item_of = _converter(kind.item_type) or normal_value
        return lambda pairs: sorted(
            ((key_of(k), None if v is None else item_of(v)) for k, v in pairs), key=repr
        )
    item_of = _converter(kind.value_type) or normal_value
    return lambda items: [None if item is None else item_of(item) for item in items]


def decode_json_column(form: str) -> Callable[[Any], Any] | None:
    """Convert PaimonServer.java's JSON into the normal form; see Values.form there."""
    return {"plain": None, "decimal": Decimal, "bytes": bytes.fromhex, "float": _float,
            "nested": untag}[form]  # fmt: skip


def untag(value: Any) -> Any:
    """Convert nested JSON of PaimonServer.java, whose inner texts have their type as a tag."""
    if isinstance(value, list):
        return [untag(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        tag, content = next(iter(value.items()))
        if tag == "$map":
            return sorted(((untag(k), untag(v)) for k, v in content), key=repr)
        if tag in ("$decimal", "$bytes", "$float"):
            decode = decode_json_column(tag[1:])
            assert decode is not None
            return decode(content)
    return {key: untag(item) for key, item in value.items()}


def json_value(value: Any) -> Any:
    """Return a normal value as the JSON that PaimonServer.java takes in."""
    value = normal_value(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return value


def _float(value: Any) -> Any:
    return value if value == "NaN" else float(value)
