"""Casts dates, times and timestamps to one another, and between timestamps and seconds.

A TIMESTAMP_LTZ is an instant, whose wall-clock time is in the machine's time zone (`local_zone`).

Source: Paimon `casting/DateTo*`, `TimeTo*` and `Timestamp*CastRule.java`,
`utils/DateTimeUtils.java`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.format.arrow_schema import arrow_type, timestamp_unit
from stream_app.format.casting.arrays import CastError, array_of_numbers, numbers_of, ticks_of
from stream_app.format.casting.local_zone import to_instants, to_local_times
from stream_app.model.schema.data_type import DataType, TypeRoot

MILLIS_OF_DAY = 86_400_000
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Ticks of a timestamp's unit."""
_PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_LONG_MAX = (1 << 63) - 1


def timestamp_to_timestamp(
    values: pa.Array, stored_type: DataType, target_type: DataType
) -> pa.Array:
    """Change the precision of timestamps, or add or remove their zone."""
    ticks = ticks_of(values)
    unit = timestamp_unit(stored_type.precision)
    if stored_type.root is not target_type.root:
        convert = to_instants if target_type.root is TypeRoot.TIMESTAMP_LTZ else to_local_times
        ticks = convert(ticks, unit)
    if target_type.precision < stored_type.precision:
        ticks = _truncate(ticks, unit, target_type.precision)
    return timestamps(ticks, unit, values, target_type)


def _truncate(ticks: Int64s, unit: str, precision: int) -> Int64s:
    """Truncate fractions of a second as Java does.

    Java keeps a fraction whose nanoseconds have at most `precision` digits, and truncates
    milliseconds before 1970 toward zero.
    """
    per_second = PER_SECOND[unit]
    nanos = (ticks % per_second) * (PER_SECOND["ns"] // per_second)
    is_exact = nanos < (10**precision if precision else 0)
    if precision > 3:
        step = max(1, 10 ** (9 - precision) // (PER_SECOND["ns"] // per_second))
        return np.where(is_exact, ticks, ticks - ticks % step)
    step = 10 ** (3 - precision)
    times_ms = ticks // _PER_MILLI[unit]
    # NumPy's division rounds down, so truncation toward zero divides the magnitude.
    return np.where(
        is_exact, ticks, np.sign(times_ms) * (np.abs(times_ms) // step) * step * _PER_MILLI[unit]
    )


def seconds_to_timestamp(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Convert seconds since 1970. For TIMESTAMP_LTZ Paimon takes local time as if it were UTC."""
    times_ms = numbers_of(values).astype(np.int64) * 1000
    if target_type.root is TypeRoot.TIMESTAMP_LTZ:
        times_ms = to_local_times(times_ms, "ms")
    return timestamps(times_ms, "ms", values, target_type)


def timestamp_to_date(values: pa.Array, stored_type: DataType, _: DataType) -> pa.Array:
    """Return the local day. Paimon up to 1.4 returns the next day for times before 1970."""
    days = (_wall_times_ms(values, stored_type) // MILLIS_OF_DAY).astype(np.int32)
    return array_of_numbers(days, values, pa.int32()).view(pa.date32())


def timestamp_to_time(values: pa.Array, stored_type: DataType, target_type: DataType) -> pa.Array:
    """Return the milliseconds of the local day."""
    times_ms = (_wall_times_ms(values, stored_type) % MILLIS_OF_DAY).astype(np.int32)
    return array_of_numbers(times_ms, values, pa.int32()).view(arrow_type(target_type))


def timestamp_to_integer(
    values: pa.Array, stored_type: DataType, target_type: DataType
) -> pa.Array:
    """Return seconds since 1970, truncated toward zero; an INT gets the low bits."""
    times_ms = _times_ms(values, stored_type)
    seconds = np.sign(times_ms) * (np.abs(times_ms) // 1000)
    target_arrow_type = arrow_type(target_type)
    return array_of_numbers(
        seconds.astype(target_arrow_type.to_pandas_dtype()), values, target_arrow_type
    )


def date_to_timestamp(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Return the midnight at which each day begins, for TIMESTAMP_LTZ the local one."""
    times_ms = ticks_of(values) * MILLIS_OF_DAY
    if target_type.root is TypeRoot.TIMESTAMP_LTZ:
        times_ms = to_instants(times_ms, "ms")
    return timestamps(times_ms, "ms", values, target_type)


def time_to_timestamp(values: pa.Array, _: DataType, target_type: DataType) -> pa.Array:
    """Return the time on 1970-01-01, for TIMESTAMP_LTZ in UTC whatever the machine's zone."""
    return timestamps(ticks_of(values), "ms", values, target_type)


def timestamps(ticks: Int64s, unit: str, like: pa.Array, target_type: DataType) -> pa.Array:
    """Convert ticks to the unit of the target type.

    Raises:
        CastError: a time is outside the range of nanoseconds.
    """
    target_unit = timestamp_unit(target_type.precision)
    if PER_SECOND[target_unit] >= PER_SECOND[unit]:
        factor = PER_SECOND[target_unit] // PER_SECOND[unit]
        if len(ticks) and np.abs(ticks).max() > _LONG_MAX // factor:
            raise CastError(
                f"a time beyond the years 1677 to 2262 is not a valid {target_type.as_nullable()}"
            )
        ticks = ticks * factor
    else:
        ticks = ticks // (PER_SECOND[unit] // PER_SECOND[target_unit])
    return array_of_numbers(ticks, like, pa.int64()).view(arrow_type(target_type))


def _times_ms(values: pa.Array, stored_type: DataType) -> Int64s:
    return ticks_of(values) // _PER_MILLI[timestamp_unit(stored_type.precision)]


def _wall_times_ms(values: pa.Array, stored_type: DataType) -> Int64s:
    times_ms = _times_ms(values, stored_type)
    return (
        to_local_times(times_ms, "ms") if stored_type.root is TypeRoot.TIMESTAMP_LTZ else times_ms
    )
