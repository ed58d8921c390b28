"""Which tables stream_app can delete versions and files of, or tag versions of.

Called by the verbs of upkeep before they plan anything. These are weaker than for writing
(`opening.open_for_writing`) or reading (`read_refusals`). To delete a file, a command must find it,
and need not understand its rows. So another merge engine, file format or way to choose buckets is
no matter here.

Source: Paimon `CoreOptions.java`, `utils/FileStorePathFactory.java`, `TableType.java`.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_app.errors import UnsupportedTableError
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.storage_errors import storage_errors

_ELSEWHERE: dict[str, Callable[[str], bool]] = {
    "branch": lambda value: value != "main",
    "data-file.path-directory": lambda value: value.startswith("/"),
    "type": lambda value: value.lower() not in ("table", "materialized-table"),
}
"""Options by which versions or files lie elsewhere, and the values that say so."""


def check_versions_known(table: FileStoreTable) -> None:
    """Refuse a table whose versions are others than those in its folder.

    Files that lie elsewhere are found by the path in their manifest entry
    (`FileStorePathFactory.data_file`), which refuses another file system.

    Raises:
        UnsupportedTableError: names everything that stands in the way.
    """
    options = table.schema.options
    present = [key for key in _ELSEWHERE if key in options]
    reasons = [f"{key} = {options[key]}" for key in present if _ELSEWHERE[key](options[key])]
    if table.branch:
        reasons.append(f"it is branch {table.branch!r}")
    if reasons:
        raise UnsupportedTableError(
            "stream_app cannot find all versions and files of this table: " + ", ".join(reasons),
            where=table.version_root,
            fix="use the engine that made the table; nothing was changed",
        )


def check_publishes_safely(table: FileStoreTable) -> None:
    """Refuse a place where the name of a version may have two winners.

    Raises:
        StorageError: the file system has no atomic create, or cannot be reached.
    """
    with storage_errors(table.location):
        table.file_io.check_atomic_create(table.location)
