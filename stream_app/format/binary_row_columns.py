"""Encodes whole Arrow columns as Paimon's BinaryRow, the input of the bucket hash.

The bytes equal those of `binary_row.encode_row`, but are computed column by column. A row is a
sequence of 64-bit words, so all arrays here are arrays of words.

Source: Paimon `data/BinaryRow.java`, `data/AbstractBinaryWriter.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bytes, Int64s
from stream_app.format.arrow_schema import arrow_type
from stream_app.format.binary_row import (
    INLINE_BYTES_MAX,
    LONG_DECIMAL_SIZE,
    NANOS_OF_MILLI,
    WORD,
    has_long_form,
    header_size,
)
from stream_app.model.schema.data_type import BINARY_ROOTS, STRING_ROOTS, DataType, TypeRoot

Words = npt.NDArray[np.uint64]
"""64-bit words, little-endian: one for each row, [n], or of all rows, [words]. The same memory in
bytes is `Bytes`, [8 * words]."""

_OFFSET_SHIFT = np.uint64(32)
_INLINE_MARK_SHIFT = np.uint64(56)
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(WORD + 1)], dtype=np.uint64)
"""Keeps the first 0 to 8 bytes of a word."""
_UNSIGNED_TYPES = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32()}


def encode_columns(columns: Sequence[pa.Array], types: Sequence[DataType]) -> tuple[Bytes, Int64s]:
    """Encode each row as BinaryRow bytes without arity.

    Four rows of ``a INT, s STRING``. Each has a header word and two slots. A text of up to 7 bytes
    is in its slot; a longer one follows, padded to whole words::

        a          [1, 2, 3, 4]
        s          ["x", "long text", "", null]
        words      [3, 5, 3, 3]
        offsets    [0, 24, 64, 88, 112]
        row 0      00000000 00000000   01000000 00000000   78000000 00000081
        row 1      …                   02000000 00000000   09000000 18000000   6c6f6e67 20746578 …

    0x81 marks a text of one byte in its slot. Row 1 has the length 9 and the offset 0x18.

    Args:
        columns: arrays [n], at least one.

    Returns:
        `flat`, uint8 [bytes of all rows], and `offsets`, int64 [n + 1], in bytes: row i is
        ``flat[offsets[i]:offsets[i + 1]]``.

    Raises:
        pyarrow.ArrowInvalid: a column cannot become its type without loss.
    """
    assert columns, "a row without columns has no bytes to hash"
    row_count = len(columns[0])
    if has_fixed_width(types):
        words = row_words(columns, types)
        matrix = np.empty((row_count, len(words)), dtype=np.uint64)
        for index, word in enumerate(words):
            matrix[:, index] = word
        offsets = np.arange(row_count + 1, dtype=np.int64) * (WORD * len(words))
        return matrix.reshape(-1).view(np.uint8), offsets
    return _encode_ragged(columns, types, row_count)


def has_fixed_width(types: Sequence[DataType]) -> bool:
    """Return whether all rows of these columns have the same length, whatever their values."""
    return not any(data_type.root in STRING_ROOTS | BINARY_ROOTS for data_type in types)


def row_words(columns: Sequence[pa.Array], types: Sequence[DataType]) -> list[Words | np.uint64]:
    """Return the words of rows of fixed width: each uint64 [n], or one uint64 for all rows.

    Four rows of ``a INT`` with 1, 2, 3, 4 have the header 0 and a slot: ``[0, [1, 2, 3, 4]]``.

    Args:
        columns: arrays [n] of types with `has_fixed_width`.
    """
    parts = [_part(column, data_type) for column, data_type in zip(columns, types, strict=True)]
    cursor = header_size(len(parts)) + WORD * len(parts)
    slots: list[Words | np.uint64] = []
    tail: list[Words | np.uint64] = []
    for part in parts:
        slots.append(part.slot | np.uint64(cursor << 32) if part.tail else part.slot)
        tail += part.tail
        cursor += WORD * len(part.tail)
    return [*_header_words(parts), *slots, *tail]


@dataclass(frozen=True, slots=True)
class TextWords:
    """The positions of the bytes of a string or binary column; nulls have length 0.

    Attributes:
        words_at: the eight bytes from each position on, padded with zeros: uint64 [bytes + 1].
        starts, lengths: int64 [n], in bytes.
    """

    words_at: Words
    starts: Int64s
    lengths: Int64s


@dataclass(frozen=True, slots=True)
class _Part:
    """One column of encoded rows: the slots without offsets, and the bytes after the slots."""

    slot: Words
    is_null: npt.NDArray[np.bool_] | None
    tail: list[Words | np.uint64] = field(default_factory=list)
    text: TextWords | None = None


def _part(column: pa.Array, data_type: DataType) -> _Part:
    """Return a column's slots, and the words of its tail for a long type."""
    target = arrow_type(data_type)
    if column.type != target:
        column = column.cast(target)
    is_null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    if data_type.root in STRING_ROOTS | BINARY_ROOTS:
        return _text_part(column, is_null)
    if data_type.root is TypeRoot.DECIMAL:
        return _decimal_part(column, data_type, is_null)
    if data_type.root is TypeRoot.BOOLEAN:
        column = column.cast(pa.uint8())
    width = column.type.bit_width
    # Use the unsigned bit pattern, because slots are padded with zeros, not with the sign.
    bits = _integer_bits(column, pa.int64() if width == 64 else _UNSIGNED_TYPES[width])
    if has_long_form(data_type):
        ticks_of_milli = 1_000 if column.type.unit == "us" else NANOS_OF_MILLI
        ms = np.floor_divide(bits, ticks_of_milli)
        nanos = (bits - ms * ticks_of_milli) * (NANOS_OF_MILLI // ticks_of_milli)
        return _Part(nanos.view(np.uint64), is_null, [ms.view(np.uint64)])
    return _Part(bits.view(np.uint64) if width == 64 else bits.astype(np.uint64), is_null)


def _integer_bits(column: pa.Array, viewed_as: pa.DataType) -> npt.NDArray[np.int64]:
    bits = column.view(viewed_as)
    if bits.null_count:
        bits = bits.fill_null(0)
    array: npt.NDArray[np.int64] = bits.to_numpy(zero_copy_only=False)
    return array


def _decimal_part(
    column: pa.Array, data_type: DataType, is_null: npt.NDArray[np.bool_] | None
) -> _Part:
    """Return the words of a column of decimals.

    Four numbers of more than 18 digits. The slot gets the number of bytes, and two words after
    the slots have the bytes, padded with zeros::

        numbers    [0,  1,  -1, 128]
        lengths    [1,  1,  1,  2]
        digits     [00, 01, ff, 0080]
    """
    words = np.frombuffer(column.buffers()[1], dtype=np.uint64).reshape(-1, 2)
    halves = words[column.offset : column.offset + len(column)]
    if is_null is not None:
        halves = np.where(is_null[:, np.newaxis], np.uint64(0), halves)
    if not has_long_form(data_type):
        return _Part(np.ascontiguousarray(halves[:, 0]), is_null)
    big_endian = np.ascontiguousarray(halves[:, ::-1]).byteswap().view(np.uint8).reshape(-1, 16)
    lengths = _minimal_lengths(big_endian)
    if is_null is not None:
        lengths[is_null] = 0
    digits = np.zeros_like(big_endian)
    for length in np.unique(lengths):  # at most 17 of them
        has_length = lengths == length
        digits[has_length, :length] = big_endian[has_length, LONG_DECIMAL_SIZE - length :]
    pairs = digits.view(np.uint64)
    tail: list[Words | np.uint64] = [pairs[:, 0], pairs[:, 1]]
    return _Part(lengths.astype(np.uint64), is_null, tail)


def _minimal_lengths(big_endian: Bytes) -> Int64s:
    """Return the bytes that Java's BigInteger needs, without leading sign bytes.

    The numbers 0, 127, 128 and -1 need 1, 1, 2 and 1: the first bit of 128 would be a sign.

    Args:
        big_endian: uint8 [n, 16], two's complement.

    Returns:
        int64 [n], 1 to 16.
    """
    sign = np.where(big_endian[:, 0] >= 0x80, np.uint8(0xFF), np.uint8(0))
    differs = big_endian != sign[:, np.newaxis]
    leading = np.where(differs.any(axis=1), differs.argmax(axis=1), LONG_DECIMAL_SIZE)
    first_bytes = big_endian[np.arange(len(big_endian)), np.minimum(leading, LONG_DECIMAL_SIZE - 1)]
    needs_sign = (leading == LONG_DECIMAL_SIZE) | ((first_bytes ^ sign) >= 0x80)
    lengths: Int64s = LONG_DECIMAL_SIZE - leading + needs_sign
    return lengths


def text_words(column: pa.Array) -> TextWords:
    """Return the words of a string or binary column."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    start = int(bounds[0]) if len(bounds) else 0
    end = int(bounds[-1]) if len(bounds) else 0
    # Append eight zeros, so that a word may be read at each byte of the text.
    padded_bytes = np.zeros(end - start + WORD, dtype=np.uint8)
    if end > start:
        padded_bytes[: end - start] = np.frombuffer(data, dtype=np.uint8)[start:end]
    words_at: Words = np.ndarray((end - start + 1,), np.uint64, padded_bytes.data, strides=(1,))
    lengths = np.diff(bounds).astype(np.int64)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return TextWords(words_at, bounds[:-1].astype(np.int64) - start, lengths)


def _text_part(column: pa.Array, is_null: npt.NDArray[np.bool_] | None) -> _Part:
    text = text_words(column)
    lengths = text.lengths
    marks = np.uint64(0x80) | lengths.view(np.uint64)
    inline = text.words_at[text.starts] & _MASKS[np.minimum(lengths, INLINE_BYTES_MAX)]
    inline |= marks << _INLINE_MARK_SHIFT
    slot: Words = np.where(lengths > INLINE_BYTES_MAX, lengths.view(np.uint64), inline)
    if is_null is not None:
        slot[is_null] = 0
    return _Part(slot, is_null, text=text)


def _header_words(parts: Sequence[_Part]) -> list[Words | np.uint64]:
    """Return the header words: the row kind, always 0, and the null bits."""
    header: list[Words | np.uint64] = [np.uint64(0)] * (header_size(len(parts)) // WORD)
    for index, part in enumerate(parts):
        if part.is_null is not None:
            word, bit = divmod(index + 8, 64)
            header[word] = header[word] | part.is_null.astype(np.uint64) << np.uint64(bit)
    return header


def _encode_ragged(
    columns: Sequence[pa.Array], types: Sequence[DataType], row_count: int
) -> tuple[Bytes, Int64s]:
    """Encode rows of different lengths: uint8, and the rows' offsets int64 [n + 1]."""
    parts = [_part(column, data_type) for column, data_type in zip(columns, types, strict=True)]
    header = _header_words(parts)
    # The word position in each row where the column's tail begins. `cursor` ends as the row length.
    cursor = np.full(row_count, len(header) + len(parts), dtype=np.int64)
    tail_positions: list[Int64s] = []
    for part in parts:
        tail_positions.append(cursor)
        cursor = cursor + (len(part.tail) if part.text is None else _text_words(part.text))
    offsets = np.zeros(row_count + 1, dtype=np.int64)
    np.cumsum(cursor, out=offsets[1:])
    starts = offsets[:-1]
    flat = np.zeros(int(offsets[-1]), dtype=np.uint64)
    for index, word in enumerate(header):
        flat[starts + index] = word
    for index, (part, position) in enumerate(zip(parts, tail_positions, strict=True)):
        flat[starts + len(header) + index] = _slot_with_offset(part, position)
        for tail_index, word in enumerate(part.tail):
            flat[starts + position + tail_index] = word
        if part.text is not None:
            _copy_text(part.text, flat, starts + position)
    return flat.view(np.uint8), offsets * WORD


def _text_words(text: TextWords) -> Int64s:
    words: Int64s = np.where(text.lengths > INLINE_BYTES_MAX, (text.lengths + 7) // WORD, 0)
    return words


def _slot_with_offset(part: _Part, position: Int64s) -> Words:
    if not part.tail and part.text is None:
        return part.slot
    offset = (position * WORD).view(np.uint64) << _OFFSET_SHIFT
    if part.text is not None:
        offset = np.where(part.text.lengths > INLINE_BYTES_MAX, offset, np.uint64(0))
    slot: Words = part.slot | offset
    return slot


def _copy_text(text: TextWords, flat: Words, targets: Int64s) -> None:
    """Copy long texts to the word positions `targets`, and pad the last word with zeros.

    Two texts of 9 and 17 bytes, as one entry for each word (a run-length expansion)::

        lengths   [9, 17]     counts   [2, 3]     ends   [2, 5]
        repeat(ends - counts)  [0, 0, 2, 2, 2]
        within                 [0, 1, 0, 1, 2]
        bytes left             [8, 1, 8, 8, 1]    a word has at most 8

    Args:
        flat: uint64 [words of all rows], changed in place.
        targets: int64 [n], positions in `flat`.
    """
    indices = np.flatnonzero(text.lengths > INLINE_BYTES_MAX)
    lengths = text.lengths[indices]
    counts = (lengths + 7) // WORD
    ends = np.cumsum(counts)
    # One entry per word: `within` counts 0, 1, 2 … within each row.
    inner_positions = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(
        ends - counts, counts
    )
    source = np.repeat(text.starts[indices], counts) + inner_positions * WORD
    remaining_byte_counts = np.minimum(np.repeat(lengths, counts) - inner_positions * WORD, WORD)
    flat[np.repeat(targets[indices], counts) + inner_positions] = (
        text.words_at[source] & _MASKS[remaining_byte_counts]
    )
