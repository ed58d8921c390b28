"""Carries the checksum of a table's rows from snapshot to snapshot.

A record counts from its origin. Origin 0 is the empty table: the sums are those of all rows. A
commit on top of a snapshot without a record begins one that counts from that snapshot. So a job
need not wait while `stream-app analyze` reads an older version. The sums of all rows there, less
the record there, plus the newest record, are the sums of all rows.

Called by `table.commit.recorded_sums`. Plain values in and out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import orjson

from stream_app.errors import CorruptFileError
from stream_app.format.json_object import JsonObject
from stream_app.model.checksum.row_sum import NO_ROWS, RowSum
from stream_app.model.snapshot import ROW_SUM_PROPERTY

PARTITIONS_MAX = 64
"""Partitions with sums of their own: a snapshot's file must stay small."""
_WHAT = f"snapshot's {ROW_SUM_PROPERTY}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SumRecord:
    """The checksum that a snapshot carries.

    Attributes:
        origin: the snapshot from which it counts; 0: it counts all rows.
        total: of the whole table.
        partitions: by serialized partition, without those that have no rows; None: too many.
    """

    origin: int = 0
    total: RowSum = NO_ROWS
    partitions: Mapping[bytes, RowSum] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it counts all rows."""
        return self.origin == 0


EMPTY_TABLE = SumRecord(partitions={})
"""The record of a table without rows."""


def with_changes(record: SumRecord, changes: Mapping[bytes, RowSum]) -> SumRecord:
    """The record after changes of partitions."""
    total = sum(changes.values(), record.total)
    partitions = record.partitions
    if partitions is not None:
        sums = {
            name: partitions.get(name, NO_ROWS) + changes.get(name, NO_ROWS)
            for name in {**partitions, **changes}
        }
        kept = {name: own for name, own in sums.items() if own != NO_ROWS}
        partitions = kept if len(kept) <= PARTITIONS_MAX else None
    return SumRecord(origin=record.origin, total=total, partitions=partitions)


def without_partitions(record: SumRecord, gone: Collection[bytes]) -> SumRecord | None:
    """The record after all rows of partitions have gone; None: nobody knows their sums."""
    if not record.is_whole or record.partitions is None:
        return None
    partitions = record.partitions
    return with_changes(record, {name: NO_ROWS - partitions.get(name, NO_ROWS) for name in gone})


def rebased(read: SumRecord, at: SumRecord, newest: SumRecord) -> SumRecord | None:
    """The record of the newest snapshot, from the sums of all rows at an older one.

    Args:
        read: of all rows at the older snapshot.
        at: the older snapshot's own record.

    Returns:
        None: the records do not count from the same snapshot.
    """
    if at.origin != newest.origin:
        return None
    sides = (read.partitions, at.partitions, newest.partitions)
    partitions = None
    if all(side is not None for side in sides):
        names = {name for side in sides for name in side or ()}
        of_read, of_at, of_newest = (side or {} for side in sides)
        sums = {
            name: of_read.get(name, NO_ROWS)
            - of_at.get(name, NO_ROWS)
            + of_newest.get(name, NO_ROWS)
            for name in names
        }
        partitions = {name: own for name, own in sums.items() if own != NO_ROWS}
    return SumRecord(total=read.total - at.total + newest.total, partitions=partitions)


def encode_record(record: SumRecord) -> str:
    """The property's text: ``{"origin": 0, "rows": 7, "sum": "…", "partitions": {…}}``."""
    document = {"origin": record.origin, "rows": record.total.rows, "sum": record.total.digits}
    if record.partitions is None:
        return orjson.dumps(document).decode()
    partitions = {
        name.hex(): {"rows": own.rows, "sum": own.digits}
        for name, own in sorted(record.partitions.items())
    }
    return orjson.dumps({**document, "partitions": partitions}).decode()


def decode_record(text: str) -> SumRecord:
    """The record of a property.

    Raises:
        CorruptFileError: the text holds none.
    """
    try:
        value = orjson.loads(text)
        document = JsonObject(value, what=_WHAT)
        partitions = value.get("partitions")
        return SumRecord(
            origin=document.integer("origin"),
            total=_sum_of(value),
            partitions=None
            if partitions is None
            else {bytes.fromhex(name): _sum_of(own) for name, own in partitions.items()},
        )
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise CorruptFileError(
            f"cannot read a {_WHAT}: {error}", fix="make it anew by stream-app analyze --checksum"
        ) from error


def _sum_of(value: Mapping[str, object]) -> RowSum:
    document = JsonObject(value, what=_WHAT)
    return RowSum.of_digits(document.integer("rows"), document.text("sum"))
