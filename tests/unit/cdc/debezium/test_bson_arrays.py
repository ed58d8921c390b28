"""Arrays of many documents are rewritten together as each would be alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.debezium.bson.array_texts import arrays_as_texts
from stream_app.cdc.debezium.bson.plain_documents import (
    plain_document,
    plain_documents,
)

_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=6)
_ARRAYS = st.lists(_SCALARS | st.lists(_SCALARS, max_size=3), max_size=4)
_DOCUMENTS = st.dictionaries(st.text(max_size=3), _SCALARS | _ARRAYS | st.just({"a": [1]}))
_BLANKS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :\n")])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A document; perhaps with a byte that breaks it."""
    blanks, ascii_only = draw(_BLANKS), draw(st.booleans())
    text = json.dumps(draw(_DOCUMENTS), separators=blanks, ensure_ascii=ascii_only)
    if draw(st.booleans()):
        return text
    position = draw(st.integers(0, len(text)))
    return text[:position] + draw(st.sampled_from(list('[]{}",:-.0eN \\\x01'))) + text[position:]


def parsed_alone(text: str) -> Any:
    """The document; None if the text is not a document."""
    try:
        return orjson.loads(plain_document(text))
    except UnreadableRecordError:
        return None


def parsed_document(text: str) -> Any:
    """Parse as the slower decoder does, which accepts objects alone."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


@given(st.lists(texts(), min_size=1, max_size=5))
def test_arrays_are_rewritten_together_as_alone(documents: Sequence[str]) -> None:
    plain, odd = plain_documents(pa.array(documents, pa.string()))
    for text, result, is_odd in zip(documents, plain.to_pylist(), odd.tolist(), strict=True):
        expected = parsed_alone(text)
        assert (None if is_odd else parsed_document(result)) == expected, (text, result)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [ "x y", 1.50, [ ] ], "b": 2}', r'{"a": "[\"x y\",1.50,[]]", "b": 2}'),
        ('{"a": [1, "é, ]"]}', r'{"a": "[1,\"é, ]\"]"}'),
        ('{"a": [{"b": 1}]}', None),
        (r'{"a": ["\n"]}', None),
        ('{"a": [NaN]}', None),
        ('{"a": [1]', None),
        ('{"a": "[]', None),
        ('{"a": 1}, "b": {}', None),
        ('{"a": [1]}, "b": [2]}', None),
        ('{"a": [1]} ', None),
        ('{"a": [[[[[[[[1]]]]]]]]}', None),
    ],
)
def test_the_fast_decoder_leaves_odd_arrays_to_the_slower_one(
    text: str, expected: str | None
) -> None:
    """The batch also has a document that the fast decoder reads."""
    texts, done = arrays_as_texts(pa.array([text, '{"t":[1]}']))
    assert done.tolist() == [expected is not None, True]
    assert texts[1].as_py() == '{"t":"[1]"}'
    assert expected is None or texts[0].as_py() == expected


@pytest.mark.parametrize("array", ["[1,]", "[01]", "[1 2]", "[tru]", '["\x01"]', "[+1]", "[,]"])
def test_an_array_that_is_not_json(array: str) -> None:
    plain, odd = plain_documents(pa.array([f'{{"a":{array}}}', '{"a":[1]}']))
    assert odd.tolist() == [True, False]
    assert plain[1].as_py() == '{"a":"[1]"}'
