"""How far the demo's tables are: told by their own snapshots, which no kill can swallow."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

from stream_app.errors import TableNotFoundError
from stream_app.model.snapshot import SOURCE_END_PROPERTY, CommitKind, Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_table


@dataclass
class TableProgress:
    """What a table's snapshots say so far.

    Attributes:
        read: messages of all topics up to the end of `epoch`.
        epoch: the newest that brought the table a change.
        schema_id: the newest snapshot's.
        latest: number of the newest snapshot that was read.
        snapshots: how many of each kind there are.
    """

    location: str
    read: int = 0
    epoch: int | None = None
    latest: int = 0
    schema_id: int = 0
    snapshots: Counter[str] = field(default_factory=Counter)
    _table: FileStoreTable | None = None

    def look(self) -> None:
        """Take in the snapshots that are new."""
        try:
            self._table = self._table or open_table(self.location)
        except TableNotFoundError:
            return  # the job has yet to make it
        snapshots = self._table.snapshots
        for number in range(self.latest + 1, (snapshots.latest_id() or 0) + 1):
            self.latest = number
            try:
                self._take(snapshots.snapshot(number))
            except FileNotFoundError:
                continue  # expired, in a long demo

    def _take(self, snapshot: Snapshot) -> None:
        self.snapshots[snapshot.commit_kind.value] += 1
        self.schema_id = snapshot.schema_id
        end = (snapshot.properties or {}).get(SOURCE_END_PROPERTY)
        if snapshot.commit_kind is CommitKind.APPEND and end:
            self.epoch = snapshot.commit_identifier
            self.read = messages_before(end)


def messages_before(source_end: str) -> int:
    """Messages before the offsets at which an epoch ends, of topics that begin with 0."""
    return sum(
        offset
        for line in source_end.splitlines()
        for partitions in json.loads(line).values()
        for offset in partitions.values()
    )
