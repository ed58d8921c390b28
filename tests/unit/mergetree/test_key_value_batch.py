"""Rows are ordered by key and age, whatever the types of the key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.mergetree.key_value_batch import PACKED_BITS_MAX, is_retract, key_order
from tests.support.lsm_files import a_layout

ONE = a_layout("k BIGINT NOT NULL", "k")
TWO = a_layout("a INT NOT NULL, b BIGINT NOT NULL", "a", "b")
BIGINT = st.integers(-(2**63), 2**63 - 1)


def order_of(layout: Any, keys: list[tuple[int, ...]], sequence: list[int]) -> list[int]:
    columns = [pa.array(sequence, pa.int64()), pa.array([0] * len(keys), pa.int8())]
    for index, name in enumerate(layout.key_names):
        columns.append(pa.array([key[index] for key in keys], layout.schema.field(name).type))
    batch = pa.RecordBatch.from_arrays(columns, schema=layout.schema)
    return [int(index) for index in key_order(batch, layout)[0]]


def expected(keys: list[tuple[int, ...]], sequence: list[int]) -> list[int]:
    return sorted(range(len(keys)), key=lambda row: (keys[row], sequence[row]))


@pytest.mark.parametrize("bits_beyond", [-1, 0, 1])
@pytest.mark.parametrize("count", [1, 2, 8, 9])
def test_keys_that_just_fit_into_one_integer(count: int, bits_beyond: int) -> None:
    row_bits = (count - 1).bit_length()
    width = min(PACKED_BITS_MAX - row_bits + bits_beyond, 64)
    least = -(2 ** (width - 1))
    keys = [(least + 2**width - 1,), (least,), (0,), (-1,)][:count] + [(7,)] * (count - 4)
    sequence = list(range(count))
    assert order_of(ONE, keys, sequence) == expected(keys, sequence)


@given(keys=st.lists(st.tuples(st.sampled_from([-1, 0, 5]) | BIGINT)), data=st.data())
def test_order_is_that_of_python(keys: list[tuple[int, ...]], data: st.DataObject) -> None:
    sequence = data.draw(st.permutations(range(len(keys))))
    assert order_of(ONE, keys, sequence) == expected(keys, sequence)


@given(
    keys=st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1) | st.just(1), BIGINT | st.just(1))),
    data=st.data(),
)
def test_order_of_two_columns(keys: list[tuple[int, ...]], data: st.DataObject) -> None:
    sequence = data.draw(st.permutations(range(len(keys))))
    assert order_of(TWO, keys, sequence) == expected(keys, sequence)


def test_retracts_are_update_before_and_delete() -> None:
    columns = [pa.array([1, 2, 3, 4]), pa.array([0, 1, 2, 3], pa.int8()), pa.array([1, 2, 3, 4])]
    batch = pa.RecordBatch.from_arrays(columns, schema=ONE.schema)
    assert is_retract(batch).tolist() == [False, True, False, True]
