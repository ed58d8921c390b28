"""Curves through columns give positions, and words that compare as the values do."""

from __future__ import annotations

import decimal
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.format.arrow_schema import arrow_type
from stream_app.format.curve_order import hilbert_order, ordered_words, z_order
from stream_app.model.schema.data_type import parse_data_type

WORDS = st.integers(0, 2**64 - 1)
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(9, 2)": st.decimals(-9999, 9999, places=2),
    "DECIMAL(38, 0)": st.integers(-(10**37), 10**37).map(decimal.Decimal),
    "STRING": st.text(max_size=12),
    "BYTES": st.binary(max_size=12),
    "DATE": st.dates(),
    "TIMESTAMP(6)": st.integers(-(2**60), 2**60),
}


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5))
def test_bits_take_turns(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, dtype=np.uint64) for column in zip(*rows, strict=True)]
    positions = z_order(columns)
    for row, words in zip(rows, zip(*positions, strict=True), strict=True):
        bits = [f"{value:064b}" for value in row]
        turns = "".join(itertools.chain.from_iterable(zip(*bits, strict=True)))
        assert "".join(f"{int(word):064b}" for word in words) == turns


@pytest.mark.parametrize("columns", [2, 3])
def test_neighbours_on_hilberts_curve_are_neighbours(columns: int) -> None:
    """Over a grid of eight steps in each direction: the next place differs by one step in one."""
    cells = np.array(list(itertools.product(range(8), repeat=columns)), dtype=np.uint64)
    words = [cells[:, column] << np.uint64(61) for column in range(columns)]
    order = np.lexsort(hilbert_order(words)[::-1])
    steps = np.abs(np.diff(cells[order].astype(np.int64), axis=0))
    assert (steps.sum(axis=1) == 1).all()


@pytest.mark.parametrize("name", TYPES)
@settings(deadline=None)
@given(data=st.data())
def test_words_never_contradict_the_order_of_values(name: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(TYPES[name], min_size=1, max_size=20))
    data_type = parse_data_type(name)
    column = pa.array([None, *values], arrow_type(data_type))
    words = ordered_words(column, data_type).tolist()
    assert words[0] == 0
    pairs = [(value.encode() if isinstance(value, str) else value) for value in values]
    for (key, word), (other, another) in itertools.combinations(
        zip(pairs, words[1:], strict=True), 2
    ):
        if key < other:
            assert word <= another
        elif other < key:
            assert another <= word
