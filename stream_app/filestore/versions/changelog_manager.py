"""Manages a table's long-lived changelogs: ``changelog/changelog-<n>``, LATEST and EARLIEST.

If changelogs are kept longer than snapshots, expiry copies the snapshot's file here before it
deletes the snapshot. The data files that the copy names may be deleted.

Source: Paimon `utils/ChangelogManager.java`, `Changelog.java`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.versions.numbered_files import listed_ids, read_hint
from stream_app.format.snapshot_json import decode_snapshot, encode_snapshot
from stream_app.model.snapshot import Snapshot

_PREFIX = "changelog-"
_LATEST, _EARLIEST = "LATEST", "EARLIEST"


@dataclass(frozen=True, slots=True)
class ChangelogManager:
    """The long-lived changelogs of the table at `root`."""

    file_io: FileIO
    root: str

    def ids(self) -> list[int]:
        """Return the numbers of all changelogs, which are those of their snapshots, ascending."""
        return listed_ids(self.file_io, f"{self.root}/changelog", _PREFIX)

    def changelog(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot that a changelog keeps.

        Raises:
            FileNotFoundError: the changelog does not exist.
            CorruptFileError: the file is not a snapshot.
        """
        path = self._path(snapshot_id)
        data = self.file_io.read_bytes(path)
        try:
            return decode_snapshot(data)
        except CorruptFileError as error:
            raise CorruptFileError(error.problem, where=path, fix=error.fix) from error

    def commit(self, snapshot: Snapshot) -> None:
        """Keep a snapshot's changelog, unless it is already kept."""
        path = self._path(snapshot.snapshot_id)
        self.file_io.create_if_absent(path, encode_snapshot(snapshot))

    def delete(self, snapshot_ids: Collection[int]) -> None:
        """Delete changelogs durably. The hints are written first, so that they name no deleted one.

        Java trusts LATEST unless a later file exists.
        """
        if not snapshot_ids:
            return
        self._write_hints(
            [snapshot_id for snapshot_id in self.ids() if snapshot_id not in snapshot_ids]
        )
        for snapshot_id in snapshot_ids:
            self.file_io.delete(self._path(snapshot_id))
        self.sync_deletions()

    def sync_deletions(self) -> None:
        """Sync, so that no deleted changelog reappears after a crash of the machine."""
        self.file_io.sync_deletions(f"{self.root}/changelog")

    def write_hints(self) -> None:
        """Write the hints of the first and the last changelog; delete them without changelogs."""
        self._write_hints(self.ids())

    def _write_hints(self, ids: list[int]) -> None:
        for name, index in ((_LATEST, -1), (_EARLIEST, 0)):
            path = f"{self.root}/changelog/{name}"
            with contextlib.suppress(OSError):  # readers then list the folder
                if ids:
                    self.file_io.overwrite(path, str(ids[index]).encode())
                else:
                    self.file_io.delete(path)
                    self.sync_deletions()

    def hints(self) -> tuple[int | None, int | None]:
        """Return the numbers in LATEST and EARLIEST; None if a hint is absent or unreadable."""
        folder = f"{self.root}/changelog"
        latest_hint = read_hint(self.file_io, f"{folder}/{_LATEST}")
        return latest_hint, read_hint(self.file_io, f"{folder}/{_EARLIEST}")

    def _path(self, snapshot_id: int) -> str:
        return f"{self.root}/changelog/{_PREFIX}{snapshot_id}"
