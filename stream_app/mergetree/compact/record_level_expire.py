"""Finds expired rows by their time column, which a rewrite of the oldest rows drops.

`compact_rewriter` calls it. `table.compact.record_expiry` makes the rule from a table's options.

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

    It applies only if no older row exists above the output. Otherwise dropping a row would restore
    an older version of its key. Paimon filters before the merge and at each level; if a key's times
    only grow, the result is the same.

    Attributes:
        column: the name of the time field: INT (seconds), BIGINT (seconds, or milliseconds from
            10^12 on) or TIMESTAMP. A row with null never expires.
        bound: seconds since 1970; earlier rows expire.
    """

    column: str
    bound: int

    def is_expired(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return the mask of expired rows: bool [n]."""
        times = batch.column(self.column)
        seconds = _seconds(times)
        expired: npt.NDArray[np.bool_] = seconds < self.bound
        if times.null_count:
            expired &= pc.is_valid(times).to_numpy(zero_copy_only=False)
        return expired


def _seconds(times: pa.Array) -> npt.NDArray[np.int64]:
    integers = times.view(pa.int64()) if pa.types.is_timestamp(times.type) else times
    counted: npt.NDArray[np.int64] = pc.fill_null(integers, 0).to_numpy().astype(np.int64)
    if pa.types.is_timestamp(times.type):
        return counted // _PER_SECOND[times.type.unit]
    if times.type == pa.int64():
        return np.where(counted >= MILLISECONDS_FROM, counted // 1000, counted)
    return counted
