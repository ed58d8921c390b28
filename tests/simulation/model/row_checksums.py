"""Computes a snapshot's expected checksum from the rows that a follower has."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.row_hash.row_hashes import sum_of_rows
from stream_app.format.snapshot_properties.sum_record_json import sum_record_of
from stream_app.model.checksum.sum_conditions import why_unsummed
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from tests.simulation.model.promises import demand
from tests.simulation.model.state import COLUMNS, Row


def check_row_sum(table: FileStoreTable, snapshot: Snapshot, visible_rows: Iterable[Row]) -> None:
    """See that the checksum, if the snapshot has one of all rows, is that of `visible_rows`.

    Not in tables with a changelog of the input: images of these jobs are not the rows before, as
    those of a database would be.
    """
    if why_unsummed(table.schema) or table.options.flushes_changelog:
        return
    record = sum_record_of(snapshot)
    if record is None or not record.is_whole:
        return
    fields = table.schema.fields
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in visible_rows]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(fields.project(COLUMNS)))
    demand(
        sum_of_rows(batch, tuple(enumerate(fields))) == record.total,
        f"the checksum of snapshot {snapshot.snapshot_id} is not that of its rows",
    )
