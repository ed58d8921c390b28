"""Tables that are written for readers, with the signs of row kinds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from stream_app.table.file_store_table import FileStoreTable
from tests.support.histories.random_changes import RandomChanges
from tests.support.interop.every_type import TABLES, a_table
from tests.support.jobs.table_writer import TableWriter

SIGNS: dict[str, Any] = {
    "=": lambda field, value: field == value,
    "<": lambda field, value: field < value,
    "<=": lambda field, value: field <= value,
    ">": lambda field, value: field > value,
    ">=": lambda field, value: field >= value,
    "!=": lambda field, value: field != value,
}


def write_epochs(folder: Path, name: str, seed: int) -> FileStoreTable:
    """Write eight epochs, and compact after some of them; return the table."""
    columns, keys, partitions, options = TABLES[name]
    writer = TableWriter(a_table(folder, columns, keys, partitions, **options))
    changes = RandomChanges(writer.table.schema, random.Random(seed))
    for epoch in range(8):
        writer.write(changes.epoch(30))
        if epoch in (3, 6):
            writer.commit.compact_due()
    return writer.table
