"""Rows are ordered by key and age, whatever the types of the key."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.mergetree.key_value_batch import (
    PACKED_BITS_MAX,
    KeyValueLayout,
    merge_order,
    retract_mask,
    rows_at,
)
from tests.support.tables.lsm_files import a_layout

ONE = a_layout("k BIGINT NOT NULL", "k")
TWO = a_layout("a INT NOT NULL, b BIGINT NOT NULL", "a", "b")
BIGINT = st.integers(-(2**63), 2**63 - 1)


def order_of(layout: Any, keys: list[tuple[int, ...]], sequence: list[int]) -> list[int]:
    columns = [pa.array(sequence, pa.int64()), pa.array([0] * len(keys), pa.int8())]
    for index, name in enumerate(layout.key_names):
        columns.append(pa.array([key[index] for key in keys], layout.schema.field(name).type))
    batch = pa.RecordBatch.from_arrays(columns, schema=layout.schema)
    return [int(index) for index in merge_order(batch, layout)[0]]


def expected_order(keys: list[tuple[int, ...]], sequence: list[int]) -> list[int]:
    return sorted(range(len(keys)), key=lambda row: (keys[row], sequence[row]))


@pytest.mark.parametrize("bits_beyond", [-1, 0, 1])
@pytest.mark.parametrize("count", [1, 2, 8, 9])
def test_keys_that_just_fit_into_one_integer(count: int, bits_beyond: int) -> None:
    row_bits = (count - 1).bit_length()
    width = min(PACKED_BITS_MAX - row_bits + bits_beyond, 64)
    least = -(2 ** (width - 1))
    first = [least + 2**width - 1, least, 0, -1]
    keys: list[tuple[int, ...]] = [(key,) for key in [*first[:count], *[7] * (count - 4)]]
    sequence = list(range(count))
    assert order_of(ONE, keys, sequence) == expected_order(keys, sequence)


@given(keys=st.lists(st.tuples(st.sampled_from([-1, 0, 5]) | BIGINT)), data=st.data())
def test_order_is_that_of_python(keys: list[tuple[int, ...]], data: st.DataObject) -> None:
    sequence = data.draw(st.permutations(range(len(keys))))
    assert order_of(ONE, keys, sequence) == expected_order(keys, sequence)


@given(
    keys=st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1) | st.just(1), BIGINT | st.just(1))),
    data=st.data(),
)
def test_order_of_two_columns(keys: list[tuple[int, ...]], data: st.DataObject) -> None:
    sequence = data.draw(st.permutations(range(len(keys))))
    assert order_of(TWO, keys, sequence) == expected_order(keys, sequence)


def test_retracts_are_update_before_and_delete() -> None:
    columns = [pa.array([1, 2, 3, 4]), pa.array([0, 1, 2, 3], pa.int8()), pa.array([1, 2, 3, 4])]
    batch = pa.RecordBatch.from_arrays(columns, schema=ONE.schema)
    assert retract_mask(batch).tolist() == [False, True, False, True]


FLOATS = st.one_of(
    st.none(), st.floats(width=32), st.sampled_from([0.0, -0.0, float("nan"), float("inf")])
)


def as_java_compares(value: float | None) -> tuple[int, int, float, int]:
    """`Double.compare`: -0.0 before 0.0, NaN behind all; a null is the oldest."""
    if value is None:
        return 0, 0, 0.0, 0
    if math.isnan(value):
        return 1, 1, 0.0, 0
    return 1, 0, value, 0 if math.copysign(1, value) < 0 else 1


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
@given(values=st.lists(FLOATS, max_size=12))
def test_floating_sequence_fields(kind: str, values: list[float | None]) -> None:
    """The later one of two NaN, as of all equal values, is newer."""
    layout = a_layout(f"k INT NOT NULL, s {kind}", "k", sequence_fields=("s",))
    columns = [range(len(values)), [0] * len(values), [1] * len(values), values]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(column, field.type)
            for column, field in zip(columns, layout.schema, strict=True)
        ],
        schema=layout.schema,
    )
    ascending = sorted(range(len(values)), key=lambda row: (as_java_compares(values[row]), row))
    assert merge_order(batch, layout)[0].tolist() == ascending
    # The other way round nulls stay the oldest.
    ranks = sorted({as_java_compares(value) for value in values}, reverse=True)
    ranks.sort(key=lambda rank: rank[0])
    places = [(ranks.index(as_java_compares(value)), row) for row, value in enumerate(values)]
    descending = merge_order(batch, replace(layout, is_sequence_descending=True))[0].tolist()
    assert descending == [row for _, row in sorted(places)]


@pytest.mark.parametrize("order", [[], [2], [2, 0], [3, 2, 1, 0], None])
def test_a_partition_column_needs_no_order(order: list[int] | None) -> None:
    values = {"id": [4, 3, 2, 1], "dt": ["d"] * 4, "v": ["a", None, "c", "d"]}
    batch = pa.RecordBatch.from_pydict(values).slice(0, 4)
    layout = KeyValueLayout(batch.schema, ("id",), constant_names=frozenset({"dt"}))
    indices = None if order is None else np.array(order, np.int64)
    assert layout.rows_at(batch, indices).equals(rows_at(batch, indices))
