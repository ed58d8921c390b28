"""The checksum of a table's rows that a snapshot carries.

`planning.commit.sum_record_rules` computes the next snapshot's record from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.model.checksum.row_sum import NO_ROWS, RowSum


@dataclass(frozen=True, slots=True, kw_only=True)
class SumRecord:
    """The checksum that a snapshot carries.

    Attributes:
        origin_id: the id of the snapshot from which it counts; 0: it counts all rows.
        total: the checksum of the whole table.
        partitions: serialized partition → checksum, without empty partitions; None if they are too
            many.
    """

    origin_id: int = 0
    total: RowSum = NO_ROWS
    partitions: Mapping[bytes, RowSum] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the record counts all rows."""
        return self.origin_id == 0


SUMS_OF_EMPTY_TABLE = SumRecord(partitions={})
"""The record of a table without rows."""
