"""The decoder keeps messages from Arrow's parser whose numbers Arrow would read wrongly."""

import random
import re

import pyarrow as pa
import pytest

from stream_app.cdc.columns.json_lines import may_be_misread


@pytest.mark.parametrize(
    ("text", "is_fine"),
    [
        (b'{"a":1e-9}', False),
        (b'{"a":1e-10}', True),
        (b'{"a":1E-1000000000}', True),
        (b'{"a":"1e-10"}', True),
        (b'{"a":"1e-10-4bee"}', False),  # of a UUID
        (b'{"a":0.' + b"0" * 29 + b"}", False),
        (b'{"a":0.' + b"0" * 30 + b"}", True),
        (b'{"a":"1\\u00652"}', True),
        (b'{"a":"1\\u002e5"}', True),
        (b'{"a":"\\u00e9"}', False),
        (b'{"a":"2026-01-01"}', False),
        (b'{"a":NaN}', True),
        (b'{"a":[1, -Infinity]}', True),
        (b'{"a":Inf}', True),
        (b'{"a":"NaN","b":"-Infinity","c":"Nan, Info"}', False),
        (b"", False),
        (b"e-10", False),
        (b"-", False),
    ],
)
def test_numbers_that_arrow_would_misread(text: bytes, is_fine: bool) -> None:
    beside = b'{"b":1}'
    misread = may_be_misread(pa.array([beside, text, beside], pa.binary()), has_decimals=True)
    assert misread.tolist() == [False, is_fine, False]


def test_a_slice_of_many_texts_is_searched_as_by_a_regular_expression() -> None:
    expression = re.compile(
        rb'[eE]-[0-9]{2,}["\s,}\]]|[.][0-9]{30}|\\u00(2[bdeBDE]|3[0-9]|[46]5)'
        rb"|[:,\[\s]-?(NaN|Inf(inity)?)[\s,}\]]"
    )
    rng = random.Random(7)
    pieces = [
        b"e-",
        b"12",
        b"}",
        b".",
        b"0" * 29,
        b"\\u00",
        b"65",
        b'"',
        b"E-1",
        b",",
        "ü".encode(),
        b":",
        b"NaN",
        b"-Inf",
        b"inity",
    ]
    texts = [b"".join(rng.choices(pieces, k=rng.randrange(9))) for _ in range(2000)]
    array = pa.array(texts, pa.binary())
    for start, count in [(0, 2000), (3, 500), (1999, 1), (5, 0)]:
        expected = [expression.search(text) is not None for text in texts[start : start + count]]
        assert may_be_misread(array.slice(start, count), has_decimals=True).tolist() == expected
    assert any(map(expression.search, texts))
