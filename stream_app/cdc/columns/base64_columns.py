"""Decodes base64, hexadecimal or ISO 8859-1 text into bytes, a whole column at a time.

`column_cast` calls it. All values of a column are consecutive in one buffer, and each base64 value
has whole groups of four characters. So the buffer is decoded at once, and only the padding is
removed afterwards.

Source: RFC 4648 sections 4, 5 and 8. Padding is required; the unused bits of the last character
are ignored, as Java's decoder does.
"""

from __future__ import annotations

import binascii

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import (
    Bools,
    Bytes,
    Int32s,
    any_of,
    bytes_of,
    lengths_of,
    null_where,
    offsets_of,
    own_bytes,
    valid_of,
)

Uint16s = npt.NDArray[np.uint16]

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_INVALID = 255
_PAIR_INVALID = 0x8000
_PAIR_PADS_SHIFT = 12
_PAIR_BITS = 0xFFF
_IS_HEX = np.isin(np.arange(256), list(b"0123456789abcdefABCDEF"))


def _pair_lookup(alphabet: bytes) -> Uint16s:
    """Return the lookup table: two characters → their 12 bits and number of pads.

    Other pairs give `_PAIR_INVALID`.
    """
    codes = np.full(256, _INVALID, np.uint16)
    codes[list(alphabet)] = np.arange(len(alphabet))
    first_codes, second_codes = codes[None, :], codes[:, None]  # the index is little-endian
    table = first_codes << 6 | second_codes
    table[(first_codes == _INVALID) | (second_codes == _INVALID)] = _PAIR_INVALID
    pad = ord("=")
    letters = codes != _INVALID
    table[pad, letters] = codes[letters] << 6 | 1 << _PAIR_PADS_SHIFT
    table[pad, pad] = 2 << _PAIR_PADS_SHIFT
    pairs: Uint16s = table.reshape(-1).astype(np.uint16)
    return pairs


_STANDARD = _pair_lookup(_ALPHABET + b"+/")
_URL_SAFE = _pair_lookup(_ALPHABET + b"-_")


def decode_base64(texts: pa.Array, *, is_url_safe: bool = False) -> tuple[pa.Array, Bools | None]:
    """Decode a string column [n] into a binary column [n].

    Four texts, whose groups of four characters are in one buffer and are decoded together::

        texts     ["AQID", "", "AQ==", null]
        groups    "AQID" "AQ=="          two words of 24 bits, of which the last has two pads
        bytes     [3 bytes, 0 bytes, 1 byte, null]

    Returns:
        The bytes, null where the text is null or not base64. The mask of texts that are not base64,
        bool [n]; None if all texts are.
    """
    texts, has_failed = _null_where_ragged(texts, 4)
    offsets = offsets_of(texts)
    start, end = int(offsets[0]), int(offsets[-1])
    pairs = (_URL_SAFE if is_url_safe else _STANDARD)[bytes_of(texts)[start:end].view("<u2")]
    left, right = pairs[0::2], pairs[1::2]
    lengths = offsets[1:] - offsets[:-1]
    group_ends = (offsets[1:] - start) // 4
    flags = right >> _PAIR_PADS_SHIFT
    pads: Int32s = np.zeros(len(texts), np.int32)
    has_text = lengths > 0
    pads[has_text] = flags[group_ends[has_text] - 1]
    # Pads are only allowed at the end of a value, so no other flags may be set.
    is_refused = bool((left > _PAIR_BITS).any() or (flags > 2).any())
    if is_refused or int(flags.sum(dtype=np.int64)) != int(pads.sum()):
        is_wrong = _has_bad_group(offsets, left, flags, pads)
        binary, _ = decode_base64(null_where(texts, is_wrong), is_url_safe=is_url_safe)
        return binary, any_of(is_wrong, has_failed)
    words = left.astype(np.uint32) << 20 | (right & _PAIR_BITS).astype(np.uint32) << 8
    data = words.astype(">u4").view(np.uint8).reshape(-1, 4)[:, :3].reshape(-1)
    if pads.any():
        is_kept = np.ones(len(data), np.bool_)
        is_kept[group_ends[pads >= 1] * 3 - 1] = False
        is_kept[group_ends[pads == 2] * 3 - 2] = False
        data = data[is_kept]
    return _binary_array(texts, (lengths // 4 * 3 - pads).astype(np.int32), data), has_failed


def _has_bad_group(offsets: Int32s, left: Uint16s, flags: Uint16s, pads: Int32s) -> Bools:
    is_bad = (left > _PAIR_BITS) | (flags > 2)
    is_padded = (flags == 1) | (flags == 2)
    bounds = (offsets - offsets[0]) // 4
    bad_sums, pad_sums = _running_sums(is_bad), _running_sums(is_padded)
    is_wrong: Bools = bad_sums[bounds[1:]] != bad_sums[bounds[:-1]]
    # A value has at most one padded group, its last.
    padded_groups = pad_sums[bounds[1:]] - pad_sums[bounds[:-1]]
    is_wrong |= padded_groups != ((pads == 1) | (pads == 2))
    return is_wrong


def _running_sums(mask: Bools) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])


def decode_hex(texts: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Decode hexadecimal text [n] in either case; return what `decode_base64` returns."""
    texts, has_failed = _null_where_ragged(texts, 2)
    data, offsets = own_bytes(texts)
    is_refused = ~_IS_HEX[data]
    if is_refused.any():
        is_wrong: Bools = np.zeros(len(texts), np.bool_)
        is_wrong[np.searchsorted(offsets, np.flatnonzero(is_refused), side="right") - 1] = True
        binary, _ = decode_hex(null_where(texts, is_wrong))
        return binary, any_of(is_wrong, has_failed)
    binary = np.frombuffer(binascii.unhexlify(data.data), np.uint8)
    return _binary_array(texts, (np.diff(offsets) // 2).astype(np.int32), binary), has_failed


def reverse_bytes(values: pa.Array) -> pa.Array:
    """Reverse the bytes of each value of a binary column [n]."""
    data, offsets = own_bytes(values)
    lengths = lengths_of(values)
    # The first and the last byte of a value swap, so the sum of their positions is constant.
    sums = np.repeat(offsets[:-1] + offsets[1:] - 1, lengths)
    return _binary_array(values, lengths, data[sums - np.arange(len(data))])


def pad_left(values: pa.Array, width: int) -> pa.Array:
    """Pad each value of a binary column [n] on the left with zero bytes, up to a width."""
    offsets, is_valid = offsets_of(values), valid_of(values)
    lengths = np.where(is_valid, lengths_of(values), 0).astype(np.int32)
    if not (is_valid & (lengths < width)).any():
        return values
    widths = np.where(is_valid, np.maximum(lengths, width), 0).astype(np.int32)
    data: Bytes = np.zeros(int(widths.sum(dtype=np.int64)), np.uint8)
    # The distance by which a byte moves, which is the same for all bytes of a value.
    moves = np.cumsum(widths, dtype=np.int64) - lengths - offsets[:-1]
    positions = np.repeat(offsets[:-1], lengths) + _numbers_up_to(lengths)
    data[positions + np.repeat(moves, lengths)] = bytes_of(values)[positions]
    return _binary_array(values, widths, data)


def _numbers_up_to(lengths: Int32s) -> npt.NDArray[np.int64]:
    """Return the numbers from 0 up to each length, in one sequence."""
    ends = np.cumsum(lengths, dtype=np.int64)
    return np.arange(int(lengths.sum(dtype=np.int64))) - np.repeat(ends - lengths, lengths)


def _null_where_ragged(texts: pa.Array, size: int) -> tuple[pa.Array, Bools | None]:
    """Replace each value whose length is not a multiple of `size` by null."""
    lengths, is_valid = lengths_of(texts), valid_of(texts)
    is_ragged: Bools = lengths % size != 0
    if texts.null_count:
        is_ragged |= (lengths > 0) & ~is_valid  # the bytes of nulls must be removed too
    if not is_ragged.any():
        return texts, None
    return null_where(texts, is_ragged), any_of(is_ragged & is_valid)


def _binary_array(texts: pa.Array, lengths: Int32s, data: Bytes) -> pa.Array:
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    validity = None
    if texts.null_count:
        validity = pa.array(valid_of(texts)).buffers()[1]
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers)


def decode_latin_1(texts: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Decode ISO 8859-1 text, which has a character for each byte: strings [n] → binary [n].

    UTF-8 has two bytes for characters from 128 to 255, of which the first is 0xC2 or 0xC3.
    Four texts, of which the last has a character beyond 255::

        texts       ["a", "ÿ", null, "€"]
        utf-8       61 | C3 BF | | E2 82 AC
        bytes       [61, FF, null, null]
        has_failed  [F, F, F, T]

    Returns:
        The bytes, null where the text is null or has a character beyond 255. The mask of the texts
        with such a character, bool [n]; None if there are none.
    """
    data, offsets = own_bytes(texts)
    wide_byte_positions = np.flatnonzero(data > 0xC3)
    if len(wide_byte_positions):
        indices = np.searchsorted(offsets, wide_byte_positions, side="right") - 1
        has_failed: Bools = np.zeros(len(texts), np.bool_)
        has_failed[indices] = True
        return decode_latin_1(null_where(texts, has_failed))[0], has_failed
    is_second = data & 0xC0 == 0x80
    if not is_second.any():
        return texts.cast(pa.binary()), None
    values = data.copy()
    second_positions = np.flatnonzero(is_second)
    values[second_positions] |= (data[second_positions - 1] & 3) << 6
    is_first = data >= 0xC2
    first_counts = np.concatenate([[0], np.cumsum(is_first, dtype=np.int32)])
    new_offsets = (offsets - first_counts[offsets]).astype(np.int32)
    validity = pa.array(valid_of(texts)).buffers()[1] if texts.null_count else None
    buffers = [validity, pa.py_buffer(new_offsets), pa.py_buffer(values[~is_first])]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers), None
