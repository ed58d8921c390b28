"""Converts the arrays in plain JSON documents to strings of JSON, many documents at once.

`plain_documents` calls it after it has replaced extended JSON. It declines documents with other
documents in them, with escaped characters, or with deep arrays; `plain_document` converts these.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Bytes, Int32s, Int64s, own_bytes
from stream_app.cdc.columns.json_lines import parse_objects

_DEPTH_MAX = 8
_SPACE = np.uint8(ord(" "))
_QUOTE, _BLANK, _BACKSLASH, _STRANGE = range(1, 5)
_BYTE_KINDS = np.zeros(256, np.uint8)
"""The kind of each byte within an array; 0 for any other byte. A `_STRANGE` byte begins a document,
or NaN and Infinity, which JSON lacks."""
_BYTE_KINDS[list(b'"')] = _QUOTE
_BYTE_KINDS[list(b" \t\r\n")] = _BLANK
_BYTE_KINDS[list(b"\\")] = _BACKSLASH
_BYTE_KINDS[list(b"{}NI")] = _STRANGE
_STEPS = np.zeros(256, np.int8)
"""The change of the nesting depth at each byte: 1 opens a level, -1 closes one."""
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_ANY_FIELD = pa.schema([("field", pa.string())])


def arrays_as_texts(texts: pa.Array) -> tuple[pa.Array, Bools]:
    """Return the documents with their arrays as texts, and the mask of those that were converted.

    1. Find the strings, and the depth of nesting.
    2. Find the arrays, and the documents that can be converted.
    3. Check that their arrays are JSON.
    4. Drop blanks, and insert a quote at both ends of each array and backslashes within it.

    A document, with a value for each of its bytes::

        text          {"t":["a", 1]}
        is_in_string  .TT...TT......    from a quote on, until the one that ends the string
        depth         11111222222210
        is_within     .....TTTTTTTT.    an array of the document, with its end
        rewritten     {"t":"[\\"a\\",1]"}

    Args:
        texts: strings [n] of plain JSON, neither null nor empty.

    Returns:
        Strings [n], arbitrary where the mask is false; bool [n].
    """
    data, offsets = own_bytes(texts)
    kinds = _BYTE_KINDS[data]
    is_in_string = _is_in_string(kinds, offsets)  # step 1
    step = np.where(is_in_string, np.int8(0), _STEPS[data])
    depth = _depth(step, offsets)
    is_within = (depth >= 2) | ((depth == 1) & (step < 0))  # step 2
    is_outside_string = is_within & ~is_in_string  # neither in a string, nor its first quote
    is_strange = is_outside_string & (kinds == _STRANGE)
    is_strange |= (kinds == _BACKSLASH) | (depth > _DEPTH_MAX)
    is_last = np.zeros(len(data), np.bool_)
    is_last[offsets[1:] - 1] = True
    is_strange |= (depth <= 0) != is_last  # one object, and nothing around it
    is_flat: Bools = ~np.logical_or.reduceat(is_strange, offsets[:-1])
    is_rewritten = is_within & np.repeat(is_flat, np.diff(offsets))
    is_blank = is_outside_string & (kinds == _BLANK)
    is_end = is_rewritten & (step < 0) & (depth == 1)
    # The check is of arrays with their blanks, because 1 2 without its blank would be a number.
    arrays = np.where(is_blank, _SPACE, data)[is_rewritten]
    if not _are_json(arrays, np.cumsum(is_rewritten)[is_end]):  # step 3
        return texts, np.zeros(len(texts), np.bool_)
    is_start = is_rewritten & (step > 0) & (depth == 2)
    is_quote = is_rewritten & (kinds == _QUOTE)
    return _quote_arrays(data, offsets, (is_start, is_quote, is_end), is_blank), is_flat  # step 4


def _is_in_string(kinds: Bytes, offsets: Int64s) -> Bools:
    """Mark the bytes of strings, from a quote on, until the one that ends the string."""
    is_in_string: Bools = np.logical_xor.accumulate(kinds == _QUOTE)
    ends_in_string = is_in_string[offsets[1:-1] - 1]
    if ends_in_string.any():  # each text begins outside of strings
        is_in_string ^= np.repeat(np.concatenate([[False], ends_in_string]), np.diff(offsets))
    return is_in_string


def _depth(step: npt.NDArray[np.int8], offsets: Int64s) -> Int32s:
    """Return the depth of nesting after each byte; each text begins at depth 0."""
    depth = np.cumsum(step, dtype=np.int32)
    end_depths = depth[offsets[1:-1] - 1]
    if end_depths.any():
        depth -= np.repeat(np.concatenate([[0], end_depths]), np.diff(offsets)).astype(np.int32)
    return depth


def _quote_arrays(
    data: Bytes, offsets: Int64s, marks: tuple[Bools, Bools, Bools], is_blank: Bools
) -> pa.Array:
    """Return the texts without blanks, and with arrays as strings.

    Args:
        marks: the first byte of each array, the quotes in arrays, and the last byte of each array.
    """
    starts, quotes, lasts = map(np.flatnonzero, marks)
    positions = np.concatenate([starts, quotes, lasts + 1])
    order = np.argsort(positions, kind="stable")
    added_bytes = np.repeat(
        np.frombuffer(b'"\\"', np.uint8), [len(starts), len(quotes), len(lasts)]
    )
    # The number of bytes before each byte that are not blanks.
    position_without_blanks = np.concatenate([[0], np.cumsum(~is_blank)])
    bounds = position_without_blanks[offsets] + np.searchsorted(positions[order], offsets)
    rewritten_bytes = np.insert(
        data[~is_blank], position_without_blanks[positions[order]], added_bytes[order]
    )
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(rewritten_bytes)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def _are_json(arrays: Bytes, ends: Int64s) -> bool:
    """Return whether concatenated arrays are all valid JSON, by parsing them."""
    bounds = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(arrays)]
    values = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    fields = pc.binary_join_element_wise(b'{"":', values, b"}", b"")
    return len(ends) == 0 or parse_objects(fields, _ANY_FIELD) is not None
