"""The files of database snapshots: ``DATABASE.db/stream-app/transactions/EPOCH-JOB.json``.

The folder has no schema, so no catalog takes it for a table. It lies in no table's folder, so no
removal of orphan files comes near it. The job that recorded a snapshot deletes it when one of its
tables' snapshots has expired.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.file_io_registry import file_io_of
from stream_app.model.database.database_snapshot import DatabaseSnapshot, parsed_snapshot

FOLDER = "stream-app/transactions"
_NAME = re.compile(r"\d+-[\w-]+\.json")


@dataclass(frozen=True, slots=True)
class DatabaseSnapshots:
    """The snapshots of one database.

    Attributes:
        folder: the database's folder, as the file system has it.
    """

    folder: str
    file_io: FileIO

    def all(self) -> Sequence[DatabaseSnapshot]:
        """All snapshots, the oldest first; some may name expired snapshots of tables.

        Raises:
            CorruptFileError: a file is damaged.
        """
        snapshots = []
        for name in self.file_io.list_names(f"{self.folder}/{FOLDER}"):
            if _NAME.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):  # its job has just deleted it
                    snapshots.append(self._read(name))
        return sorted(snapshots, key=lambda one: (one.time_ms, one.epoch))

    def add(self, snapshot: DatabaseSnapshot) -> None:
        """Publish a snapshot; a repeated epoch replaces its own."""
        data = json.dumps(snapshot.document(), ensure_ascii=False).encode()
        self.file_io.overwrite(self._path(snapshot), data)

    def delete(self, snapshot: DatabaseSnapshot) -> None:
        """Delete a snapshot."""
        self.file_io.delete(self._path(snapshot))

    def _read(self, name: str) -> DatabaseSnapshot:
        path = f"{self.folder}/{FOLDER}/{name}"
        try:
            return parsed_snapshot(json.loads(self.file_io.read_bytes(path)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(
                f"the database snapshot is damaged: {error}",
                where=path,
                fix="delete the file: the tables do not need it",
            ) from None

    def _path(self, snapshot: DatabaseSnapshot) -> str:
        return f"{self.folder}/{FOLDER}/{snapshot.epoch}-{snapshot.job}.json"


def database_snapshots(location: str, options: Mapping[str, str] | None) -> DatabaseSnapshots:
    """The snapshots of the database in a folder.

    Args:
        options: the options of the file system.

    Raises:
        UsageError, StorageError: as `file_io_of`.
    """
    return DatabaseSnapshots(*file_io_of(location.rstrip("/"), options))
