"""Refuses tables whose versions stream_app cannot delete or tag safely.

The upkeep verbs call it before they plan anything. These checks are weaker than those for writing
(`opening.open_for_writing`) or reading (`read_refusals`). To delete a file, a command must find it,
and need not understand its rows. So an unsupported merge engine, file format or bucket function is
accepted here. An unknown option is refused, because other readers may need files by it that an
expiry deletes.

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

    Files that lie elsewhere are found by the path in their manifest entry
    (`FileStorePathFactory.data_file`), which refuses another file system.

    Raises:
        UnsupportedTableError: names everything that stands in the way.
    """
    is_servers = table.branch and table.environment.snapshot_loader is not None
    server = [f"branch {table.branch!r} is kept by a REST catalog's server"] if is_servers else []
    check_purpose(table.schema.options, Purpose.FIND, server, table.version_root)


def check_is_main(table: FileStoreTable) -> None:
    """Refuse a branch, for what concerns all branches of a table.

    Raises:
        UsageError: it is a branch.
    """
    if table.branch:
        raise UsageError(
            f"the table is its branch {table.branch!r}",
            where=table.version_root,
            fix=f"give the table itself: {table.location}",
        )


def check_expirable(table: FileStoreTable) -> None:
    """Refuse a table whose versions stream_app must not delete or tag, or cannot find.

    Raises:
        UnsupportedTableError: names everything that stands in the way.
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
