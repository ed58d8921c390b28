"""The files of database snapshots: ``DATABASE.db/stream-app/transactions/EPOCH-JOB.json``.

The folder has no schema, so no catalog takes it for a table. It is in no table's folder, so no
removal of orphan files sees it. The job that has recorded a database snapshot deletes the file as
soon as one of the table snapshots in it has expired.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.store_registry import file_io_of
from stream_app.model.database_snapshot import DatabaseSnapshot, parse_snapshot
from stream_app.table.map_in_threads import map_in_threads

SNAPSHOTS_FOLDER = "stream-app/transactions"
_THREAD_COUNT = 8
"""The number of files that are read at a time."""
_NAME = re.compile(r"\d+-[\w-]+\.json")


@dataclass(frozen=True, slots=True)
class DatabaseSnapshots:
    """The snapshots of one database.

    Attributes:
        database_folder: the database's folder, as its file system spells the path.
    """

    database_folder: str
    file_io: FileIO

    def all(self) -> Sequence[DatabaseSnapshot]:
        """Return all snapshots, the oldest first; some may name expired snapshots of tables.

        Raises:
            CorruptFileError: a file is damaged.
        """
        snapshots_or_none = map_in_threads(_THREAD_COUNT, self.read, self.names())
        snapshots = [snapshot for snapshot in snapshots_or_none if snapshot is not None]
        return sorted(snapshots, key=lambda snapshot: (snapshot.time_ms, snapshot.epoch))

    def names(self, job: str = "") -> list[str]:
        """Return the names of the files of all jobs, or of one job."""
        names = self.file_io.list_names(f"{self.database_folder}/{SNAPSHOTS_FOLDER}")
        return [name for name in names if _NAME.fullmatch(name) and name.endswith(f"{job}.json")]

    def add(self, snapshot: DatabaseSnapshot) -> None:
        """Publish a snapshot; a repeated epoch replaces the file of its first attempt."""
        data = json.dumps(snapshot.document(), ensure_ascii=False).encode()
        self.file_io.overwrite(self._path(snapshot), data)

    def delete(self, name: str) -> None:
        """Delete the file of a snapshot."""
        self.file_io.delete(f"{self.database_folder}/{SNAPSHOTS_FOLDER}/{name}")

    def read(self, name: str) -> DatabaseSnapshot | None:
        """Read the snapshot in a file; None if its job has just deleted the file.

        Raises:
            CorruptFileError: the file is damaged.
        """
        path = f"{self.database_folder}/{SNAPSHOTS_FOLDER}/{name}"
        try:
            return parse_snapshot(json.loads(self.file_io.read_bytes(path)))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(
                f"the database snapshot is damaged: {error}",
                where=path,
                fix="delete the file: the tables do not need it",
            ) from None

    def _path(self, snapshot: DatabaseSnapshot) -> str:
        return f"{self.database_folder}/{SNAPSHOTS_FOLDER}/{snapshot.epoch}-{snapshot.job}.json"


def database_snapshots(location: str, options: Mapping[str, str] | None) -> DatabaseSnapshots:
    """Return the snapshots of the database in a folder.

    Args:
        options: options of the file system.

    Raises:
        UsageError, StorageError: as `file_io_of`.
    """
    return DatabaseSnapshots(*file_io_of(location.rstrip("/"), options))
