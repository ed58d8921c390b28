"""Converts the cells of parsed images to Arrow columns.

The layouts make the cells, let machine code fill them, and ask for the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Bytes, Int32s, Int64s
from stream_app.cdc.compiled.cell_values import (
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER_TEXT,
    TEXT,
    VALUE,
    WIDE,
    ImageBuffers,
    copy_texts,
)
from stream_app.cdc.compiled.parser_input import WORD, PackedNames


@dataclass(frozen=True, slots=True)
class ImageCells:
    """The arrays whose addresses `ImageBuffers` holds; each is [c, s] or [c]."""

    values: npt.NDArray[np.int64]
    highs: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    states: Bytes
    stamps: Int64s

    @classmethod
    def for_columns(cls, column_count: int, width: int) -> ImageCells:
        """Return empty cells of `width` images for each column."""
        shape = column_count, width
        return cls(
            np.empty(shape, np.int64),
            np.empty(shape, np.int64),
            np.empty(shape, np.int32),
            np.empty(shape, np.uint8),
            np.zeros(column_count, np.int64),
        )

    def buffers(
        self, names: PackedNames, column_indices: Int64s, kinds: Int64s, scales: Int64s
    ) -> ImageBuffers:
        """Return the addresses of cells and of a layout's buffers, which must stay alive."""
        return ImageBuffers(
            words=names.words.ctypes.data,
            starts=names.starts.ctypes.data,
            lengths=names.lengths.ctypes.data,
            masks=names.masks.ctypes.data,
            column_indices=column_indices.ctypes.data,
            kinds=kinds.ctypes.data,
            scales=scales.ctypes.data,
            values=self.values.ctypes.data,
            highs=self.highs.ctypes.data,
            text_lengths=self.lengths.ctypes.data,
            states=self.states.ctypes.data,
            stamps=self.stamps.ctypes.data,
            name_count=len(column_indices),
            column_count=len(kinds),
            width=self.values.shape[1],
        )

    def valid_bits(self, column_index: int, count: int) -> pa.Buffer | None:
        """Return the mask of a column's valid cells, or None if all are valid."""
        is_valid = self.states[column_index, :count] == VALUE
        return None if is_valid.all() else pa.py_buffer(np.packbits(is_valid, bitorder="little"))

    def nulls(self, count: int) -> list[Int64s]:
        """Return the rows of the images with a null, for each column."""
        return [np.flatnonzero(states[:count] == NULL) for states in self.states]

    def inner_column(
        self, column_index: int, count: int, target_type: pa.DataType, columns: Sequence[pa.Array]
    ) -> pa.Array:
        """Return the column of objects or of lists, which is made of their own columns."""
        validity = self.valid_bits(column_index, count)
        if pa.types.is_struct(target_type):
            return pa.Array.from_buffers(target_type, count, [validity], children=columns)
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(self.values[column_index, :count], out=offsets[1:])
        rows = pa.Array.from_buffers(
            target_type.value_type, int(offsets[-1]), [None], children=columns
        )
        buffers = [validity, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(target_type, count, buffers, children=[rows])

    def column(
        self, column_index: int, count: int, kind: int, target_type: pa.DataType
    ) -> pa.Array:
        """Return a column of the first images, whose cells are of this kind."""
        if kind in (TEXT, NUMBER_TEXT):
            texts = self.texts(column_index, count)
            return texts if kind == TEXT else texts.cast(target_type)
        bits, values = self.valid_bits(column_index, count), self.values[column_index, :count]
        if kind == BOOLEAN:
            booleans = pa.py_buffer(np.packbits(values != 0, bitorder="little"))
            return pa.Array.from_buffers(target_type, count, [bits, booleans])
        if kind != INTEGER:
            return self.decimals(column_index, count, target_type, is_wide=kind >= WIDE)
        return pa.Array.from_buffers(target_type, count, [bits, pa.py_buffer(values)])

    def texts(self, column_index: int, count: int) -> pa.Array:
        """Return a column of texts whose UTF-8 is not checked."""
        is_valid = self.states[column_index, :count] == VALUE
        lengths = self.lengths[column_index, :count]
        bits = self.valid_bits(column_index, count)
        if bits is not None:
            lengths = np.where(is_valid, lengths, 0)
        return _text_array(self.values[column_index, :count], lengths, is_valid, bits)

    def decimals(
        self, column_index: int, count: int, target_type: pa.DataType, *, is_wide: bool
    ) -> pa.Array:
        """Return a column of the unscaled numbers of decimals of any precision."""
        values = self.values[column_index, :count]
        highs = values >> 63
        if is_wide:
            highs = np.where(
                self.states[column_index, :count] == VALUE, self.highs[column_index, :count], 0
            )
        words = pa.py_buffer(np.stack([values, highs], axis=1))
        return pa.Array.from_buffers(
            target_type, count, [self.valid_bits(column_index, count), words]
        )


def _text_array(
    positions: Int64s, lengths: Int32s, is_valid: Bools, bits: pa.Buffer | None
) -> pa.Array:
    offsets = np.zeros(len(positions) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    size = int(offsets[-1])
    output = np.empty(size + WORD, np.uint8)
    copy_texts(positions, lengths, is_valid, output.ctypes.data)
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(output[:size])]
    return pa.Array.from_buffers(pa.string(), len(positions), buffers)
