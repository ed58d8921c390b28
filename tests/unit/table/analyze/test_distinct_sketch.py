"""Distinct values are counted exactly while few, and within the promised error beyond."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from stream_app.model.schema.data_type import parse_data_type
from stream_app.table.analyze.distinct_sketch import HASHES_MAX, DistinctSketch

ERROR_MAX = 5 / HASHES_MAX**0.5
"""Five standard errors."""


def count(data_type: str, *batches: pa.Array) -> int:
    sketch = DistinctSketch(parse_data_type(data_type))
    for batch in batches:
        sketch.add(batch)
    return sketch.count()


def test_few_values_are_counted_exactly_in_any_number_of_batches(seed: int) -> None:
    values = random.Random(seed).sample(range(10**12), HASHES_MAX - 1)
    half = pa.array(values[: len(values) // 2 + 9])
    rest = pa.array(values[len(values) // 2 :])
    assert count("BIGINT", half, rest, half) == HASHES_MAX - 1
    texts = half.cast(pa.string())
    assert count("STRING", texts, texts) == len(half)


@pytest.mark.parametrize("data_type", ["BIGINT", "INT", "STRING", "DOUBLE"])
def test_many_values_are_counted_about(data_type: str) -> None:
    arrow = {"BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string(), "DOUBLE": pa.float64()}
    batches = [
        pa.array(range(start, start + 60_000)).cast(arrow[data_type])
        for start in range(0, 900_000, 50_000)
    ]
    estimate = count(data_type, *batches)
    assert estimate != 910_000
    assert abs(estimate / 910_000 - 1) < ERROR_MAX


def test_zeros_of_both_signs_are_one_value() -> None:
    assert count("FLOAT", pa.array([0.0, -0.0], pa.float32()), pa.array([-0.0], pa.float32())) == 1
