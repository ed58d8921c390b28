"""Converts MongoDB's extended JSON to plain JSON, many documents at once.

1. The usual kinds of values are replaced in the texts of many documents at once. An object such as
   ``{"$oid": "…"}`` in such a text is always a value: within a string its quotes are escaped.
2. Arrays become strings of JSON, also together (`array_texts`)::

       {"_id": "5f", "tags": ["a", "b"]}  →  {"_id": "5f", "tags": "[\\"a\\",\\"b\\"]"}

3. Documents with other kinds, with documents within, or with a value that its column does not
   expect are converted one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, bytes_of, offsets_of, valid_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.debezium.bson.array_texts import arrays_as_texts
from stream_app.cdc.debezium.bson.extended_json import MongoKind, mongo_kind_of, plain_value
from stream_app.cdc.debezium.bson.typed_values import TypedColumn, is_unusual_document, typed_value
from stream_app.cdc.json_message import JsonNumber, json_text, load_document, with_values

_USUAL_KINDS = (
    ('"$oid"', r'\{\s*"\$oid"\s*:\s*("[0-9a-f]{24}")\s*\}'),
    ('"$numberLong"', r'\{\s*"\$numberLong"\s*:\s*"(0|-?[1-9][0-9]{0,17})"\s*\}'),
    ('"$numberInt"', r'\{\s*"\$numberInt"\s*:\s*"(0|-?[1-9][0-9]{0,17})"\s*\}'),
    # A date comes after the numbers, because a date may hold `$numberLong`.
    ('"$date"', r'\{\s*"\$date"\s*:\s*(0|-?[1-9][0-9]{0,17})\s*\}'),
)
"""For each kind a mark of its texts, and an expression whose group replaces the match."""
_FRACTION = r'([^\\]"\s*:\s*)(-?[0-9]+(?:[.][0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))(\s*[,}])'
"""A field whose number has a fraction or an exponent. In a string every quote has a backslash, so
no string matches."""
NO_COLUMNS: Mapping[str, TypedColumn] = {}
"""The typed columns of a table that has none: a STRING column takes every value."""


def plain_documents(
    texts: pa.Array, typed_columns: Mapping[str, TypedColumn] = NO_COLUMNS
) -> tuple[pa.Array, Bools]:
    """Return plain JSON of many texts, as `plain_document` does, and the mask of unreadable ones.

    Args:
        texts: strings [n] of extended JSON; null stays null.
        typed_columns: the table's columns that are not STRING, by name.
    """
    extended_texts = texts
    is_unusual = is_unusual_document(texts, typed_columns)
    for mark, pattern in _USUAL_KINDS:  # step 1
        if _may_contain(texts, mark):
            texts = pc.replace_substring_regex(texts, pattern, r"\1")
    if _has_fractions(texts):
        texts = pc.replace_substring_regex(texts, _FRACTION, r'\1"\2"\3')
    is_unconverted = _have_inner_brackets(texts) & ~is_unusual
    if is_unconverted.any():  # step 2
        flat_texts, is_flat = arrays_as_texts(texts.filter(pa.array(is_unconverted)))
        texts = pc.replace_with_mask(texts, pa.array(is_unconverted), flat_texts)
        is_unconverted[is_unconverted] = ~is_flat
    is_unconverted |= is_unusual
    if not is_unconverted.any():
        return texts, is_unconverted
    single_texts: list[str | None] = []
    # step 3: a loop over documents with others within.
    for text in extended_texts.filter(pa.array(is_unconverted)).to_pylist():
        try:
            single_texts.append(plain_document(text, typed_columns))
        except UnreadableRecordError:
            single_texts.append(None)
    plain_texts = pa.array(single_texts, pa.string())
    is_unreadable = is_unconverted.copy()
    is_unreadable[is_unconverted] = ~valid_of(plain_texts)
    return pc.replace_with_mask(texts, pa.array(is_unconverted), plain_texts), is_unreadable


def _has_fractions(texts: pa.Array) -> bool:
    """Return whether any of the texts may have a number with a fraction or an exponent."""
    data = bytes_of(texts)
    left, middle, right = data[:-2], data[1:-1], data[2:]
    is_mark = (middle == ord(".")) | (middle | 32 == ord("e"))
    return bool((is_mark & (left - ord("0") < 10) & (right != ord('"'))).any())


def _have_inner_brackets(texts: pa.Array) -> Bools:
    """Return the mask of texts with more than one opening bracket: bool [n]."""
    offsets, data = offsets_of(texts), bytes_of(texts)
    opening_positions = np.flatnonzero(data[: offsets[-1]] | 32 == ord("{"))
    counts = np.diff(np.searchsorted(opening_positions, offsets))
    has_several: Bools = (counts > 1) & valid_of(texts)
    return has_several


def _may_contain(texts: pa.Array, mark: str) -> bool:
    """Return whether any text may contain a mark; ten times faster than a search in each text."""
    data = texts.buffers()[2]
    return data is not None and data.to_pybytes().find(mark.encode()) >= 0


def plain_document(text: str, typed_columns: Mapping[str, TypedColumn] = NO_COLUMNS) -> str:
    """Return the plain JSON of one text. A nested value becomes a string of JSON.

    A number with a fraction becomes a string too, which keeps its digits. A repeated field stays
    repeated, because only the reader of the row knows the columns.

    Raises:
        UnreadableRecordError: the text is not extended JSON, or a value has no meaning in its
            column.
    """
    document = load_document(text.encode())
    if not isinstance(document, dict) or mongo_kind_of(document) is not MongoKind.NESTED:
        raise UnreadableRecordError("is not a document")

    def plain(name: str, value: Any) -> Any:
        is_typed = name in typed_columns
        return _flatten(typed_value(value, typed_columns[name]) if is_typed else plain_value(value))

    return json_text(with_values(document, plain))


def _flatten(value: Any) -> Any:
    is_fraction = isinstance(value, JsonNumber) and not value.removeprefix("-").isdecimal()
    return json_text(value) if is_fraction or isinstance(value, dict | list) else value
