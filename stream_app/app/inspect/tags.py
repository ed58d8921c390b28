"""The snapshots that have a name."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.app.output.listing import time_text
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRow:
    """One tag.

    Attributes:
        time: of the snapshot.
        created: when it was made, local time of who made it; None when it is not told.
        retained_ms: after which Paimon may delete it; None: never.
        records: physical rows of the snapshot's files.
    """

    tag: str
    snapshot: int
    schema: int
    time: str | None
    records: int | None
    created: str | None
    retained_ms: int | None


def tag_rows(table: FileStoreTable) -> list[TagRow]:
    """Tags in the order of their snapshots."""
    return [
        TagRow(
            tag=tag.name,
            snapshot=tag.snapshot.snapshot_id,
            schema=tag.snapshot.schema_id,
            time=time_text(tag.snapshot.time_millis),
            records=tag.snapshot.total_record_count,
            created=time_text(tag.create_time_ms, zone=""),
            retained_ms=tag.time_retained_ms,
        )
        for tag in table.tags.tags()
    ]
