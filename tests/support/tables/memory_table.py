"""A small table with a primary key in memory, and a copy of it for each try of a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from tests.support.files.memory_file_io import MemoryFileIO
from tests.support.tables.small_table import TIME_MS, SteppingClock


def memory_table(options: Mapping[str, str]) -> FileStoreTable:
    """Create a table of ``k INT, v STRING`` with the key ``k``."""
    schema = new_table_schema(
        columns=parse_columns("k INT, v STRING"), primary_keys=("k",), partition_keys=(),
        options=dict(options), time_ms=TIME_MS,
    )  # fmt: skip
    clock = SteppingClock()
    table = FileStoreTable("/t", schema, MemoryFileIO(clock), clock)
    assert table.schemas.create(schema)
    return table


def copy_of(table: FileStoreTable) -> FileStoreTable:
    """Return a copy of the table, which changes without it."""
    files = table.file_io
    assert isinstance(files, MemoryFileIO)
    return replace(table, file_io=files.after_crash(surviving=lambda _, size: size))
