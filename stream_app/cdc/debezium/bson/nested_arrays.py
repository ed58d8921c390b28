"""Arrays in the documents of many messages → strings of JSON, without a loop over documents.

    {"_id": "5f", "tags": ["a", "b"]}  →  {"_id": "5f", "tags": "[\\"a\\",\\"b\\"]"}

Called by `extended_json` once values of the usual kinds are plain. A document with a document in a
field or in an array, or with a backslash, is left to be converted alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.columns.arrow_buffers import Bools, Bytes, Int64s, own_bytes
from stream_app.cdc.columns.json_lines import parse_objects

_DEPTH_MAX = 8
_SPACE = np.uint8(ord(" "))
_QUOTE, _BLANK, _BACKSLASH, _STRANGE = range(1, 5)
_KINDS = np.zeros(256, np.uint8)
"""Of each byte. Within arrays documents are strange, and NaN and Infinity, which JSON lacks."""
_KINDS[list(b'"')] = _QUOTE
_KINDS[list(b" \t\r\n")] = _BLANK
_KINDS[list(b"\\")] = _BACKSLASH
_KINDS[list(b"{}NI")] = _STRANGE
_STEPS = np.zeros(256, np.int8)
"""Of each byte, the levels that it opens."""
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_ANY_FIELD = pa.schema([("field", pa.string())])


def arrays_as_texts(texts: pa.Array) -> tuple[pa.Array, Bools]:
    """The documents with texts for their arrays, and a mask of the converted documents.

    Args:
        texts: strings [n] of plain JSON, neither null nor empty.

    Returns:
        Strings [n], arbitrary where it is not done; bool [n].
    """
    data, offsets = own_bytes(texts)
    kinds = _KINDS[data]
    starts, lasts = offsets[:-1], offsets[1:] - 1
    is_quote = kinds == _QUOTE
    in_string = np.logical_xor.accumulate(is_quote)
    before = in_string[lasts[:-1]]
    if before.any():  # each text begins outside of strings
        in_string ^= np.repeat(np.concatenate([[False], before]), np.diff(offsets))
    step = np.where(in_string, np.int8(0), _STEPS[data])
    depth = np.cumsum(step, dtype=np.int32)
    above = depth[lasts[:-1]]
    if above.any():
        depth -= np.repeat(np.concatenate([[0], above]), np.diff(offsets)).astype(np.int32)
    within = (depth >= 2) | ((depth == 1) & (step < 0))
    free = within & ~in_string  # neither in a string, nor its first quote
    strange = free & (kinds == _STRANGE)
    strange |= (kinds == _BACKSLASH) | (depth > _DEPTH_MAX)
    is_last = np.zeros(len(data), np.bool_)
    is_last[lasts] = True
    strange |= (depth <= 0) != is_last  # one object, and nothing around it
    done: Bools = ~np.logical_or.reduceat(strange, starts)
    is_blank = free & (kinds == _BLANK)
    is_end = (step < 0) & (depth == 1)
    # With its blanks: without them 1 2 would be a number.
    sure = within & np.repeat(done, np.diff(offsets))
    if not _are_json(np.where(is_blank, _SPACE, data)[sure], np.cumsum(sure)[is_end & sure]):
        return texts, np.zeros(len(texts), np.bool_)
    begins = np.flatnonzero(sure & (step > 0) & (depth == 2))
    quotes, ends = np.flatnonzero(sure & is_quote), np.flatnonzero(sure & is_end) + 1
    places = np.concatenate([begins, quotes, ends])
    order = np.argsort(places, kind="stable")
    added = np.repeat(np.frombuffer(b'"\\"', np.uint8), [len(begins), len(quotes), len(ends)])
    # Of each byte, how many are left in front of it.
    left = np.concatenate([[0], np.cumsum(~is_blank)])
    written, bounds = data[~is_blank], left[offsets]
    bounds = bounds + np.searchsorted(places[order], offsets)
    written = np.insert(written, left[places[order]], added[order])
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(written)]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers), done


def _are_json(arrays: Bytes, ends: Int64s) -> bool:
    """Whether arrays, one behind the other, are JSON; a parser tells."""
    bounds = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(arrays)]
    values = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    fields = pc.binary_join_element_wise(b'{"":', values, b"}", b"")
    return len(ends) == 0 or parse_objects(fields, _ANY_FIELD) is not None
