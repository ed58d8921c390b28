"""The table of the tests of a job's compactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stream_app.table.file_store_table import FileStoreTable
from tests.support.small_table import Change, small_table


def a_table(folder: Path, **options: Any) -> FileStoreTable:
    """Key k INT and value v STRING; options as in `small_table`."""
    return small_table(folder / "db.db" / "t", "k INT, v STRING", ("k",), **options).table


def rows(epoch: int) -> list[Change]:
    """Twenty keys, each with the epoch's number as its value."""
    return [("+I", {"k": k, "v": str(epoch)}) for k in range(20)]
