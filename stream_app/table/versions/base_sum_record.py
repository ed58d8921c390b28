"""Chooses the record of a table's checksum on which a commit is based.

`table.commit.next_sum_record` carries the record to the next snapshot.
"""

from __future__ import annotations

from stream_app.format.snapshot_properties.sum_record_json import sum_record_of
from stream_app.model.checksum.sum_conditions import have_same_texts
from stream_app.model.checksum.sum_record import SUMS_OF_EMPTY_TABLE, SumRecord
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable


def base_sum_record(table: FileStoreTable, base_snapshot: Snapshot | None) -> SumRecord:
    """Return the record on which a commit is based; a new one if the snapshot has none.

    Raises:
        CorruptFileError: the record cannot be read.
    """
    if base_snapshot is None:
        return SUMS_OF_EMPTY_TABLE
    record = sum_record_of(base_snapshot)
    if record is not None and base_snapshot.schema_id != table.schema.schema_id:
        older_schema = table.schemas.schema(base_snapshot.schema_id)
        record = record if have_same_texts(older_schema, table.schema) else None
    return record or SumRecord(origin_id=base_snapshot.snapshot_id, partitions={})
