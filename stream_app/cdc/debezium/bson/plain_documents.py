"""Documents of MongoDB as extended JSON → plain JSON, many texts together.

The usual kinds of values are replaced in the texts of many documents at once. A text of JSON has an
object such as ``{"$oid": "…"}`` only where it means one: within a string its quotes are escaped.
Documents with other kinds are converted one by one, as are those with documents within, and those
with a value that its column does not expect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.alike.documents import JsonNumber, json_text, load_document
from stream_app.cdc.columns.arrow_buffers import Bools, bytes_of, offsets_of, valid_of
from stream_app.cdc.debezium.bson.extended_json import converted
from stream_app.cdc.debezium.bson.nested_arrays import arrays_as_texts
from stream_app.cdc.debezium.bson.typed_values import TypedColumn, typed_value, unusual_documents
from stream_app.cdc.record_images import UnreadableRecordError

_KINDS = (
    ('"$oid"', r'\{\s*"\$oid"\s*:\s*("[0-9a-f]{24}")\s*\}'),
    ('"$numberLong"', r'\{\s*"\$numberLong"\s*:\s*"(-?(?:0|[1-9][0-9]*))"\s*\}'),
    ('"$numberInt"', r'\{\s*"\$numberInt"\s*:\s*"(-?(?:0|[1-9][0-9]*))"\s*\}'),
    # Behind the numbers: a date may have one.
    ('"$date"', r'\{\s*"\$date"\s*:\s*(-?[0-9]+)\s*\}'),
)
"""What a text of each kind contains, and what is replaced by its group."""
_FRACTION = r'([^\\]"\s*:\s*)(-?[0-9]+(?:[.][0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))(\s*[,}])'
"""A field with such a number. Within a string a backslash stands before the quote."""
NO_COLUMNS: Mapping[str, TypedColumn] = {}
"""Of a table whose columns are STRING, which takes every value."""


def plain_documents(
    texts: pa.Array, columns: Mapping[str, TypedColumn] = NO_COLUMNS
) -> tuple[pa.Array, Bools]:
    """Plain JSON of many texts, as `plain_document` gives it, and a mask of the unreadable ones.

    Args:
        texts: strings [n] of extended JSON; null stays null.
        columns: those of the table that are no STRING, by name.
    """
    given, alone = texts, unusual_documents(texts, columns)
    for mark, pattern in _KINDS:
        if _has(texts, mark):
            texts = pc.replace_substring_regex(texts, pattern, r"\1")
    if _has_fractions(texts):
        texts = pc.replace_substring_regex(texts, _FRACTION, r'\1"\2"\3')
    odd = _with_brackets(texts) & ~alone
    if odd.any():
        flat, done = arrays_as_texts(texts.filter(pa.array(odd)))
        texts = pc.replace_with_mask(texts, pa.array(odd), flat)
        odd[odd] = ~done
    odd |= alone
    if not odd.any():
        return texts, odd
    converted_texts: list[str | None] = []
    for text in given.filter(pa.array(odd)).to_pylist():  # a loop over documents with others within
        try:
            converted_texts.append(plain_document(text, columns))
        except UnreadableRecordError:
            converted_texts.append(None)
    plain = pa.array(converted_texts, pa.string())
    unread = odd.copy()
    unread[odd] = ~valid_of(plain)
    return pc.replace_with_mask(texts, pa.array(odd), plain), unread


def _has_fractions(texts: pa.Array) -> bool:
    """Whether any of the texts may have a number with a fraction or an exponent."""
    data = bytes_of(texts)
    before, mark, behind = data[:-2], data[1:-1], data[2:]
    is_mark = (mark == ord(".")) | (mark | 32 == ord("e"))
    return bool((is_mark & (before - ord("0") < 10) & (behind != ord('"'))).any())


def _with_brackets(texts: pa.Array) -> Bools:
    """Which texts have more than one bracket that opens: bool [n]."""
    offsets, data = offsets_of(texts), bytes_of(texts)
    openings = np.flatnonzero(data[: offsets[-1]] | 32 == ord("{"))
    counts = np.diff(np.searchsorted(openings, offsets))
    has_several: Bools = (counts > 1) & valid_of(texts)
    return has_several


def _has(texts: pa.Array, mark: str) -> bool:
    """Whether any of the texts may have a mark; ten times faster than asking each."""
    data = texts.buffers()[2]
    return data is not None and data.to_pybytes().find(mark.encode()) >= 0


def plain_document(text: str, columns: Mapping[str, TypedColumn] = NO_COLUMNS) -> str:
    """Plain JSON of one text. A nested value becomes a string of JSON.

    A number with a fraction is a string too: only so its digits stay as they are.

    Raises:
        UnreadableRecordError: it is no document of extended JSON, or has a value that means nothing
            in its column.
    """
    document = load_document(text.encode())
    if not isinstance(document, dict) or not isinstance(converted(document), dict):
        raise UnreadableRecordError("is no document")
    return json_text({name: _flat(_plain(name, one, columns)) for name, one in document.items()})


def _plain(name: str, value: Any, columns: Mapping[str, TypedColumn]) -> Any:
    return typed_value(value, columns[name]) if name in columns else converted(value)


def _flat(value: Any) -> Any:
    is_fraction = isinstance(value, JsonNumber) and not value.removeprefix("-").isdecimal()
    return json_text(value) if is_fraction or isinstance(value, dict | list) else value
