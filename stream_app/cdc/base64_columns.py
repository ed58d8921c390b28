"""Base64 and hexadecimal text → bytes, a whole column at a time.

Called by `column_cast`. All values of a column lie one after the other in one buffer, and each
base64 value is a whole number of groups of four characters, so the buffer is decoded in one go
and only the padding is cut out afterwards.

Source: RFC 4648 sections 4, 5 and 8. Padding is required; the unused bits of the last character
are ignored, as Java's decoder does.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_app.cdc.arrow_buffers import (
    Bools,
    Bytes,
    Int32s,
    bytes_of,
    lengths_of,
    null_where,
    offsets_of,
    valid_of,
)

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_PAD = 64
_INVALID = 255


def _lookup(alphabet: bytes) -> Bytes:
    table = np.full(256, _INVALID, np.uint8)
    table[np.frombuffer(alphabet, np.uint8)] = np.arange(len(alphabet), dtype=np.uint8)
    return table


_STANDARD = _lookup(_ALPHABET + b"+/")
_STANDARD[ord("=")] = _PAD
_URL_SAFE = _lookup(_ALPHABET + b"-_")
_URL_SAFE[ord("=")] = _PAD
_HEX = _lookup(b"0123456789abcdef")
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16, dtype=np.uint8)


def decode_base64(texts: pa.Array, *, url_safe: bool = False) -> tuple[pa.Array, Bools | None]:
    """Decode a string column into a binary column.

    Returns:
        The bytes (null where the text is null or no base64), and where the text is no base64;
        None when all of it is.
    """
    texts, failed = _only_groups(texts, 4)
    offsets = offsets_of(texts)
    start, end = int(offsets[0]), int(offsets[-1])
    codes = (_URL_SAFE if url_safe else _STANDARD)[bytes_of(texts)[start:end]]
    ends = offsets[1:].astype(np.int64) - start
    lengths = offsets[1:] - offsets[:-1]
    filled = lengths > 0
    pads = np.zeros(len(texts), np.int32)
    pads[filled] = codes[ends[filled] - 1] == _PAD
    pads[filled] += (pads[filled] == 1) & (codes[ends[filled] - 2] == _PAD)
    bad_code = codes >= _PAD
    if int(np.count_nonzero(bad_code)) != int(pads.sum()):
        failed = _rows_with_bad_code(offsets, bad_code, pads, failed)
        texts = null_where(texts, failed)
        decoded, _ = decode_base64(texts, url_safe=url_safe)
        return decoded, failed
    codes[bad_code] = 0
    groups = codes.reshape(-1, 4)
    out = np.empty((len(groups), 3), np.uint8)
    out[:, 0] = groups[:, 0] << 2 | groups[:, 1] >> 4
    out[:, 1] = groups[:, 1] << 4 | groups[:, 2] >> 2
    out[:, 2] = groups[:, 2] << 6 | groups[:, 3]
    data = out.reshape(-1)
    if pads.any():
        keep = np.ones(len(data), np.bool_)
        ends = ends // 4 * 3
        keep[ends[pads >= 1] - 1] = False
        keep[ends[pads == 2] - 2] = False
        data = data[keep]
    return _binary(texts, (lengths // 4 * 3 - pads).astype(np.int32), data), failed


def decode_hex(texts: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Decode hexadecimal text, of either case; returns as `decode_base64` does."""
    texts, failed = _only_groups(texts, 2)
    offsets = offsets_of(texts)
    codes = _HEX[bytes_of(texts)[int(offsets[0]) : int(offsets[-1])]]
    bad_code = codes == _INVALID
    if bad_code.any():
        failed = _rows_with_bad_code(offsets, bad_code, None, failed)
        decoded, _ = decode_hex(null_where(texts, failed))
        return decoded, failed
    pairs = codes.reshape(-1, 2)
    data: Bytes = (pairs[:, 0] << 4 | pairs[:, 1]).astype(np.uint8)
    lengths: Int32s = (offsets[1:] - offsets[:-1]) // np.int32(2)
    return _binary(texts, lengths, data), failed


def _only_groups(texts: pa.Array, size: int) -> tuple[pa.Array, Bools | None]:
    """Null out what is no whole number of groups."""
    lengths, valid = lengths_of(texts), valid_of(texts)
    ragged: Bools = lengths % size != 0
    if texts.null_count:
        ragged |= (lengths > 0) & ~valid  # bytes under a null must go too
    if not ragged.any():
        return texts, None
    failed: Bools = ragged & valid
    return null_where(texts, ragged), failed if failed.any() else None


def _rows_with_bad_code(
    offsets: Int32s, bad_code: Bools, pads: Int32s | None, failed: Bools | None
) -> Bools:
    sums = np.concatenate([[0], np.cumsum(bad_code)])
    bounds = offsets - offsets[0]
    found = sums[bounds[1:]] - sums[bounds[:-1]]
    wrong: Bools = found != (0 if pads is None else pads)
    return wrong if failed is None else wrong | failed


def _binary(texts: pa.Array, lengths: Int32s, data: Bytes) -> pa.Array:
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    valid = None
    if texts.null_count:
        valid = pa.array(valid_of(texts)).buffers()[1]
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers)
