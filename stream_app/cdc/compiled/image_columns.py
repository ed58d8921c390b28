"""Images of rows, as bytes → Arrow columns in one pass, by machine code.

Called by formats of JSON whose messages have a head of images and a known tail, or are images
themselves. `ImageLayout` is made once for a shape. It declines messages, which the caller reads in
another way, and never raises. What it gives is what `json_lines.parse_objects` gives for the same
images. One kind of column is further decoded: a decimal in base64 comes as a decimal.

Memory: 13 bytes for each column of each image, of which the system provides what is written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.cdc.columns.arrow_buffers import Bools, Bytes, Int32s, Int64s
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family, JsonKind
from stream_app.cdc.compiled.cell_values import (
    BASE64,
    DECIMAL,
    DECIMAL_TEXT,
    NUMBER_TEXT,
    TEXT,
    TRUTH,
    WHOLE,
    ImageTables,
    copy_texts,
)
from stream_app.cdc.compiled.image_parser import (
    UNKNOWN,
    HeadPlaces,
    RowPlaces,
    parse_heads,
    parse_rows,
)

TAIL_MIN = 16
"""Bytes of a tail at least: the parser reads so far beyond a head."""
_CELLS_MAX = 1 << 24
_WORD = 8
_END = np.frombuffer(b'",' + bytes(30), np.uint8)
_PLAIN = {pa.int64(): WHOLE, pa.bool_(): TRUTH, pa.string(): TEXT}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedHeads:
    """The images of n messages.

    Attributes:
        columns: for each of the table's an array [s] of the images' values.
        before_at, after_at: int64 [n]; the place of each message's image; -1: it has none.
        parsed: bool [n]; messages that are not declined.
        drift: int64 [n]; 0 where the images have the table's columns and no other. Messages with
            the same unknown and missing columns have the same number.
    """

    columns: Sequence[pa.Array]
    before_at: Int64s
    after_at: Int64s
    parsed: Bools
    drift: Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRows:
    """The images that n messages are; the attributes are those of `ParsedHeads`."""

    columns: Sequence[pa.Array]
    parsed: Bools
    drift: Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLayout:
    """How the images of one shape are parsed; the arrays are those of `ImageTables`.

    Attributes:
        types: of the columns.
    """

    words: npt.NDArray[np.uint64]
    starts: Int64s
    lengths: Int64s
    masks: npt.NDArray[np.uint64]
    columns: Int64s
    kinds: Int64s
    scales: Int64s
    types: Sequence[pa.DataType]
    BASE64_MAX: ClassVar[int] = 14
    """Bytes at most of a decimal in base64 that is read here."""

    @classmethod
    def of(
        cls,
        readings: Sequence[ColumnReading],
        kinds: Sequence[JsonKind],
        order: Sequence[str],
        *,
        reads_base64: bool,
    ) -> Self | None:
        """How to parse images with columns of these JSON kinds; None: a column is of another type.

        Args:
            order: names of an image, as they stand in it.
            reads_base64: whether decimals in base64 become decimals here; else they stay text.
        """
        parsed = [
            _kind_of(reading, kind, reads_base64=reads_base64)
            for reading, kind in zip(readings, kinds, strict=True)
        ]
        if None in parsed:
            return None
        places = {reading.name: at for at, reading in enumerate(readings)}
        names = [name for name in dict.fromkeys([*order, *places]) if _is_plain(name)]
        if not names:
            return None
        texts = [f'"{name}":'.encode() for name in names]
        padded = [text + bytes(-len(text) % _WORD) for text in texts]
        lengths = np.array([len(text) for text in texts], np.int64)
        in_last = (lengths - 1) % _WORD + 1
        return cls(
            words=np.frombuffer(b"".join(padded), "<u8"),
            starts=np.cumsum([0, *(len(text) // _WORD for text in padded)]).astype(np.int64),
            lengths=lengths,
            masks=np.array([(1 << (8 * int(size))) - 1 for size in in_last], np.uint64),
            columns=np.array([places.get(name, UNKNOWN) for name in names], np.int64),
            kinds=np.array([kind for kind, _ in filter(None, parsed)], np.int64),
            scales=np.array([reading.data_type.scale for reading in readings], np.int64),
            types=[target for _, target in filter(None, parsed)],
        )

    @classmethod
    def compile(cls) -> None:
        """Compile or load all machine code: the first messages wait no more."""
        text = b'{"before":null,"after":{}' + bytes(TAIL_MIN)
        empty: Int64s = np.zeros(0, np.int64)
        of_texts = cls(
            words=np.zeros(0, np.uint64),
            starts=empty,
            lengths=empty,
            masks=np.zeros(0, np.uint64),
            columns=empty,
            kinds=np.full(1, TEXT, np.int64),
            scales=np.zeros(1, np.int64),
            types=[pa.string()],
        )
        first = np.zeros(1, np.int64)
        data = np.frombuffer(text, np.uint8)
        of_texts.parse(data, first, first + len(text) - TAIL_MIN)
        of_texts.parse_rows(data, np.array([0, len(text)], np.int64))

    def parse(self, data: Bytes, starts: Int64s, lasts: Int64s) -> ParsedHeads | None:
        """Parse ``{"before":…,"after":…`` of n messages; None: too many cells for one pass.

        Two messages, of which the second is no JSON::

            heads       {"before":{"k":1},"after":{"k":2}    {"before":null,"after":{"k":x}
            columns     [[1, 2]]
            before_at   [0, -1]
            after_at    [1, -1]
            drift       [0, 0]
            parsed      [T, F]

        Args:
            data: uint8; all messages.
            starts: int64 [n]; where each message begins.
            lasts: int64 [n]; where its tail begins: a comma and a quote, of `TAIL_MIN` bytes or
                more, all of them in the data.
        """
        count, width = len(starts), 2 * len(starts)
        if width * len(self.types) > _CELLS_MAX:
            return None
        cells = _Cells.of(len(self.types), width)
        heads = HeadPlaces(
            starts + data.ctypes.data,
            lasts + data.ctypes.data,
            np.empty(count, np.int64),
            np.empty(count, np.int64),
            np.zeros(count, np.int64),
            np.empty(count, np.bool_),
        )
        images = parse_heads(heads, self._tables(cells))
        return ParsedHeads(
            columns=self._columns(cells, images),
            before_at=np.where(heads.parsed, heads.before_at, -1),
            after_at=np.where(heads.parsed, heads.after_at, -1),
            parsed=heads.parsed,
            drift=heads.drift,
        )

    def parse_rows(self, data: Bytes, offsets: Int64s) -> ParsedRows | None:
        """Parse n messages that are images themselves; None: too many cells for one pass.

        Args:
            data: uint8; all messages, of which a copy is made: something must end them.
            offsets: int64 [n + 1]; of the messages in the data.
        """
        count = len(offsets) - 1
        if count * len(self.types) > _CELLS_MAX:
            return None
        ended = np.concatenate([data[offsets[0] : offsets[-1]], _END])
        cells = _Cells.of(len(self.types), count)
        places = offsets - offsets[0] + ended.ctypes.data
        drift, parsed = np.zeros(count, np.int64), np.empty(count, np.bool_)
        images = parse_rows(RowPlaces(places[:-1], places[1:], drift, parsed), self._tables(cells))
        return ParsedRows(columns=self._columns(cells, images), parsed=parsed, drift=drift)

    def _columns(self, cells: _Cells, images: int) -> list[pa.Array]:
        return [
            cells.column(at, images, int(kind), target)
            for at, (kind, target) in enumerate(zip(self.kinds, self.types, strict=True))
        ]

    def _tables(self, cells: _Cells) -> ImageTables:
        return ImageTables(
            words=self.words.ctypes.data,
            starts=self.starts.ctypes.data,
            lengths=self.lengths.ctypes.data,
            masks=self.masks.ctypes.data,
            columns=self.columns.ctypes.data,
            kinds=self.kinds.ctypes.data,
            scales=self.scales.ctypes.data,
            numbers=cells.numbers.ctypes.data,
            text_lengths=cells.lengths.ctypes.data,
            valid=cells.valid.ctypes.data,
            seen=cells.seen.ctypes.data,
            name_count=len(self.columns),
            column_count=len(self.kinds),
            width=cells.numbers.shape[1],
        )


@dataclass(frozen=True, slots=True)
class _Cells:
    """See `ImageTables`."""

    numbers: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    valid: npt.NDArray[np.bool_]
    seen: Int64s

    @classmethod
    def of(cls, columns: int, width: int) -> _Cells:
        shape = columns, width
        return cls(
            np.empty(shape, np.int64),
            np.empty(shape, np.int32),
            np.empty(shape, np.bool_),
            np.zeros(columns, np.int64),
        )

    def column(self, at: int, images: int, kind: int, target: pa.DataType) -> pa.Array:
        valid, numbers = self.valid[at, :images], self.numbers[at, :images]
        bits = None
        if not valid.all():
            bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
        if kind in (TEXT, NUMBER_TEXT):
            lengths = self.lengths[at, :images]
            if bits is not None:
                lengths = np.where(valid, lengths, 0)
            texts = _texts(numbers, lengths, valid, bits)
            return texts if kind == TEXT else texts.cast(target)
        if kind == TRUTH:
            truths = pa.py_buffer(np.packbits(numbers != 0, bitorder="little"))
            return pa.Array.from_buffers(target, images, [bits, truths])
        if kind != WHOLE:
            numbers = np.stack([numbers, numbers >> 63], axis=1)
        return pa.Array.from_buffers(target, images, [bits, pa.py_buffer(numbers)])


def _texts(places: Int64s, lengths: Int32s, valid: Bools, bits: pa.Buffer | None) -> pa.Array:
    offsets = np.zeros(len(places) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    copy_texts(places, lengths, valid, out)
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), len(places), buffers)


def _is_plain(name: str) -> bool:
    """Whether JSON writes the name as it is; messages with other names are declined."""
    return not any(letter in '"\\' or letter < " " for letter in name)


def _kind_of(
    reading: ColumnReading, kind: JsonKind, *, reads_base64: bool
) -> tuple[int, pa.DataType] | None:
    wire = reading.wire_type(kind)
    if reading.family is Family.DECIMAL and kind in (JsonKind.NUMBER, JsonKind.STRING):
        is_base64 = reading.encoding is Encoding.BASE64
        if not pa.types.is_string(wire):
            of_kind = DECIMAL if kind is JsonKind.NUMBER else DECIMAL_TEXT
            return of_kind, reading.arrow_type
        if is_base64 and reads_base64 and reading.scale == reading.data_type.scale:
            return BASE64, reading.arrow_type
    if wire is None:
        return None
    if pa.types.is_floating(wire) and kind is JsonKind.NUMBER:
        return NUMBER_TEXT, wire
    plain = _PLAIN.get(wire)
    return None if plain is None else (plain, wire)
