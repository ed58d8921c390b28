"""The bucket assigner finds the partition and bucket of a row."""

# ruff: noqa: DTZ001 - a TIMESTAMP has no zone

from __future__ import annotations

import datetime
import math
from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import encode_row, python_value, serialize_row
from stream_app.format.bucket_hash import murmur_hash
from stream_app.table.write.bucket_assigner import FixedBucketAssigner
from tests.support.engines.routed_messages import a_schema

ALL_KEY_TYPES: dict[str, list[Any]] = {
    "b BOOLEAN": [True, False],
    "i INT": [0, -1, 2**31 - 1],
    "l BIGINT": [0, -(2**63), 77],
    "s STRING": ["", "seven 7", "eight  8", "zażółć gęślą jaźń"],
    "d DECIMAL(12,2)": [Decimal("0.00"), Decimal("-1.10"), Decimal("9999999999.99")],
    "e DECIMAL(30,5)": [Decimal("0.00000"), Decimal("-1.10000"), Decimal(2**80)],
    "t TIMESTAMP(6)": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    "u TIMESTAMP(3)": [datetime.datetime(2024, 2, 29, 1, 2, 3, 4000)],
    "y BYTES": [b"", bytes(7), bytes(8)],
    "a DATE": [datetime.date(1960, 1, 1), datetime.date(2024, 2, 29)],
}


@pytest.mark.parametrize("partition_keys", [(), ("s",), ("i", "a", "e")])
def test_a_row_goes_to_its_partition_and_bucket(partition_keys: tuple[str, ...], seed: int) -> None:
    """The expected bucket is that of one row's BinaryRow, whatever the types of keys."""
    random = Random(seed)
    names = [column.split()[0] for column in ALL_KEY_TYPES]
    schema = a_schema(", ".join(ALL_KEY_TYPES), names, partition_keys, buckets=7)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([random.choice(values) for _ in range(300)], field.type)
            for field, values in zip(
                arrow_schema(schema.fields), ALL_KEY_TYPES.values(), strict=True
            )
        ],
        schema=arrow_schema(schema.fields),
    )
    want: Counter[tuple[bytes, float, str]] = Counter()
    for row in range(rows.num_rows):
        values = {
            field.name: python_value(rows.column(field.name)[row], field.data_type)
            for field in schema.fields
        }
        key = schema.fields.project(schema.bucket_keys)
        key_hash = murmur_hash(encode_row([values[name] for name in key.names], key.types))
        partition = serialize_row(
            [values[name] for name in partition_keys], schema.partition_type.types
        )
        want[partition, abs(math.fmod(key_hash, 7)), str(rows.slice(row, 1).to_pylist())] += 1
    got = Counter(
        (partition, bucket, str(part.slice(row, 1).to_pylist()))
        for partition, bucket, part in FixedBucketAssigner(schema).assign(rows)
        for row in range(part.num_rows)
    )
    assert got == want
