"""A compaction drops the rows that are too old, for each type that a time field may have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stream_app.mergetree.compact.record_level_expire import RecordLevelExpire

BOUND = 1_700_000_000
DAY = 86_400


@pytest.mark.parametrize(
    ("kind", "per_second"),
    [
        (pa.int32(), 1),
        (pa.int64(), 1),
        (pa.int64(), 1_000),
        (pa.timestamp("s"), 1),
        (pa.timestamp("ms"), 1_000),
        (pa.timestamp("us"), 1_000_000),
        (pa.timestamp("ns"), 1_000_000_000),
        (pa.timestamp("us", "UTC"), 1_000_000),
    ],
    ids=str,
)
def test_rows_before_the_bound_expire(kind: pa.DataType, per_second: int) -> None:
    """A row at the bound stays, one a second before it expires, and one without a time stays."""
    # The size of a BIGINT says whether it has seconds or milliseconds.
    oldest = BOUND - DAY if kind == pa.int64() else 0
    seconds: list[Any] = [oldest, BOUND - 1, BOUND, BOUND + DAY]
    times = [second * per_second for second in seconds]
    batch = pa.record_batch({"t": pa.array([*times, None], pa.int64()).cast(kind)})
    is_expired = RecordLevelExpire("t", BOUND).is_expired(batch)
    assert is_expired.tolist() == [True, True, False, False, False]


def test_a_fraction_of_a_second_is_left_out() -> None:
    times = pa.array([BOUND * 1_000_000 - 1, BOUND * 1_000_000 + 999_999], pa.timestamp("us"))
    is_expired = RecordLevelExpire("t", BOUND).is_expired(pa.record_batch({"t": times}))
    assert is_expired.tolist() == [True, False]


def test_a_time_before_1970_is_old() -> None:
    times = pa.array([-1_500, None], pa.timestamp("ms"))
    is_expired = RecordLevelExpire("t", 0).is_expired(pa.record_batch({"t": times}))
    assert is_expired.tolist() == [True, False]
