"""A database for readers in Python: all of its tables at one transaction of the source.

``stream_app.open_database`` returns it. A job with ``sync.transactions = whole`` records which
snapshots of its tables belong together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from stream_app.errors import TableNotFoundError, UsageError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.store_registry import file_io_of
from stream_app.model.database_snapshot import DatabaseSnapshot
from stream_app.model.near_names import known_names_text
from stream_app.table.api.database_snapshots import DatabaseSnapshots
from stream_app.table.api.paimon_table import PaimonTable, Where
from stream_app.table.opening import open_in_file_system
from stream_app.table.storage_errors import storage_errors
from stream_app.table.versions.read_refusals import warn_of_unknown

DEFAULT_WAREHOUSE = "./warehouse"
NEWEST = "newest"
"""The word that names the latest database snapshot on a command line."""
_SHOWN_TRANSACTIONS_MAX = 5
"""The number of transactions that an error shows."""


@dataclass(frozen=True)
class DatabaseAsOf:
    """The tables of a database at one transaction.

    Attributes:
        folder: the database's folder.
    """

    folder: str
    snapshot: DatabaseSnapshot
    file_io: FileIO = field(repr=False)

    @property
    def tables(self) -> list[str]:
        """The names of the tables in the database snapshot."""
        return sorted(self.snapshot.tables)

    def snapshot_of(self, table: str) -> int:
        """Return the number of a table's snapshot.

        Raises:
            UsageError: the table does not belong to the database snapshot, or its snapshot has
                expired.
        """
        return self._open(table)[1]

    def read(
        self,
        table: str,
        *,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        threads: int | None = None,
    ) -> pa.RecordBatchReader:
        """Read a table's rows as of the transaction; see `PaimonTable.read`.

        Raises:
            UsageError: as `snapshot_of` and `PaimonTable.read`.
            UnsupportedTableError, CorruptFileError: as `PaimonTable.read`.
        """
        opened_table, snapshot = self._open(table)
        return opened_table.read(
            columns=columns, where=where, limit=limit, threads=threads, snapshot=snapshot
        )

    def _open(self, name: str) -> tuple[PaimonTable, int]:
        """Open a table, and return it with its recorded snapshot, which must still exist."""
        snapshot_text = f"the database snapshot at {', '.join(self.snapshot.transactions)}"
        version = self.snapshot.tables.get(name)
        if version is None:
            reason = self.snapshot.left_out.get(name)
            raise UsageError(
                f"the table {name} does not belong to {snapshot_text}"
                + (f": {reason}" if reason else ""),
                where=self.folder,
                fix="choose a later one: see stream-app status"
                if reason
                else known_names_text(name, self.snapshot.tables),
            )
        table = open_in_file_system(f"{self.folder}/{name}", self.file_io)
        warn_of_unknown(table)
        snapshots = table.snapshots
        try:
            is_same = snapshots.snapshot(version.snapshot).time_ms == version.time_ms
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise UsageError(
                f"snapshot {version.snapshot} of the table {name} has expired, or was rolled back, "
                f"and {snapshot_text} with it",
                where=self.folder,
                fix="choose a later one; snapshot.time-retained and snapshot.num-retained.min of "
                "the tables keep snapshots longer",
            )
        return PaimonTable(table), version.snapshot


@dataclass(frozen=True)
class PaimonDatabase:
    """A database of a warehouse; each call sees it as it is at that moment.

    Attributes:
        folder: the database's folder.
    """

    folder: str
    file_io: FileIO = field(repr=False)

    def snapshots(self) -> list[DatabaseSnapshot]:
        """Return the database snapshots without expired snapshots of tables, the oldest first.

        Raises:
            CorruptFileError: a file is damaged.
            StorageError: the file system cannot be reached.
        """
        with storage_errors(self.folder):
            snapshots = DatabaseSnapshots(self.folder, self.file_io).all()
            earliest_ids = {
                name: self._earliest_id(name)
                for name in {name for snapshot in snapshots for name in snapshot.tables}
            }
        return [snapshot for snapshot in snapshots if is_kept(snapshot, earliest_ids)]

    def as_of(self, *, transaction: str | None = None) -> DatabaseAsOf:
        """Return the tables as of one transaction.

        Args:
            transaction: the transaction's id as in the END marker, or PostgreSQL's transaction
                number alone. None: the newest transaction that has a database snapshot.

        Raises:
            UsageError: no database snapshot belongs to this transaction.
            CorruptFileError, StorageError: as `snapshots`.
        """
        snapshots = self.snapshots()
        for snapshot in reversed(snapshots):
            if transaction is None or snapshot.is_at(transaction):
                return DatabaseAsOf(self.folder, snapshot, self.file_io)
        if not snapshots:
            raise UsageError(
                "the database has no snapshot of all tables",
                where=self.folder,
                fix='set sync.transactions = "whole" for its job; stream-app status says why the '
                "job records none",
            )
        transactions = [name for snapshot in snapshots for name in snapshot.transactions]
        raise UsageError(
            f"no database snapshot is at the transaction {transaction}; the newest are at "
            f"{', '.join(transactions[-_SHOWN_TRANSACTIONS_MAX:])}",
            where=self.folder,
            fix="a snapshot has all transactions up to its own: choose the next later one",
        )

    def _earliest_id(self, name: str) -> int | None:
        try:
            table = open_in_file_system(f"{self.folder}/{name}", self.file_io)
        except TableNotFoundError:
            return None
        return table.snapshots.earliest_id()


def is_kept(snapshot: DatabaseSnapshot, earliest_ids: Mapping[str, int | None]) -> bool:
    """Return whether every table still has its snapshot.

    Args:
        earliest_ids: table → its earliest snapshot; None for a dropped table.
    """
    bounds = (
        (earliest_ids.get(name), version.snapshot) for name, version in snapshot.tables.items()
    )
    return all(
        earliest_id is not None and earliest_id <= snapshot_id
        for earliest_id, snapshot_id in bounds
    )


def open_database(
    name: str | os.PathLike[str],
    *,
    warehouse: str = DEFAULT_WAREHOUSE,
    file_io_options: Mapping[str, str] | None = None,
) -> PaimonDatabase:
    """Open a database of a warehouse, for its snapshots of all tables.

    Args:
        name: the database's folder, such as ``./warehouse/shop.db``, or its name in `warehouse`.
        file_io_options: the options of the file system, such as ``s3.endpoint``.

    Raises:
        UsageError, StorageError: as `file_io_of`.
    """
    text = os.fspath(name)
    is_folder = "/" in text or text.endswith(".db")
    location = text if is_folder else f"{warehouse.rstrip('/')}/{text}.db"
    return PaimonDatabase(*file_io_of(location.rstrip("/"), file_io_options))
