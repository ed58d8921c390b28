"""Messages of Debezium in Avro → images, by machine code.

`debezium_avro` calls it first. Arrays read the messages that machine code declines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, bools_of
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family, JsonKind
from stream_app.cdc.debezium.decoding.one_record import TABLE_FIELDS
from stream_app.cdc.debezium.decoding.parsed_images import OPS_OF_LETTERS, ParsedImages
from stream_app.cdc.debezium.key_proof import WHOLE_IMAGES
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
class AvroImages:
    """The images of m messages that were parsed, of n.

    Attributes:
        is_parsed: bool [n].
        images: the images of m messages.
        readings: how the columns of the images are cast.
    """

    is_parsed: Bools
    images: ParsedImages
    readings: Sequence[ColumnReading]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTexts:
    """The texts outside of the images in m messages, strings [m]."""

    ops: pa.Array
    connectors: pa.Array
    tables: Sequence[pa.Array]


def avro_images(
    is_parsed: Bools,
    texts: MessageTexts,
    image_indices: tuple[Int64s, Int64s],
    wire_columns: Sequence[WireColumn],
) -> AvroImages:
    """Join the columns of m messages.

    Args:
        image_indices: int64 [m], [m]; the row of each message's image before and after, or -1.
        wire_columns: the columns of all images.
    """
    before_indices, after_indices = image_indices
    ops = ops_of(texts.ops, OPS_OF_LETTERS)
    is_suspect = lacks_image(ops, before_indices >= 0, after_indices >= 0)
    for column in wire_columns:
        if column.is_suspect.any():
            is_suspect_image = np.append(column.is_suspect, False)  # for images at -1
            is_suspect = (
                is_suspect | is_suspect_image[before_indices] | is_suspect_image[after_indices]
            )
    images = StackedImages(
        ops=ops,
        before_indices=before_indices,
        after_indices=after_indices,
        json_kinds=[column.json_kind for column in wire_columns],
        columns=[column.values for column in wire_columns],
        is_suspect=is_suspect,
        table_names=texts.tables,
    )
    has_whole_images = bools_of(pc.is_in(texts.connectors, pa.array(WHOLE_IMAGES)))
    return AvroImages(
        is_parsed,
        ParsedImages(images, has_whole_images),
        [column.reading for column in wire_columns],
    )


@dataclass(frozen=True, slots=True)
class CompiledAvroReader:
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
        layout_class: type[AvroLayout] | None,
        *,
        reads_tables: bool,
    ) -> Self | None:
        """Return a reader, or None without machine code or if a type is not supported."""
        if layout_class is None:
            return None
        decimals = {
            reading.name: reading.data_type.precision
            for reading in readings
            if _is_decimal(reading)
        }
        row_type = next(
            (field_type.without_null() for name, field_type in root.fields if name in IMAGES), root
        )
        byte_columns = {name for name, field_type in row_type.fields if _has_bytes(field_type)}
        text_paths = [_OP, _CONNECTOR, *(_TABLES if reads_tables else ())]
        layout = layout_class.for_schema(
            root,
            IMAGES,
            {
                reading.name: decimals.get(reading.name, 0) if reading.name in byte_columns else 0
                for reading in readings
            },
            text_paths,
        )
        if layout is None or not all(
            reads_leaf(reading, layout.column_cells[reading.name][1])
            for reading in readings
            if reading.name in layout.column_cells
        ):
            return None
        return cls(layout, readings, frozenset(decimals.keys() & byte_columns), reads_tables)

    def read(self, values: pa.Array) -> AvroImages | None:
        """Read n messages, or return None if none of them can be read."""
        messages = self.layout.read(values, HEAD.size)
        if messages is None or not messages.is_parsed.any():
            return None
        wire_columns = [self._column(reading, messages) for reading in self.readings]
        texts = MessageTexts(
            ops=_texts_at(messages, _OP),
            connectors=_texts_at(messages, _CONNECTOR),
            tables=[_texts_at(messages, path) for path in _TABLES] if self.reads_tables else (),
        )
        return avro_images(
            messages.is_parsed,
            texts,
            (messages.before_indices, messages.after_indices),
            wire_columns,
        )

    def _column(self, reading: ColumnReading, messages: AvroMessages) -> WireColumn:
        if reading.name not in messages.columns:
            json_kind = reading.usual_kind()
            nulls = pa.nulls(messages.image_count, reading.wire_type(json_kind))
            return WireColumn(reading, json_kind, nulls, np.zeros(messages.image_count, np.bool_))
        leaf = messages.columns[reading.name]
        if reading.name in self.decimals:
            as_number = reading.with_encoding(Encoding.NUMBER)
            decimals = leaf.decimals(reading.arrow_type)
            return WireColumn(
                as_number, JsonKind.NUMBER, decimals, np.zeros(messages.image_count, np.bool_)
            )
        return leaf_column(reading, leaf, leaf.has_value)


def _texts_at(messages: AvroMessages, path: tuple[str, ...]) -> pa.Array:
    leaf = messages.texts.get(path)
    return pa.nulls(len(messages.before_indices), pa.string()) if leaf is None else leaf_texts(leaf)


def _is_decimal(reading: ColumnReading) -> bool:
    """Return whether a column's bytes are a decimal of the column's own scale."""
    return (
        reading.family is Family.DECIMAL
        and reading.encoding is Encoding.BASE64
        and reading.scale == reading.data_type.scale
        and not reading.refusal
    )


def _has_bytes(field_type: AvroType) -> bool:
    return field_type.without_null().kind in ("bytes", "fixed")
