"""Hashes and buckets equal Java's, for rows of many lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.format.binary_row import encode_row
from stream_app.format.binary_row_columns import encode_columns
from stream_app.format.bucket_hash import bucket_of, hash_rows, murmur_hash, share_of
from stream_app.model.schema.data_type import parse_data_type
from tests.unit.format.vectors import arrow_column, hashed_rows, types_of, values_of

BIGINT, INT, STRING = (parse_data_type(text) for text in ("BIGINT", "INT", "STRING"))


@pytest.mark.parametrize("row", [pytest.param(row, id=row["label"]) for row in hashed_rows()])
def test_hash_and_bucket_are_those_of_java(row: dict[str, Any]) -> None:
    types = types_of(row)
    columns = [arrow_column([value], t) for value, t in zip(values_of(row), types, strict=True)]
    assert murmur_hash(bytes.fromhex(row["row_hex"])) == row["hash"]
    assert hash_rows(*encode_columns(columns, types)).tolist() == [row["hash"]]
    for bucket_count, bucket in row["bucket"].items():
        assert bucket_of(columns, types, int(bucket_count)).tolist() == [bucket]


@pytest.mark.parametrize(
    "type_text", ["INT", "BIGINT", "STRING", "DECIMAL(38,10)", "TIMESTAMP(6)", "DECIMAL(9,2)"]
)
def test_all_vectors_of_a_type_at_once(type_text: str) -> None:
    """Many rows together, over the borders of a block, hash as each alone."""
    data_type = parse_data_type(type_text)
    rows = [row for row in hashed_rows() if types_of(row) == [data_type]]
    times = 40_000 // len(rows)
    column = arrow_column([values_of(row)[0] for row in rows] * times, data_type)
    buckets = bucket_of([column], [data_type], 1000)
    assert buckets.dtype == np.int32
    assert buckets.tolist() == [row["bucket"]["1000"] for row in rows] * times


def test_rows_of_many_lengths_hash_as_each_alone() -> None:
    rng = np.random.default_rng(7)
    texts = ["x" * int(length) for length in rng.integers(0, 200, 20_000)]
    texts[100] = "y" * 5_000
    numbers = rng.integers(-(2**63), 2**63, 20_000, dtype=np.int64)
    types = [STRING, BIGINT]
    flat, offsets = encode_columns([pa.array(texts), pa.array(numbers)], types)
    hashes = hash_rows(flat, offsets)
    for index in [*range(0, 20_000, 997), 100]:
        row = encode_row([texts[index], int(numbers[index])], types)
        assert hashes[index] == murmur_hash(row)


def test_a_null_may_stand_between_values() -> None:
    column = pa.array([1, None, 2], pa.int32())
    assert bucket_of([column], [INT], 10).tolist() == [8, 4, 4]


@pytest.mark.parametrize(
    "types", [[BIGINT], [STRING], [parse_data_type("DECIMAL(20,2)")], [BIGINT, STRING]]
)
def test_no_rows_have_no_buckets(types: list[Any]) -> None:
    columns = [arrow_column([], data_type) for data_type in types]
    assert bucket_of(columns, types, 4).tolist() == []


def test_the_least_hash_has_a_bucket() -> None:
    """abs(-2^31) does not fit into 32 signed bits; Java takes the remainder first."""
    least_hash = np.array([-(2**31)], dtype=np.int32)
    assert share_of(least_hash, 1000).tolist() == [648]
