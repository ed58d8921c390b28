"""Refuses tables whose versions stream_app cannot delete or tag safely.

The upkeep verbs call these checks before they plan anything. The checks are weaker than those for
writing (`opening.require_writable`) or reading (`read_refusals`). To delete a file, a command must
locate it, but need not read its rows. So the checks accept unsupported merge engines, file formats
and bucket functions. They refuse an unknown option, because with it other readers may need files
that an expiry deletes.

Source: Paimon `utils/FileStorePathFactory.java`, `TableType.java`.
"""

from __future__ import annotations

from stream_app.errors import UsageError
from stream_app.model.options.core_options import check_purpose
from stream_app.model.options.option_support import Purpose
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.storage_errors import storage_errors


def check_versions_known(table: FileStoreTable) -> None:
    """Refuse a table with versions outside its folder.

    Manifest entries have the paths of files outside the folder; `FileStorePathFactory.data_file`
    refuses other file systems.

    Raises:
        UnsupportedTableError: the table has such versions; the error names every obstacle.
    """
    problems = []
    if table.branch and table.catalog_environment.snapshot_loader is not None:
        problems.append(f"branch {table.branch!r} is kept by a REST catalog's server")
    check_purpose(table.schema.options, Purpose.FIND, problems, table.version_root)


def check_is_main(table: FileStoreTable) -> None:
    """Refuse a branch, for operations on all branches of a table.

    Raises:
        UsageError: the table is a branch.
    """
    if table.branch:
        raise UsageError(
            f"the table is its branch {table.branch!r}",
            where=table.version_root,
            fix=f"give the table itself: {table.location}",
        )


def check_expirable(table: FileStoreTable) -> None:
    """Refuse a table whose versions stream_app must not delete or tag, or cannot locate.

    Raises:
        UnsupportedTableError: the error names every obstacle.
    """
    check_versions_known(table)
    check_purpose(table.schema.options, Purpose.EXPIRE, where=table.version_root)


def check_publishes_safely(table: FileStoreTable) -> None:
    """Refuse a store in which two writers may both create the same version.

    Raises:
        StorageError: the file system has no atomic create, or cannot be reached.
    """
    with storage_errors(table.location):
        table.file_io.check_atomic_create(table.location)
