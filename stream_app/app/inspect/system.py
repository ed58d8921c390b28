"""System tables as `inspect` lists them, where it has no view of its own that says more."""

from __future__ import annotations

from dataclasses import make_dataclass

from stream_app.app.output.listing import Listing
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.system_tables import SYSTEM_TABLES

LISTED = ("branches", "table_indexes", "file_key_ranges", "aggregation_fields", "statistics")
"""Names of Paimon's system tables."""


def system_listing(name: str, table: FileStoreTable, snapshot: Snapshot | None) -> Listing:
    """The rows of a system table; its columns are Paimon's."""
    found = SYSTEM_TABLES[name](table, snapshot)
    row_type = make_dataclass(name, found.schema.names, frozen=True)
    return Listing(row_type, [row_type(**row) for row in found.to_pylist()])
