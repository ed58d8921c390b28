"""Who follows the table, and how far he has come."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.app.output.listing import time_text
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    """One consumer.

    Attributes:
        next_snapshot: the first that it has not taken yet.
        behind: snapshots that it has not taken yet.
        has_expired: its next snapshot is gone, so that it cannot go on by itself.
        updated: when it wrote that.
    """

    consumer: str
    next_snapshot: int
    behind: int
    has_expired: bool
    updated: str | None


def consumer_rows(table: FileStoreTable) -> list[ConsumerRow]:
    """Consumers in the order of their names."""
    earliest, latest = table.snapshots.earliest_id() or 1, table.snapshots.latest_id() or 0
    return [
        ConsumerRow(
            consumer=one.consumer_id,
            next_snapshot=one.next_snapshot,
            behind=max(latest + 1 - one.next_snapshot, 0),
            has_expired=one.next_snapshot < earliest,
            updated=time_text(one.modified_millis),
        )
        for one in table.consumers.consumers()
    ]
