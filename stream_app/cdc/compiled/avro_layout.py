"""Reads messages of one schema of Avro into Arrow columns in one pass, by machine code.

Formats of Avro make one `AvroLayout` for each schema. It never raises: it declines messages, which
the caller reads in another way. It takes schemas of records, scalars and unions of one type with
null, and leaves arrays, maps and other unions to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Bytes, Int64s, bytes_of, offsets_of
from stream_app.cdc.compiled.avro_walk import (
    BOOLEAN,
    BYTES,
    DECIMAL,
    DOUBLE,
    END,
    FLOAT,
    IMAGE,
    IMAGE_END,
    LONG,
    NOTHING,
    RECORD,
    STEP_SIZE,
    SYMBOL,
    WIDE,
    AvroBuffers,
    AvroPositions,
    walk_messages,
)
from stream_app.cdc.compiled.cell_values import VALUE
from stream_app.cdc.compiled.decimal_values import DIGITS_MAX
from stream_app.cdc.compiled.image_cells import ImageCells
from stream_app.cdc.wire.avro.avro_types import AvroType

_Path = tuple[str, ...]
_PADDING_SIZE = 8
"""The bytes after each message that may be read."""
_CELLS_MAX = 1 << 24
_STEPS_MAX = 4096
_NO_COLUMN = -1
_TEXT_KINDS = frozenset({"string", "enum"})
_STEP_KINDS = {
    "null": NOTHING,
    "int": LONG,
    "long": LONG,
    "boolean": BOOLEAN,
    "float": FLOAT,
    "double": DOUBLE,
    "enum": SYMBOL,
    "bytes": BYTES,
    "string": BYTES,
    "fixed": BYTES,
}


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """The cells of one column; implements `wire.avro_columns.AvroLeaf`.

    Attributes:
        column_index: the index of the column's cells.
        memory: the memory of the texts to which the cells point.
    """

    avro_type: AvroType
    cells: ImageCells
    memory: tuple[Bytes, Bytes]
    column_index: int
    count: int

    @property
    def has_value(self) -> Bools:
        """The mask of records that have a value, bool [count]."""
        has_value: Bools = self.cells.states[self.column_index, : self.count] == VALUE
        return has_value

    def numeric_values(self) -> pa.Array:
        """See `AvroLeaf`."""
        bits = self.cells.valid_bits(self.column_index, self.count)
        values = self.cells.values[self.column_index, : self.count]
        match self.avro_type.kind:
            case "boolean":
                booleans = pa.py_buffer(np.packbits(values != 0, bitorder="little"))
                return pa.Array.from_buffers(pa.bool_(), self.count, [bits, booleans])
            case "float":
                float_bits = pa.py_buffer(values.astype(np.int32))
                return pa.Array.from_buffers(pa.float32(), self.count, [bits, float_bits])
            case kind:
                target_type = pa.float64() if kind == "double" else pa.int64()
                return pa.Array.from_buffers(target_type, self.count, [bits, pa.py_buffer(values)])

    def binary(self) -> pa.Array:
        """See `AvroLeaf`."""
        return self.cells.texts(self.column_index, self.count).view(pa.binary())

    def decimals(self, target_type: pa.Decimal128Type) -> pa.Array:
        """Return the numbers that are read as decimals, whatever the precision of the type."""
        is_wide = target_type.precision > DIGITS_MAX
        return self.cells.decimals(self.column_index, self.count, target_type, is_wide=is_wide)


@dataclass(frozen=True, slots=True)
class AvroMessages:
    """The m messages of n that were read, and the s images in them, in their order.

    Attributes:
        is_parsed: bool [n].
        image_count: the number s of images.
        before_indices, after_indices: int64 [m], the index of each message's image, or -1.
        columns: the columns [s] of the images, by name.
        texts: the columns [m] of texts, by their path.
    """

    is_parsed: Bools
    image_count: int
    before_indices: Int64s
    after_indices: Int64s
    columns: Mapping[str, AvroColumn]
    texts: Mapping[_Path, AvroColumn]


@dataclass(frozen=True, slots=True)
class AvroLayout:
    """The walk over messages of one schema.

    Attributes:
        steps: int64 [k, `STEP_SIZE`].
        column_cells: name of an image's column → the index of its cells, and its type.
        text_cells: path of a text outside of images → the index of its cells, and its type.
        width: the number of columns of cells.
    """

    steps: Int64s
    column_cells: Mapping[str, tuple[int, AvroType]]
    text_cells: Mapping[_Path, tuple[int, AvroType]]
    width: int

    @classmethod
    def for_schema(
        cls,
        root: AvroType,
        images: Sequence[str],
        column_digits: Mapping[str, int],
        texts: Sequence[_Path],
    ) -> Self | None:
        """Return the layout of a schema; None if it has a type that is not supported.

        Args:
            images: the root's fields that are images before and after the change.
            column_digits: the maximum digits of each column of the images; 0 if no decimal.
            texts: the paths of fields outside of images.
        """
        steps = _AvroSteps(column_digits, texts)
        try:
            steps.add_message(root, images)
        except _UnsupportedError:
            return None
        return cls(
            np.array(steps.steps, np.int64).reshape(-1, STEP_SIZE),
            steps.column_cells,
            steps.text_cells,
            len(column_digits) + len(texts),
        )

    @classmethod
    def compile(cls) -> None:
        """Compile or load all machine code, so that the first messages need not wait for it."""
        layout = cls.for_schema(AvroType("record"), (), {}, ())
        assert layout is not None
        layout.read(pa.array([b""], pa.binary()), 0)

    def read(self, messages: pa.Array, head: int) -> AvroMessages | None:
        """Read n messages, or return None if one pass cannot hold their cells.

        Args:
            messages: binary [n] without nulls, none shorter than the head.
            head: bytes in front of each value.
        """
        count = len(messages)
        if 2 * count * self.width > _CELLS_MAX or not count:
            return None
        offsets, data = offsets_of(messages).astype(np.int64), bytes_of(messages)
        first_copied = int(np.searchsorted(offsets[1:], len(data) - _PADDING_SIZE, side="right"))
        # Bytes after the buffer must not be read, so the last messages are copied.
        copied_parts = [
            data[offsets[first_copied] : offsets[-1]],
            np.zeros(_PADDING_SIZE, np.uint8),
        ]
        copied_bytes = np.concatenate(copied_parts)
        starts, ends = offsets[:-1] + data.ctypes.data, offsets[1:] + data.ctypes.data
        for positions in (starts, ends):
            positions[first_copied:] += copied_bytes.ctypes.data - data.ctypes.data
            positions[first_copied:] -= offsets[first_copied]
        cells = ImageCells.for_columns(self.width, 2 * count)
        is_parsed = np.empty(count, np.bool_)
        before_indices, after_indices = np.empty((2, count), np.int64)
        image_count = walk_messages(
            AvroPositions(starts + head, ends, before_indices, after_indices, is_parsed),
            AvroBuffers(
                steps=self.steps.ctypes.data,
                values=cells.values.ctypes.data,
                highs=cells.highs.ctypes.data,
                lengths=cells.lengths.ctypes.data,
                states=cells.states.ctypes.data,
                width=2 * count,
            ),
        )
        row_count = int(np.count_nonzero(is_parsed))
        return AvroMessages(
            is_parsed=is_parsed,
            image_count=image_count,
            before_indices=before_indices[:row_count],
            after_indices=after_indices[:row_count],
            columns={
                name: AvroColumn(avro_type, cells, (data, copied_bytes), index, image_count)
                for name, (index, avro_type) in self.column_cells.items()
            },
            texts={
                path: AvroColumn(avro_type, cells, (data, copied_bytes), index, row_count)
                for path, (index, avro_type) in self.text_cells.items()
            },
        )


class _UnsupportedError(Exception):
    """The schema has a type that the walk does not know."""


@dataclass(slots=True)
class _AvroSteps:
    """The steps of the walk over a schema, and the numbers of its columns; see `AvroLayout`."""

    column_digits: Mapping[str, int]
    texts: Sequence[_Path]
    steps: list[list[int]] = field(default_factory=list)
    column_cells: dict[str, tuple[int, AvroType]] = field(default_factory=dict)
    text_cells: dict[_Path, tuple[int, AvroType]] = field(default_factory=dict)

    def add_message(self, root: AvroType, images: Sequence[str]) -> None:
        """Append the steps that read a whole message."""
        image_columns: list[set[str]] = []
        for name, declared_type in _fields_of(root):
            if name not in images:
                self._add_value(declared_type, (name,), is_in_image=False)
                continue
            null_branch, row = _split_nullable(declared_type)
            step = self._append_step(IMAGE, null_branch, images.index(name))
            for column, field_type in _fields_of(row):
                self._add_value(field_type, (column,), is_in_image=True)
            self._append_step(IMAGE_END)
            self.steps[step][2] = len(self.steps)
            image_columns.append(self.column_digits.keys() & dict(row.fields))
        self._append_step(END)
        have_equal_columns = all(names == image_columns[0] for names in image_columns)
        if not have_equal_columns or len(self.steps) > _STEPS_MAX:
            raise _UnsupportedError

    def _append_step(self, kind: int, null_branch: int = -1, column: int = _NO_COLUMN) -> int:
        self.steps.append([kind, null_branch, -1, column])
        return len(self.steps) - 1

    def _add_value(self, declared_type: AvroType, path: _Path, *, is_in_image: bool) -> None:
        """Append the steps that read a value; for a record those of all its fields."""
        null_branch, avro_type = _split_nullable(declared_type)
        is_column = is_in_image and len(path) == 1 and path[0] in self.column_digits
        if avro_type.kind == "record" and not is_column:
            step = self._append_step(RECORD, null_branch)
            for name, field_type in _fields_of(avro_type):
                self._add_value(field_type, (*path, name), is_in_image=is_in_image)
            self.steps[step][2] = len(self.steps)
            return
        if avro_type.kind not in _STEP_KINDS:
            raise _UnsupportedError
        column, kind = _NO_COLUMN, _STEP_KINDS[avro_type.kind]
        if is_column:
            column = list(self.column_digits).index(path[0])
            digits = self.column_digits[path[0]]
            kind = (WIDE if digits > DIGITS_MAX else DECIMAL) if digits else kind
            first_type = self.column_cells.setdefault(path[0], (column, avro_type))[1]
            if first_type.kind != avro_type.kind or (
                avro_type.kind == "enum" and first_type.symbols != avro_type.symbols
            ):
                raise _UnsupportedError  # the images declare different types
        elif not is_in_image and path in self.texts and avro_type.kind in _TEXT_KINDS:
            column = len(self.column_digits) + self.texts.index(path)
            self.text_cells[path] = column, avro_type
        self.steps.append([kind, null_branch, _argument(avro_type), column])


def _split_nullable(declared_type: AvroType) -> tuple[int, AvroType]:
    """Return the number of a union's null branch, or -1 for other types; and its values' type."""
    if declared_type.kind != "union":
        return -1, declared_type
    kinds = [branch.kind for branch in declared_type.branches]
    if len(kinds) != 2 or kinds.count("null") != 1:
        raise _UnsupportedError
    null_branch = kinds.index("null")
    return null_branch, declared_type.branches[1 - null_branch]


def _fields_of(record: AvroType) -> Sequence[tuple[str, AvroType]]:
    if record.kind != "record" or len(dict(record.fields)) < len(record.fields):
        raise _UnsupportedError
    return record.fields


def _argument(avro_type: AvroType) -> int:
    """Return the size of a fixed, the number of an enum's symbols, or -1; see `STEP_SIZE`."""
    match avro_type.kind:
        case "fixed":
            return avro_type.size
        case "enum":
            return len(avro_type.symbols)
        case _:
            return -1
