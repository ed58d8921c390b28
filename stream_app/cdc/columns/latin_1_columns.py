"""Bytes that a source wrote as text of ISO 8859-1, a character for each byte, a column at a time.

Called by `column_cast`. UTF-8 has one byte for the characters up to 127, and two for those up to
255, of which the first is 0xC2 or 0xC3.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_app.cdc.columns.arrow_buffers import Bools, null_where, own_bytes, valid_of


def decode_latin_1(texts: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Decode a string column [n] into a binary column [n].

    Four texts, of which the last has a character beyond 255::

        texts     ["a", "ÿ", null, "€"]
        utf-8     61 | C3 BF | | E2 82 AC
        bytes     [61, FF, null, null]
        failed    [F, F, F, T]

    Returns:
        The bytes, null where the text is null or has another character. And bool [n], where it
        has; None when none has.
    """
    data, offsets = own_bytes(texts)
    beyond = np.flatnonzero(data > 0xC3)
    if len(beyond):
        rows = np.searchsorted(offsets, beyond, side="right") - 1
        failed: Bools = np.zeros(len(texts), np.bool_)
        failed[rows] = True
        return decode_latin_1(null_where(texts, failed))[0], failed
    is_second = data & 0xC0 == 0x80
    if not is_second.any():
        return texts.cast(pa.binary()), None
    values = data.copy()
    second = np.flatnonzero(is_second)
    values[second] |= (data[second - 1] & 3) << 6
    is_first = data >= 0xC2
    before = np.concatenate([[0], np.cumsum(is_first, dtype=np.int32)])
    moved = (offsets - before[offsets]).astype(np.int32)
    valid = pa.array(valid_of(texts)).buffers()[1] if texts.null_count else None
    buffers = [valid, pa.py_buffer(moved), pa.py_buffer(values[~is_first])]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers), None
