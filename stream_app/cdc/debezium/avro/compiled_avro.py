"""Messages of Debezium in Avro → images, by machine code.

Called by `debezium_avro` before arrays, which read the messages that machine code declines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, bools_of
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family, JsonKind
from stream_app.cdc.debezium.key_proof import WHOLE_IMAGES
from stream_app.cdc.debezium.one_record import TABLE_FIELDS
from stream_app.cdc.debezium.parsed_images import OPS, ParsedImages
from stream_app.cdc.json_records.changed_columns import ops_of
from stream_app.cdc.rows.images import StackedImages
from stream_app.cdc.rows.row_assembly import lacks_image
from stream_app.cdc.wire.avro.avro_columns import WireColumn, leaf_column, leaf_texts, reads_leaf
from stream_app.cdc.wire.avro.avro_types import AvroType
from stream_app.cdc.wire.wire_format import HEAD

if TYPE_CHECKING:
    from stream_app.cdc.compiled.avro_layout import AvroLayout, AvroMessages

IMAGES = ("before", "after")
_OP, _CONNECTOR = ("op",), ("source", "connector")
_TABLES = [("source", name) for name in TABLE_FIELDS]


@dataclass(frozen=True, slots=True)
class AvroRead:
    """The messages that are read, m of n.

    Attributes:
        parsed: bool [n].
        images: the images of m messages.
        readings: how the columns of the images are cast.
    """

    parsed: Bools
    images: ParsedImages
    readings: Sequence[ColumnReading]


@dataclass(frozen=True, slots=True)
class CompiledAvro:
    """A reader of one schema's messages by machine code.

    Attributes:
        decimals: the columns whose bytes become decimals.
    """

    layout: AvroLayout
    readings: Sequence[ColumnReading]
    decimals: frozenset[str]
    reads_tables: bool

    @classmethod
    def for_schema(
        cls,
        root: AvroType,
        readings: Sequence[ColumnReading],
        parser: type[AvroLayout] | None,
        *,
        reads_tables: bool,
    ) -> Self | None:
        """Return a reader, or None without machine code or if a type is not supported."""
        if parser is None:
            return None
        decimals = {
            reading.name: reading.data_type.precision
            for reading in readings
            if _is_decimal(reading)
        }
        row = next(
            (declared.without_null() for name, declared in root.fields if name in IMAGES), root
        )
        byte_columns = {name for name, declared in row.fields if _has_bytes(declared)}
        texts = [_OP, _CONNECTOR, *(_TABLES if reads_tables else ())]
        layout = parser.for_schema(
            root,
            IMAGES,
            {
                reading.name: decimals.get(reading.name, 0) if reading.name in byte_columns else 0
                for reading in readings
            },
            texts,
        )
        if layout is None or not all(
            reads_leaf(reading, layout.columns[reading.name][1])
            for reading in readings
            if reading.name in layout.columns
        ):
            return None
        return cls(layout, readings, frozenset(decimals.keys() & byte_columns), reads_tables)

    def read(self, values: pa.Array) -> AvroRead | None:
        """Read n messages, or return None if none of them can be read."""
        read = self.layout.read(values, HEAD.size)
        if read is None or not read.is_parsed.any():
            return None
        wires = [self._column(reading, read) for reading in self.readings]
        has_before, has_after = read.before_at >= 0, read.after_at >= 0
        ops = ops_of(_texts(read, _OP), OPS)
        suspects = lacks_image(ops, has_before, has_after)
        for wire in wires:
            if wire.suspects.any():
                image_suspects = np.append(wire.suspects, False)  # -1: the last
                suspects = suspects | image_suspects[read.before_at] | image_suspects[read.after_at]
        images = StackedImages(
            ops=ops,
            before_at=read.before_at,
            after_at=read.after_at,
            json_kinds=[wire.json_kind for wire in wires],
            columns=[wire.values for wire in wires],
            suspects=suspects,
            tables=[_texts(read, path) for path in _TABLES] if self.reads_tables else (),
        )
        is_whole = bools_of(pc.is_in(_texts(read, _CONNECTOR), pa.array(WHOLE_IMAGES)))
        return AvroRead(
            read.is_parsed, ParsedImages(images, is_whole), [wire.reading for wire in wires]
        )

    def _column(self, reading: ColumnReading, read: AvroMessages) -> WireColumn:
        if reading.name not in read.columns:
            kind = reading.usual_kind()
            none = pa.nulls(read.image_count, reading.wire_type(kind))
            return WireColumn(reading, kind, none, np.zeros(read.image_count, np.bool_))
        leaf = read.columns[reading.name]
        if reading.name in self.decimals:
            as_number = reading.with_encoding(Encoding.NUMBER)
            decimals = leaf.decimals(reading.arrow_type)
            return WireColumn(
                as_number, JsonKind.NUMBER, decimals, np.zeros(read.image_count, np.bool_)
            )
        return leaf_column(reading, leaf, leaf.present)


def _texts(read: AvroMessages, path: tuple[str, ...]) -> pa.Array:
    leaf = read.texts.get(path)
    return pa.nulls(len(read.before_at), pa.string()) if leaf is None else leaf_texts(leaf)


def _is_decimal(reading: ColumnReading) -> bool:
    """Return whether a column's bytes are a decimal of the column's own scale."""
    return (
        reading.family is Family.DECIMAL
        and reading.encoding is Encoding.BASE64
        and reading.scale == reading.data_type.scale
        and not reading.refusal
    )


def _has_bytes(declared: AvroType) -> bool:
    return declared.without_null().kind in ("bytes", "fixed")
