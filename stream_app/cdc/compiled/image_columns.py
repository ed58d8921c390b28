"""Parses images of rows into Arrow columns in one pass, by machine code.

It serves formats of JSON whose messages have a head of images and a known tail, or are images
themselves. They make one `ImageLayout` for each shape. It never raises: it declines messages, which
the caller reads in another way. Its columns equal those of `json_lines.parse_objects`, except that
a decimal in base64 comes as a decimal.

It allocates 21 bytes for each column of each image. The system provides only the pages that are
written.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Bytes, Int64s
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family, JsonKind
from stream_app.cdc.compiled.cell_values import (
    BASE64,
    BOOLEAN,
    DECIMAL,
    DECIMAL_TEXT,
    INTEGER,
    LIST,
    NUMBER_TEXT,
    OBJECT,
    TEXT,
    WIDE,
    ImageBuffers,
)
from stream_app.cdc.compiled.column_names import NO_COLUMN
from stream_app.cdc.compiled.decimal_values import DIGITS_MAX
from stream_app.cdc.compiled.head_parser import HeadPositions, parse_heads
from stream_app.cdc.compiled.image_cells import ImageCells
from stream_app.cdc.compiled.parser_input import PackedNames, end_messages, plain_names
from stream_app.cdc.compiled.row_parser import InnerBuffers, RowPositions, count_byte, parse_rows

TAIL_MIN = 16
"""The minimum bytes of a tail, because the parser of a head reads up to 16 bytes beyond it."""
_CELLS_MAX = 1 << 24
_NO_LAYOUTS: Mapping[str, ImageLayout] = MappingProxyType({})
_PLAIN_KINDS = {pa.int64(): INTEGER, pa.bool_(): BOOLEAN, pa.string(): TEXT}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageColumns:
    """The images of n messages.

    Attributes:
        columns: for each column of the table an array [s] of the images' values.
        before_indices, after_indices: int64 [n], the index of each message's image, or -1.
        is_parsed: bool [n]; false for a declined message.
        drift_hashes: int64 [n]; 0 where the images have the table's columns and no other. Messages
            with the same unknown and missing columns have the same number.
    """

    columns: Sequence[pa.Array]
    before_indices: Int64s
    after_indices: Int64s
    is_parsed: Bools
    drift_hashes: Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRows:
    """The parsed images of n messages that are images themselves; attributes as in `ImageColumns`.

    The last columns are the objects in messages, structs of their own columns, and then the lists
    of objects. With such columns the drift hashes are those of the objects; other fields do not
    count.

    Attributes:
        nulls: for each object and list, and each of its columns, the rows with explicit nulls.
            These are rows of messages, or of the list's elements.
    """

    columns: Sequence[pa.Array]
    is_parsed: Bools
    drift_hashes: Int64s
    nulls: Sequence[Sequence[Int64s]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLayout:
    """The parse of images of one shape; the arrays are those of `ImageBuffers`.

    Attributes:
        types: the types of the columns.
        names: the names of the columns.
        objects: the layouts of objects in messages, each a column after the others.
        lists: the layouts of objects in lists, whose columns come last.
        is_partial: whether images in messages may lack columns without a drift.
    """

    packed_names: PackedNames
    column_indices: Int64s
    kinds: Int64s
    scales: Int64s
    types: Sequence[pa.DataType]
    names: Sequence[str]
    objects: Sequence[ImageLayout] = ()
    lists: Sequence[ImageLayout] = ()
    is_partial: bool = False
    BASE64_MAX: ClassVar[int] = 24
    """The most bytes of a decimal in base64 that is read here."""

    @classmethod
    def for_columns(
        cls,
        readings: Sequence[ColumnReading],
        kinds: Sequence[JsonKind],
        order: Sequence[str],
        *,
        reads_base64: bool,
        objects: Mapping[str, ImageLayout] = _NO_LAYOUTS,
        lists: Mapping[str, ImageLayout] = _NO_LAYOUTS,
        is_partial: bool = False,
    ) -> Self | None:
        """Return the layout for columns of these JSON kinds; None for an unsupported type.

        Args:
            order: names of an image, in its order.
            reads_base64: whether decimals in base64 become decimals here; else they stay text.
            objects, lists: for `parse_rows`; by the names of the fields that contain them.
        """
        cell_types = [
            _kind_of(reading, kind, reads_base64=reads_base64)
            for reading, kind in zip(readings, kinds, strict=True)
        ]
        if None in cell_types:
            return None
        inner = [(OBJECT, layout.struct) for layout in objects.values()]
        inner += [(LIST, pa.list_(layout.struct)) for layout in lists.values()]
        all_types = [*filter(None, cell_types), *inner]
        scales = [reading.data_type.scale for reading in readings]
        columns = [*(reading.name for reading in readings), *objects, *lists]
        index_by_name = {name: index for index, name in enumerate(columns)}
        names = plain_names([*order, *index_by_name])
        if not names:
            return None
        return cls(
            packed_names=PackedNames.of(names),
            column_indices=np.array(
                [index_by_name.get(name, NO_COLUMN) for name in names], np.int64
            ),
            kinds=np.array([kind for kind, _ in all_types], np.int64),
            scales=np.array([*scales, *[0] * len(inner)], np.int64),
            types=[target_type for _, target_type in all_types],
            names=columns,
            objects=list(objects.values()),
            lists=list(lists.values()),
            is_partial=is_partial,
        )

    @property
    def struct(self) -> pa.DataType:
        """The type of an object that this layout parses."""
        return pa.struct(list(zip(self.names, self.types, strict=True)))

    @classmethod
    def compile(cls) -> None:
        """Compile or load all machine code, so that the first messages need not wait for it."""
        text = b'{"before":null,"after":{}' + bytes(TAIL_MIN)
        no_numbers: Int64s = np.zeros(0, np.int64)
        text_layout = cls(
            packed_names=PackedNames.of([]),
            column_indices=no_numbers,
            kinds=np.full(1, TEXT, np.int64),
            scales=np.zeros(1, np.int64),
            types=[pa.string()],
            names=["text"],
        )
        start = np.zeros(1, np.int64)
        data = np.frombuffer(text, np.uint8)
        text_layout.parse(data, start, start + len(text) - TAIL_MIN)
        text_layout.parse_rows(data, np.array([0, len(text)], np.int64))
        count_byte(data, 0)

    def parse(self, data: Bytes, starts: Int64s, tail_starts: Int64s) -> ImageColumns | None:
        """Parse ``{"before":…,"after":…`` of n messages; None if one pass cannot hold their cells.

        Two messages, of which the second is not JSON::

            heads           {"before":{"k":1},"after":{"k":2}    {"before":null,"after":{"k":x}
            columns         [[1, 2]]
            before_indices  [0, -1]
            after_indices   [1, -1]
            drift_hashes    [0, 0]
            is_parsed       [T, F]

        Args:
            data: uint8; all messages.
            starts: int64 [n]; where each message begins.
            tail_starts: int64 [n]; where its tail begins: a comma and a quote, of `TAIL_MIN` bytes
                or more, all of them in the data.
        """
        count, width = len(starts), 2 * len(starts)
        if width * len(self.types) > _CELLS_MAX:
            return None
        cells = ImageCells.for_columns(len(self.types), width)
        heads = HeadPositions(
            starts + data.ctypes.data,
            tail_starts + data.ctypes.data,
            np.empty(count, np.int64),
            np.empty(count, np.int64),
            np.zeros(count, np.int64),
            np.empty(count, np.bool_),
        )
        image_count = parse_heads(heads, self._buffers(cells))
        return ImageColumns(
            columns=self._columns(cells, image_count),
            before_indices=np.where(heads.is_parsed, heads.before_indices, -1),
            after_indices=np.where(heads.is_parsed, heads.after_indices, -1),
            is_parsed=heads.is_parsed,
            drift_hashes=heads.drift_hashes,
        )

    def parse_rows(self, data: Bytes, offsets: Int64s) -> ParsedRows | None:
        """Parse n messages that are images themselves; None if one pass cannot hold their cells.

        Their objects are parsed too, where the layout has some.

        Args:
            data: uint8; all messages. The last are copied, so that a quote ends each text.
            offsets: int64 [n + 1]; of the messages in the data.
        """
        count = len(offsets) - 1
        layouts: list[ImageLayout] = [self, *self.objects, *self.lists]
        # There are at least as many braces as objects.
        list_rows_max = count_byte(data[offsets[0] : offsets[-1]], ord("{")) if self.lists else 0
        widths = [*[count] * (1 + len(self.objects)), *[list_rows_max] * len(self.lists)]
        column_counts = [len(layout.kinds) for layout in layouts]
        if sum(map(operator.mul, column_counts, widths)) > _CELLS_MAX:
            return None
        ended_messages = end_messages(data, offsets)
        cells = list(map(ImageCells.for_columns, column_counts, widths))
        message_buffers, *inner_buffers = map(ImageLayout._buffers, layouts, cells)
        inner = np.array(inner_buffers, np.int64)
        list_rows = np.zeros((2, len(self.lists)), np.int64)
        drift_hashes, is_parsed = np.zeros(count, np.int64), np.empty(count, np.bool_)
        image_count = parse_rows(
            RowPositions(ended_messages.starts, ended_messages.ends, drift_hashes, is_parsed),
            message_buffers,
            InnerBuffers(
                inner.ctypes.data,
                len(self.objects),
                len(self.lists),
                list_rows.ctypes.data,
                sum(layout.is_partial << index for index, layout in enumerate(layouts[1:])),
                8 * sum(column_counts),
            ),
        )
        lengths = [*[image_count] * len(self.objects), *list_rows[0].tolist()]
        columns = self._columns(cells[0], image_count)
        for layout, layout_cells, length in zip(layouts[1:], cells[1:], lengths, strict=True):
            struct = layout._columns(layout_cells, length)
            columns.append(
                cells[0].inner_column(len(columns), image_count, self.types[len(columns)], struct)
            )
        nulls = [
            inner_cells.nulls(length)
            for inner_cells, length in zip(cells[1:], lengths, strict=True)
        ]
        return ParsedRows(
            columns=columns, is_parsed=is_parsed, drift_hashes=drift_hashes, nulls=nulls
        )

    def _columns(self, cells: ImageCells, count: int) -> list[pa.Array]:
        return [
            cells.column(index, count, int(kind), target_type)
            for index, (kind, target_type) in enumerate(zip(self.kinds, self.types, strict=True))
            if kind not in (OBJECT, LIST)
        ]

    def _buffers(self, cells: ImageCells) -> ImageBuffers:
        return cells.buffers(self.packed_names, self.column_indices, self.kinds, self.scales)


def _kind_of(
    reading: ColumnReading, json_kind: JsonKind, *, reads_base64: bool
) -> tuple[int, pa.DataType] | None:
    """Return the kind of a column's cells, and their type; None if machine code has no parser."""
    wire_type = reading.wire_type(json_kind)
    if reading.family is Family.DECIMAL and json_kind in (JsonKind.NUMBER, JsonKind.STRING):
        is_base64 = reading.encoding is Encoding.BASE64
        wide_flag = WIDE if reading.data_type.precision > DIGITS_MAX else 0
        if not pa.types.is_string(wire_type):
            decimal_kind = DECIMAL if json_kind is JsonKind.NUMBER else DECIMAL_TEXT
            return decimal_kind + wide_flag, reading.arrow_type
        if is_base64 and reads_base64 and reading.scale == reading.data_type.scale:
            return BASE64 + wide_flag, reading.arrow_type
    if wire_type is None:
        return None
    if pa.types.is_floating(wire_type) and json_kind is JsonKind.NUMBER:
        return NUMBER_TEXT, wire_type
    plain_kind = _PLAIN_KINDS.get(wire_type)
    return None if plain_kind is None else (plain_kind, wire_type)
