"""A table with some versions and their rows, for actors that run beside each other."""

from __future__ import annotations

import random
from dataclasses import dataclass

from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter
from tests.support.tables.expiring_table import rows_of, versions
from tests.support.tables.memory_table import copy_of, memory_table

_OPTIONS = {
    "bucket": "1",
    "num-sorted-run.compaction-trigger": "2",
    "file-operation.thread-num": "1",  # an actor has one thread
}


@dataclass(frozen=True)
class Story:
    """A table that nobody changes, and the rows of its versions by name."""

    table: FileStoreTable
    rows: dict[str, list[str]]

    def again(self) -> FileStoreTable:
        """Return a copy of the table as it was, to be changed."""
        return copy_of(self.table)


def versioned_table(**options: str) -> FileStoreTable:
    """Create a table in memory, with four epochs and their compactions."""
    table = memory_table({**_OPTIONS, **{k.replace("_", "-"): v for k, v in options.items()}})
    writer = TableWriter(table)
    changes = RandomChanges(table.schema, random.Random(3), key_count=6)
    for _ in range(4):
        writer.write(changes.epoch(4))
    writer.commit.compact_due()
    return table


def story_of(table: FileStoreTable) -> Story:
    return Story(
        table, {name: rows_of(table, version) for name, version in versions(table).items()}
    )


def expire_to(table: FileStoreTable, keep: int = 2) -> None:
    """Expire all but the latest versions."""
    expiry = ExpireSnapshots(table)
    expiry.execute(expiry.plan(expire_config(table.options, num_max=keep, num_min=keep)))
