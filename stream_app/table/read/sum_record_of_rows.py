"""Computes the checksum of the rows that readers see in a version of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from stream_app.format.row_hash.row_hashes import sum_of_rows
from stream_app.model.checksum.row_sum import NO_ROWS, RowSum
from stream_app.model.checksum.sum_record import SUMS_OF_EMPTY_TABLE, SumRecord
from stream_app.model.files.data_split import DataSplit
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.sum_record_rules import with_changes
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.interleaved_batches import interleaved
from stream_app.table.read.split_read import SplitRead
from stream_app.table.read.split_scan import SplitScan


def sum_record_of_rows(
    table: FileStoreTable, snapshot: Snapshot | None, *, threads: int
) -> SumRecord:
    """Read a version and return the checksum of its rows.

    Raises:
        UnsupportedTableError: the table uses a feature that stream_app cannot read.
        CorruptFileError: a file is missing or damaged.
    """
    columns = tuple(enumerate(table.schema.fields))
    split_read = SplitRead(table, table.schema.fields.names)

    def sums_of(split: DataSplit) -> Iterator[tuple[bytes, RowSum]]:
        for batch in split_read.read(split):
            yield split.partition, sum_of_rows(batch, columns)

    splits = SplitScan(table).splits(snapshot)
    sums: dict[bytes, RowSum] = defaultdict(lambda: NO_ROWS)
    for partition, row_sum in interleaved((partial(sums_of, split) for split in splits), threads):
        sums[partition] += row_sum
    return with_changes(SUMS_OF_EMPTY_TABLE, sums)
