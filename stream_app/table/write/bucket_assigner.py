"""Which bucket each row belongs to.

Rows are put into blocks of one bucket before the shuffle, so a task assigns buckets without knowing
what the other tasks have read.

Source: Paimon `table/sink/FixedBucketRowKeyExtractor.java`, `BucketAssigner.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.format.bucket_hash import bucket_of
from stream_app.model.schema.table_schema import TableSchema


class BucketAssigner(Protocol):
    """Assigns the rows of one table."""

    @property
    def count(self) -> int:
        """One above the greatest bucket."""
        ...

    def assign(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """The bucket of each row, (rows,) int64.

        Args:
            rows: with the table's columns.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedBuckets:
    """By the hash of the bucket key."""

    schema: TableSchema

    @property
    def count(self) -> int:
        """The option ``bucket``."""
        return self.schema.core_options.bucket

    def assign(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """See `BucketAssigner.assign`."""
        keys = self.schema.fields.project(self.schema.bucket_keys)
        columns = [rows.column(key.name) for key in keys]
        return bucket_of(columns, keys.types, self.count).astype(np.int64)


@dataclass(frozen=True, slots=True)
class NoBuckets:
    """All rows are in bucket 0, which is the folder of their partition."""

    schema: TableSchema

    @property
    def count(self) -> int:
        """One."""
        return 1

    def assign(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """See `BucketAssigner.assign`."""
        return np.zeros(rows.num_rows, np.int64)
