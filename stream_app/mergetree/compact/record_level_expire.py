"""Finds expired rows by their time column, which a rewrite of the oldest rows drops.

`compact_rewriter` calls it. `table.compact.expired_rows` makes the rule from a table's options.

Source: Paimon `io/RecordLevelExpire.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MILLISECONDS_FROM = 1_000_000_000_000
"""A BIGINT from here on counts milliseconds: as seconds it would be the year 33658."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class RecordLevelExpire:
    """The rule for expired rows.

    A compaction applies it only if no older row exists above its output. Otherwise dropping a row
    would restore an older version of its key. Paimon filters before the merge and at each level.
    Both ways give the same result if a key's times only grow.

    Attributes:
        column: the name of the time field: INT (seconds), BIGINT (seconds, or milliseconds from
            10^12 on) or TIMESTAMP. A row with null never expires.
        time_min_s: seconds since 1970; rows with an earlier time expire.
    """

    column: str
    time_min_s: int

    def is_expired(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return the mask of expired rows: bool [n]."""
        times = batch.column(self.column)
        seconds = _seconds(times)
        is_early: npt.NDArray[np.bool_] = seconds < self.time_min_s
        if times.null_count:
            is_early &= pc.is_valid(times).to_numpy(zero_copy_only=False)
        return is_early


def _seconds(times: pa.Array) -> npt.NDArray[np.int64]:
    integers = times.view(pa.int64()) if pa.types.is_timestamp(times.type) else times
    counts: npt.NDArray[np.int64] = pc.fill_null(integers, 0).to_numpy().astype(np.int64)
    if pa.types.is_timestamp(times.type):
        return counts // _PER_SECOND[times.type.unit]
    if times.type == pa.int64():
        return np.where(counts >= MILLISECONDS_FROM, counts // 1000, counts)
    return counts
