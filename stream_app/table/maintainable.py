"""Of which tables we can take versions and files away rightly, or give versions a name.

Called by the verbs of upkeep before they plan anything. Less is asked than of a table that is
written (`file_store_table.open_for_writing`) or read (`readable`): who deletes a file must find it,
and need not know what its rows mean. So another merge engine, file format or way to choose buckets
is no matter here.

Source: Paimon `CoreOptions.java`, `utils/FileStorePathFactory.java`, `TableType.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stream_app.errors import UnsupportedTableError
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.storage_errors import storage_errors

_Asks = Mapping[str, Callable[[str], bool]]

_VERSIONS: _Asks = {
    "branch": lambda value: value != "main",
    "type": lambda value: value.lower() not in ("table", "materialized-table"),
}
"""Options by which versions lie elsewhere, and the values that say so."""

_FOLDERS: _Asks = {
    "data-file.path-directory": bool,
    "manifest.format": lambda value: value.lower() != "avro",
}
"""Options by which we would not find what lies in the table's folder, or who names it."""

_EXTERNAL: _Asks = {"data-file.external-paths": bool, "global-index.external-path": bool}
"""Options by which files lie outside of the table's folder."""


def check_versions_known(table: FileStoreTable) -> None:
    """Refuse a table whose versions are others than those in its folder.

    Raises:
        UnsupportedTableError: names everything that stands in the way.
    """
    _refuse(table, _VERSIONS)


def check_orphans_known(table: FileStoreTable) -> None:
    """Refuse a table in whose folder we would not find the files that nothing names.

    What lies outside of the folder is left alone.

    Raises:
        UnsupportedTableError: names everything that stands in the way.
    """
    _refuse(table, {**_VERSIONS, **_FOLDERS})


def check_files_known(table: FileStoreTable) -> None:
    """Refuse a table of whose versions we would not find all files.

    Raises:
        UnsupportedTableError: names everything that stands in the way.
    """
    _refuse(table, {**_VERSIONS, **_FOLDERS, **_EXTERNAL})


def check_publishes_safely(table: FileStoreTable) -> None:
    """Refuse a place where the name of a version may have two winners.

    Raises:
        StorageError: the file system has no atomic create, or cannot be reached.
    """
    with storage_errors(table.location):
        table.file_io.check_atomic_create(table.location)


def _refuse(table: FileStoreTable, asks: _Asks) -> None:
    options = table.schema.options
    reasons = [
        f"{key} = {options[key]}" for key in asks if key in options and asks[key](options[key])
    ]
    if reasons:
        raise UnsupportedTableError(
            "stream_app cannot find all versions and files of this table: " + ", ".join(reasons),
            where=table.location,
            fix="do it with the engine that made the table; nothing was changed",
        )
