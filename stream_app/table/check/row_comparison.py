"""Compares the rows of a bucket with the expected ones, for `stream-app check`.

Both sides come as merged rows in key order, so memory is a batch for each run that is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_app.mergetree.key_differences import differences
from stream_app.table.file_store_table import FileStoreTable

FORGOTTEN_DELETES = (
    "rows that only the table has: with sequence.field an older row comes back when a compaction "
    "has forgotten the delete that was newer"
)
"""Undecidable when ``sequence.field`` orders the changes: the table is right then."""
NUMBERS_GO_BACK = (
    "rows that only the table has, in buckets where sequence numbers go back: two jobs write them, "
    "or a job began again after a compaction had dropped the delete with the highest number"
)
"""Undecidable too: the dropped delete would be newer than the row that came after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifferences:
    """Counts of differing rows.

    Attributes:
        missing: expected rows that the table lacks.
        wrong: rows with other values than expected.
        unexpected: rows that are not expected.
        example: the key of one of them, for people.
    """

    missing: int
    wrong: int
    unexpected: int
    example: str


def compared(
    table: FileStoreTable,
    expected: Iterator[pa.RecordBatch],
    stored: Iterator[pa.RecordBatch],
    *,
    are_unexpected_told: bool = True,
) -> RowDifferences | None:
    """The differences between the expected rows and the actual ones; None: there are none.

    Args:
        are_unexpected_told: whether unexpected rows count.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    missing = wrong = unexpected = 0
    example = ""
    for one in differences(table.layout(), expected, stored):
        extra = one.added if are_unexpected_told else one.added[:0]
        missing += len(one.gone)
        wrong += len(one.changed)
        unexpected += len(extra)
        for places in (one.gone, one.changed, extra):
            if len(places) and not example:
                row = one.batch.slice(int(one.order[places[0]]), 1)
                keys = row.select(list(table.schema.primary_keys)).to_pylist()[0]
                example = ", ".join(f"{name} = {value!r}" for name, value in keys.items())
    if not missing + wrong + unexpected:
        return None
    return RowDifferences(missing=missing, wrong=wrong, unexpected=unexpected, example=example)
