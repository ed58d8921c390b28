"""Finds times with digits that their column cannot hold, which `time_columns` cuts off.

Called beside `column_cast`, with the same wire. It examines only columns that are coarser than
their source's values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.columns.arrow_buffers import Bools, bools_of, int64s_of, lengths_of, valid_of
from stream_app.cdc.columns.column_reading import EPOCH_DIGITS, ColumnReading, Family, JsonKind
from stream_app.cdc.columns.time_columns import UNIT_DIGITS

_DAY_SECONDS = 86_400
_TIMES = frozenset({Family.DATE, Family.TIME, Family.TIMESTAMP})
_SHORTEST = {Family.TIME: len("00:00:00."), Family.TIMESTAMP: len("0000-00-00T00:00:00.")}
"""Characters of a text before the digits of its fraction."""


def cut_digits(reading: ColumnReading, kind: JsonKind, wire: pa.Array) -> Bools | None:
    """The mask of values that lose digits: bool [n]; None: no value does.

    Args:
        kind, wire: as `cast_column` takes them. A value that fails there may count here too.
    """
    if not may_cut(reading) or wire.null_count == len(wire):
        return None
    if kind is JsonKind.NUMBER:
        unit = _smallest_unit(reading)
        cut: Bools = int64s_of(wire) % unit != 0 if unit > 1 else np.zeros(len(wire), np.bool_)
        cut &= valid_of(wire)
    elif kind is JsonKind.STRING and reading.family is not Family.DATE:
        cut = _cut_texts(wire, _SHORTEST[reading.family], held_digits(reading))
    else:
        return None
    return cut if cut.any() else None


def may_cut(reading: ColumnReading) -> bool:
    """Whether the column holds times and accepts values."""
    return reading.family in _TIMES and not reading.refusal


def held_digits(reading: ColumnReading) -> int:
    """The number of a second's digits that a column of times keeps."""
    return min(reading.data_type.precision, UNIT_DIGITS[reading.arrow_type.unit])


def _smallest_unit(reading: ColumnReading) -> int:
    """What a count must be a multiple of to be kept whole; 1: every count is."""
    digits = EPOCH_DIGITS.get(reading.encoding)
    if digits is None:
        return 1
    if reading.family is Family.DATE:
        return int(_DAY_SECONDS * 10**digits)
    return int(10 ** max(digits - held_digits(reading), 0))


def _cut_texts(texts: pa.Array, shortest: int, held: int) -> Bools:
    # A glance at lengths spares the usual texts the pattern.
    lengths = lengths_of(texts) - bools_of(pc.ends_with(texts, pattern="Z"))
    if int(lengths.max()) <= shortest + held:
        return np.zeros(len(texts), np.bool_)
    return bools_of(pc.match_substring_regex(texts, rf"[.][0-9]{{{held}}}[0-9]*[1-9]"))
