"""Arrays in the documents of many messages → strings of JSON, without a loop over documents.

    {"_id": "5f", "tags": ["a", "b"]}  →  {"_id": "5f", "tags": "[\\"a\\",\\"b\\"]"}

Called by `extended_json` once values of the usual kinds are plain. A document with a document in a
field or in an array, or with a backslash, is left to be converted alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.columns.arrow_buffers import Bools, Bytes, Int64s, bytes_of, offsets_of
from stream_app.cdc.columns.json_lines import parse_objects

_DEPTH_MAX = 8
_ANY_FIELD = pa.schema([("field", pa.string())])


def arrays_as_texts(texts: pa.Array) -> tuple[pa.Array, Bools]:
    """The documents with texts for their arrays, and for which of them that is done.

    Args:
        texts: strings [n] of plain JSON, neither null nor empty.

    Returns:
        Strings [n], arbitrary where it is not done; bool [n].
    """
    offsets = offsets_of(texts).astype(np.int64)
    data = bytes_of(texts)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    is_quote = data == ord('"')
    in_string = _of_each(np.cumsum(is_quote), offsets) & 1 == 1
    opens, closes = (
        ((data == ord(square)) | (data == ord(curly))) & ~in_string
        for square, curly in ("[{", "]}")
    )
    depth = _of_each(np.cumsum(opens.astype(np.int8) - closes, dtype=np.int64), offsets)
    is_end = closes & (depth == 1)
    is_start = opens & (depth == 2)
    within = (depth >= 2) | is_end
    free = within & ~in_string  # neither in a string, nor its first quote
    # The parser takes NaN and Infinity, which JSON lacks.
    strange = free & np.isin(data, np.frombuffer(b"{}NI", np.uint8))
    strange |= (data == ord("\\")) | (depth > _DEPTH_MAX)
    lasts = offsets[1:] - 1
    is_last = np.zeros(len(data), np.bool_)
    is_last[lasts] = True
    strange |= (depth <= 0) != is_last  # one object, and nothing around it
    done: Bools = ~np.logical_or.reduceat(strange, offsets[:-1])
    is_blank = free & np.isin(data, np.frombuffer(b" \t\r\n", np.uint8))
    # With its blanks: without them 1 2 would be a number.
    sure = within & np.repeat(done, np.diff(offsets))
    lines = np.where(is_blank, np.uint8(ord(" ")), data)
    if not _are_json(lines[sure], np.cumsum(sure)[is_end & sure]):
        return texts, np.zeros(len(texts), np.bool_)
    counts = 1 - is_blank.astype(np.int64)
    counts += (within & is_quote).astype(np.int8) + is_start + is_end
    stops = np.cumsum(counts)
    written = np.repeat(data, counts)
    written[(stops - counts)[within & is_quote]] = ord("\\")
    written[(stops - counts)[is_start]] = ord('"')
    written[stops[is_end] - 1] = ord('"')
    bounds = np.concatenate([[0], stops[lasts]]).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(written)]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers), done


def _of_each(running: Int64s, offsets: Int64s) -> Int64s:
    """A running sum over the bytes of all texts, begun anew at each text."""
    before = np.concatenate([[0], running])[offsets[:-1]]
    return running - np.repeat(before, np.diff(offsets))


def _are_json(arrays: Bytes, ends: Int64s) -> bool:
    """Whether arrays, one behind the other, are JSON; a parser tells."""
    bounds = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(arrays)]
    values = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    fields = pc.binary_join_element_wise(b'{"":', values, b"}", b"")
    return len(ends) == 0 or parse_objects(fields, _ANY_FIELD) is not None
