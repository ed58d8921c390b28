"""The fields of messages that a dialect parses, and their columns.

A dialect creates them for a table, and both parsers use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa

from stream_app.cdc.columns.column_reading import (
    ColumnReading,
    Encoding,
    JsonKind,
    parsed_row_fields,
)
from stream_app.model.schema.data_type import STRING


@dataclass(frozen=True, slots=True)
class ParsedFields:
    """The fields of a message, or of an object in it.

    Attributes:
        readings, json_kinds: of the fields with plain values.
        objects: the fields with an object each, by name.
        lists: the fields that contain a list of objects.
        is_partial: whether an object may lack fields without drift.
    """

    readings: Sequence[ColumnReading]
    json_kinds: Sequence[JsonKind]
    objects: Mapping[str, ParsedFields] = field(default_factory=dict)
    lists: Mapping[str, ParsedFields] = field(default_factory=dict)
    is_partial: bool = False

    @classmethod
    def of_texts(cls, *names: str, **objects: ParsedFields) -> Self:
        """Return plain fields that hold text, beside objects."""
        readings = [text_reading(name) for name in names]
        return cls(readings, [JsonKind.STRING] * len(names), objects)

    def schema(self) -> pa.Schema:
        """Return the columns of the parse: plain fields, objects, then lists."""
        return pa.schema(
            [
                *parsed_row_fields(self.readings, self.json_kinds),
                *((name, inner.struct()) for name, inner in self.objects.items()),
                *((name, pa.list_(inner.struct())) for name, inner in self.lists.items()),
            ]
        )

    def struct(self) -> pa.DataType:
        """Return the type of an object with these fields."""
        return pa.struct(list(self.schema()))


def text_reading(name: str) -> ColumnReading:
    """Return the reading of a field that holds text."""
    return ColumnReading(
        name=name,
        data_type=STRING,
        arrow_type=pa.string(),
        encoding=Encoding.TEXT,
        scale=0,
        is_required=False,
        is_key=False,
    )
