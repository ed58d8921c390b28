"""Converts MongoDB's extended JSON to plain JSON, many documents at once.

The usual kinds of values are replaced in the texts of many documents at once. A text of JSON has an
object such as ``{"$oid": "…"}`` only where it means one: within a string its quotes are escaped.
Arrays become strings of JSON, also together::

    {"_id": "5f", "tags": ["a", "b"]}  →  {"_id": "5f", "tags": "[\\"a\\",\\"b\\"]"}

Other documents are converted one by one: with other kinds, with documents within, or with a value
that its column does not expect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Bytes, Int64s, bytes_of, offsets_of, own_bytes, valid_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.json_lines import parse_objects
from stream_app.cdc.debezium.bson.extended_json import MongoKind, converted, mongo_kind_of
from stream_app.cdc.debezium.bson.typed_values import TypedColumn, typed_value, unusual_documents
from stream_app.cdc.json_message import JsonNumber, json_text, load_document, with_values

_KINDS = (
    ('"$oid"', r'\{\s*"\$oid"\s*:\s*("[0-9a-f]{24}")\s*\}'),
    ('"$numberLong"', r'\{\s*"\$numberLong"\s*:\s*"(0|-?[1-9][0-9]{0,17})"\s*\}'),
    ('"$numberInt"', r'\{\s*"\$numberInt"\s*:\s*"(0|-?[1-9][0-9]{0,17})"\s*\}'),
    # A date stands behind the numbers, because a date may hold `$numberLong`.
    ('"$date"', r'\{\s*"\$date"\s*:\s*(0|-?[1-9][0-9]{0,17})\s*\}'),
)
"""Kind by kind: a mark of its texts, and an expression whose group replaces the match."""
_FRACTION = r'([^\\]"\s*:\s*)(-?[0-9]+(?:[.][0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))(\s*[,}])'
"""A field with such a number. In a string every quote has a backslash, so no string matches."""
NO_COLUMNS: Mapping[str, TypedColumn] = {}
"""The typed columns of a table that has none: a STRING column takes every value."""
_DEPTH_MAX = 8
_SPACE = np.uint8(ord(" "))
_QUOTE, _BLANK, _BACKSLASH, _STRANGE = range(1, 5)
_BYTE_KINDS = np.zeros(256, np.uint8)
"""The kind of each byte within an array. `_STRANGE` ones begin a document, or NaN and Infinity,
which JSON lacks; 0 is any other byte."""
_BYTE_KINDS[list(b'"')] = _QUOTE
_BYTE_KINDS[list(b" \t\r\n")] = _BLANK
_BYTE_KINDS[list(b"\\")] = _BACKSLASH
_BYTE_KINDS[list(b"{}NI")] = _STRANGE
_STEPS = np.zeros(256, np.int8)
"""The change of the nesting depth at each byte: 1 opens a level, -1 closes one."""
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_ANY_FIELD = pa.schema([("field", pa.string())])


def plain_documents(
    texts: pa.Array, columns: Mapping[str, TypedColumn] = NO_COLUMNS
) -> tuple[pa.Array, Bools]:
    """Return plain JSON of many texts, as `plain_document` does, and the mask of unreadable ones.

    Args:
        texts: strings [n] of extended JSON; null stays null.
        columns: the table's columns that are not STRING, by name.
    """
    extended, is_unusual = texts, unusual_documents(texts, columns)
    for mark, pattern in _KINDS:
        if _may_contain(texts, mark):
            texts = pc.replace_substring_regex(texts, pattern, r"\1")
    if _has_fractions(texts):
        texts = pc.replace_substring_regex(texts, _FRACTION, r'\1"\2"\3')
    is_unconverted = _with_brackets(texts) & ~is_unusual
    if is_unconverted.any():
        flat, is_flat = arrays_as_texts(texts.filter(pa.array(is_unconverted)))
        texts = pc.replace_with_mask(texts, pa.array(is_unconverted), flat)
        is_unconverted[is_unconverted] = ~is_flat
    is_unconverted |= is_unusual
    if not is_unconverted.any():
        return texts, is_unconverted
    converted_texts: list[str | None] = []
    for text in extended.filter(
        pa.array(is_unconverted)
    ).to_pylist():  # a loop over documents with others within
        try:
            converted_texts.append(plain_document(text, columns))
        except UnreadableRecordError:
            converted_texts.append(None)
    converted_array = pa.array(converted_texts, pa.string())
    is_unreadable = is_unconverted.copy()
    is_unreadable[is_unconverted] = ~valid_of(converted_array)
    return pc.replace_with_mask(texts, pa.array(is_unconverted), converted_array), is_unreadable


def _has_fractions(texts: pa.Array) -> bool:
    """Return whether any of the texts may have a number with a fraction or an exponent."""
    data = bytes_of(texts)
    before, mark, behind = data[:-2], data[1:-1], data[2:]
    is_mark = (mark == ord(".")) | (mark | 32 == ord("e"))
    return bool((is_mark & (before - ord("0") < 10) & (behind != ord('"'))).any())


def _with_brackets(texts: pa.Array) -> Bools:
    """Return the mask of texts with more than one opening bracket: bool [n]."""
    offsets, data = offsets_of(texts), bytes_of(texts)
    openings = np.flatnonzero(data[: offsets[-1]] | 32 == ord("{"))
    counts = np.diff(np.searchsorted(openings, offsets))
    has_several: Bools = (counts > 1) & valid_of(texts)
    return has_several


def _may_contain(texts: pa.Array, mark: str) -> bool:
    """Return whether any text may contain a mark; ten times faster than a search in each text."""
    data = texts.buffers()[2]
    return data is not None and data.to_pybytes().find(mark.encode()) >= 0


def plain_document(text: str, columns: Mapping[str, TypedColumn] = NO_COLUMNS) -> str:
    """Return the plain JSON of one text. A nested value becomes a string of JSON.

    A number with a fraction is a string too: only so its digits stay as they are. A field that
    stands twice stays so, because only the reader of the row knows its columns.

    Raises:
        UnreadableRecordError: the text is not extended JSON, or a value has no meaning in its
            column.
    """
    document = load_document(text.encode())
    if not isinstance(document, dict) or mongo_kind_of(document) is not MongoKind.NESTED:
        raise UnreadableRecordError("is not a document")

    def plain(name: str, value: Any) -> Any:
        is_typed = name in columns
        return _flatten(typed_value(value, columns[name]) if is_typed else converted(value))

    return json_text(with_values(document, plain))


def _flatten(value: Any) -> Any:
    is_fraction = isinstance(value, JsonNumber) and not value.removeprefix("-").isdecimal()
    return json_text(value) if is_fraction or isinstance(value, dict | list) else value


def arrays_as_texts(texts: pa.Array) -> tuple[pa.Array, Bools]:
    """Return the documents with their arrays as texts, and the mask of those that were converted.

    A document, and what is known of each of its bytes::

        text        {"t":["a", 1]}
        in_string   .TT...TT......    from a quote on, until the one that ends the string
        depth       11111222222210
        within      .....TTTTTTTT.    an array of the document, with its end
        written     {"t":"[\\"a\\",1]"}

    Args:
        texts: strings [n] of plain JSON, neither null nor empty.

    Returns:
        Strings [n], arbitrary where it is not done; bool [n].
    """
    data, offsets = own_bytes(texts)
    kinds = _BYTE_KINDS[data]
    starts, lasts = offsets[:-1], offsets[1:] - 1
    is_quote = kinds == _QUOTE
    in_string = np.logical_xor.accumulate(is_quote)
    ends_in_string = in_string[lasts[:-1]]
    if ends_in_string.any():  # each text begins outside of strings
        in_string ^= np.repeat(np.concatenate([[False], ends_in_string]), np.diff(offsets))
    step = np.where(in_string, np.int8(0), _STEPS[data])
    depth = np.cumsum(step, dtype=np.int32)
    end_depths = depth[lasts[:-1]]
    if end_depths.any():
        depth -= np.repeat(np.concatenate([[0], end_depths]), np.diff(offsets)).astype(np.int32)
    is_within = (depth >= 2) | ((depth == 1) & (step < 0))
    is_outside_string = is_within & ~in_string  # neither in a string, nor its first quote
    is_strange = is_outside_string & (kinds == _STRANGE)
    is_strange |= (kinds == _BACKSLASH) | (depth > _DEPTH_MAX)
    is_last = np.zeros(len(data), np.bool_)
    is_last[lasts] = True
    is_strange |= (depth <= 0) != is_last  # one object, and nothing around it
    is_flat: Bools = ~np.logical_or.reduceat(is_strange, starts)
    is_blank = is_outside_string & (kinds == _BLANK)
    is_end = (step < 0) & (depth == 1)
    # With its blanks: without them 1 2 would be a number.
    is_rewritten = is_within & np.repeat(is_flat, np.diff(offsets))
    if not _are_json(
        np.where(is_blank, _SPACE, data)[is_rewritten],
        np.cumsum(is_rewritten)[is_end & is_rewritten],
    ):
        return texts, np.zeros(len(texts), np.bool_)
    begins = np.flatnonzero(is_rewritten & (step > 0) & (depth == 2))
    quotes, ends = (
        np.flatnonzero(is_rewritten & is_quote),
        np.flatnonzero(is_rewritten & is_end) + 1,
    )
    positions = np.concatenate([begins, quotes, ends])
    order = np.argsort(positions, kind="stable")
    added = np.repeat(np.frombuffer(b'"\\"', np.uint8), [len(begins), len(quotes), len(ends)])
    # Of each byte, how many are left in front of it.
    kept_before = np.concatenate([[0], np.cumsum(~is_blank)])
    rewritten, bounds = data[~is_blank], kept_before[offsets]
    bounds = bounds + np.searchsorted(positions[order], offsets)
    rewritten = np.insert(rewritten, kept_before[positions[order]], added[order])
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(rewritten)]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers), is_flat


def _are_json(arrays: Bytes, ends: Int64s) -> bool:
    """Return whether concatenated arrays are all valid JSON, by parsing them."""
    bounds = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(arrays)]
    values = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
    fields = pc.binary_join_element_wise(b'{"":', values, b"}", b"")
    return len(ends) == 0 or parse_objects(fields, _ANY_FIELD) is not None
