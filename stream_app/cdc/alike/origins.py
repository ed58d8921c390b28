"""The source table of each message and the time of its change, for any dialect.

Implements `message_format.SourceReader` without decoding a row. A dialect names the fields that it
needs and tells from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.alike.told_fields import ToldFields, times_told, told_fields
from stream_app.cdc.columns.arrow_buffers import Bools, valid_of
from stream_app.cdc.columns.time_columns import cast_isolating
from stream_app.cdc.source_tables import Origins, origins_of


@dataclass(frozen=True, slots=True)
class Told:
    """What n messages tell of their tables.

    Attributes:
        names: string arrays [n] of database, schema and table.
        means_row: bool [n]; False: a message is known to be about no row. What is not known belongs
            to its table, whose decoder refuses it.
    """

    names: tuple[pa.Array, pa.Array, pa.Array]
    means_row: Bools


@dataclass(frozen=True, slots=True)
class OriginFields:
    """How a dialect tells tables.

    Attributes:
        fields: of a message, that are read.
        tell: makes of their columns what the messages tell.
    """

    fields: pa.Schema
    tell: Callable[[Sequence[pa.Array]], Told]

    def origins(self, messages: pa.RecordBatch) -> Origins:
        """Of which source table each message tells; see `message_format.SourceReader`."""
        return self.origins_of(told_fields(messages, self.fields), messages.num_rows)

    def origins_of(self, found: ToldFields, count: int) -> Origins:
        """The origins of so many messages by their fields."""
        parts = [(index, self.tell(columns)) for index, columns in found.parts]
        places = np.full(count, -1, np.int64)
        at = 0
        for index, told in parts:
            places[index] = np.where(told.means_row, at + np.arange(len(index)), -1)
            at += len(index)
        wanted = pa.array(np.maximum(places, 0), mask=places < 0)
        names = []
        for position in range(3):
            some = [told.names[position] for _, told in parts]
            joined = pa.concat_arrays([pa.array([], pa.string()), *some])
            names.append(joined.take(wanted))
        for row in np.flatnonzero((places >= 0) & ~valid_of(names[2])).tolist():
            found.unreadable[row] = "does not name its table"  # a loop over bad ones
        return origins_of(names[0], names[1], names[2], found.unreadable)


@dataclass(frozen=True, slots=True)
class TimeFields:
    """How a dialect tells when the source made a change.

    Attributes:
        fields: of a message, that are read.
        millis_of: makes of their columns milliseconds of UTC, int64.
    """

    fields: pa.Schema
    millis_of: Callable[[Sequence[pa.Array]], pa.Array]

    def change_times(self, messages: pa.RecordBatch) -> pa.Array:
        """When each change was made; see `message_format.SourceReader`."""
        found = told_fields(messages, self.fields)
        return times_told(found, messages.num_rows, self.millis_of)


def millis_of_text(texts: pa.Array) -> pa.Array:
    """Milliseconds of UTC of texts such as ``2024-10-27 12:39:03.210671Z``; null: no such text."""
    found = pc.extract_regex(texts, _TEXT)
    texts = pc.if_else(pc.is_valid(found), texts, pa.scalar(None, pa.string()))
    short = pc.utf8_slice_codeunits(pc.replace_substring(texts, "T", " "), 0, len(_SECONDS))
    seconds = cast_isolating(short, pa.timestamp("s")).cast(pa.int64())
    digits = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(found, "fraction"), 3, "0"), 0, 3)
    millis = pc.fill_null(cast_isolating(digits, pa.int64()), 0)
    return pc.add(pc.multiply(seconds, 1000), millis)


_SECONDS = "2024-02-29 23:59:59"
_TEXT = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.](?P<fraction>\d+))?Z?$"
