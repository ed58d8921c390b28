"""Computes the record of a table's checksum for the next snapshot.

A record has the sums of all changes since its origin, a snapshot. Origin 0 is the empty table, so a
record with this origin has the sums of all rows. A commit on top of a snapshot without a record
begins a record, whose origin is that snapshot.

So a job can continue while `stream-app analyze` reads the rows of an older version. The sums of all
rows are then the sums that `analyze` has read, minus that version's record, plus the latest record.

`table.commit.next_sum_record` calls it. It takes and returns plain values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stream_app.model.checksum.row_sum import NO_ROWS, RowSum
from stream_app.model.checksum.sum_record import SumRecord

PARTITIONS_MAX = 64
"""The maximum number of partitions with their own sums, because a snapshot's file must be small."""


def with_changes(record: SumRecord, partition_sums: Mapping[bytes, RowSum]) -> SumRecord:
    """Return the record after changes with these sums in partitions."""
    total = sum(partition_sums.values(), record.total)
    partitions = record.partitions
    if partitions is not None:
        sums = {
            name: partitions.get(name, NO_ROWS) + partition_sums.get(name, NO_ROWS)
            for name in {**partitions, **partition_sums}
        }
        nonzero = {name: row_sum for name, row_sum in sums.items() if row_sum != NO_ROWS}
        partitions = nonzero if len(nonzero) <= PARTITIONS_MAX else None
    return SumRecord(origin_id=record.origin_id, total=total, partitions=partitions)


def without_partitions(
    record: SumRecord, dropped_partitions: Collection[bytes]
) -> SumRecord | None:
    """Return the record after the deletion of partitions; None if their sums are unknown."""
    if not record.is_whole or record.partitions is None:
        return None
    partitions = record.partitions
    return with_changes(
        record, {name: NO_ROWS - partitions.get(name, NO_ROWS) for name in dropped_partitions}
    )


def rebase(
    read_record: SumRecord, older_record: SumRecord, latest_record: SumRecord
) -> SumRecord | None:
    """Compute the latest snapshot's record from the sums of all rows at an older one.

    Args:
        read_record: the sums of all rows at the older snapshot.
        older_record: the older snapshot's own record.

    Returns:
        The record; None if the records count from different snapshots.
    """
    if older_record.origin_id != latest_record.origin_id:
        return None
    sides = (read_record.partitions, older_record.partitions, latest_record.partitions)
    partitions = None
    if all(side is not None for side in sides):
        names = {name for side in sides for name in side or ()}
        read_sums, older_sums, latest_sums = (side or {} for side in sides)
        sums = {
            name: read_sums.get(name, NO_ROWS)
            - older_sums.get(name, NO_ROWS)
            + latest_sums.get(name, NO_ROWS)
            for name in names
        }
        partitions = {name: row_sum for name, row_sum in sums.items() if row_sum != NO_ROWS}
    return SumRecord(
        total=read_record.total - older_record.total + latest_record.total, partitions=partitions
    )
