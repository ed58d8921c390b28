"""Makes the rows of the tables of `bench.growth.growth`, for all writers.

It needs only NumPy and Arrow, because the other writers run in other Python environments.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COLUMNS = (
    "p INT NOT NULL, k BIGINT NOT NULL, amount DECIMAL(12,2), status STRING, "
    "updated_at TIMESTAMP(6), note STRING"
)
KEYS = ("p", "k")
OLD_KEYS = 1_000
"""The number of keys of a partition that does not change."""
_BATCH_ROWS = 500_000
_STATUSES = pa.array(["new", "paid", "packed", "shipped", "delivered", "returned"])
_NOTES = pa.array([f"{number:05x} of a thousand notes" for number in range(1000)])
_START_US = 1_767_225_600_000_000

Numbers = npt.NDArray[np.int64]


def rows_of(rng: np.random.Generator, partitions: Numbers, keys: Numbers) -> pa.RecordBatch:
    """Return a row of random values for each key and its partition; both int64 [n]."""
    count = len(keys)
    amounts = pa.array(rng.integers(100, 99_999, count)).cast(pa.decimal128(21, 2))
    columns = {
        "p": pa.array(partitions).cast(pa.int32()),
        "k": pa.array(keys),
        "amount": amounts.cast(pa.decimal128(12, 2)),
        "status": _STATUSES.take(pa.array(rng.integers(0, len(_STATUSES), count))),
        "updated_at": pa.array(rng.integers(0, 10**12, count) + _START_US).cast(pa.timestamp("us")),
        "note": _NOTES.take(pa.array(rng.integers(0, len(_NOTES), count))),
    }
    return pa.RecordBatch.from_pydict(columns)


def partition_rows(
    rng: np.random.Generator, partition: int, count: int
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a partition, by ascending key."""
    for first in range(0, count, _BATCH_ROWS):
        keys = np.arange(first, min(count, first + _BATCH_ROWS))
        yield rows_of(rng, np.full(len(keys), partition), keys)


def random_changes(
    rng: np.random.Generator, count: int, partitions: range, keys: int
) -> pa.RecordBatch:
    """Return changes of random keys below a number, spread over the partitions evenly."""
    row_partitions = np.asarray(partitions)[np.arange(count) % len(partitions)]
    return rows_of(rng, row_partitions, rng.integers(0, keys, count))
