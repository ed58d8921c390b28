"""Manages a table's snapshot files: ``snapshot/snapshot-<n>`` and the hints LATEST and EARLIEST.

A snapshot exists as soon as its file does. The hints only save a listing, and may be stale or
absent, for example after a crash.

Source: Paimon `utils/SnapshotManager.java`, `utils/SnapshotLoader.java`,
`utils/HintFileUtils.java`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from stream_app.errors import RESTORE_FIX, CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.versions.numbered_files import listed_ids, read_hint
from stream_app.format.snapshot_json import decode_snapshot, encode_snapshot
from stream_app.model.snapshot import Snapshot

_PREFIX = "snapshot-"
_LATEST, _EARLIEST = "LATEST", "EARLIEST"


class SnapshotLoader(Protocol):
    """A catalog that decides which snapshot of a table is the latest."""

    def latest(self) -> Snapshot | None:
        """Return the latest snapshot; None without snapshots."""
        ...

    def roll_back(self, target_id: int, latest_id: int) -> None:
        """Make a snapshot the latest one, and delete later ones with their tags.

        Args:
            latest_id: the latest snapshot so far; the catalog refuses if another one is
                the latest.

        Raises:
            UsageError: the catalog does not have the target.
        """
        ...


@dataclass(frozen=True, slots=True)
class SnapshotManager:
    """The snapshots of the table at `root`.

    Attributes:
        loader: the catalog that decides which snapshot is the latest; None: the files decide.
    """

    file_io: FileIO
    root: str
    loader: SnapshotLoader | None = None

    def latest_id(self) -> int | None:
        """Return the number of the latest snapshot; None without snapshots."""
        if self.loader is not None:
            latest_snapshot = self.loader.latest()
            return None if latest_snapshot is None else latest_snapshot.snapshot_id
        hint = self._hint(_LATEST)
        # The hint is written after the snapshot, so it may be behind but never ahead.
        if hint is not None and self.exists(hint) and not self.exists(hint + 1):
            return hint
        ids = self.ids()
        return ids[-1] if ids else None

    def earliest_id(self) -> int | None:
        """Return the number of the earliest snapshot; None without snapshots."""
        hint = self._hint(_EARLIEST)
        if hint is not None and self.exists(hint):
            return hint
        ids = self.ids()
        return ids[0] if ids else None

    def ids(self) -> list[int]:
        """List the folder, and return the numbers of all snapshots, ascending."""
        return listed_ids(self.file_io, f"{self.root}/snapshot", _PREFIX)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Return a snapshot by number.

        Raises:
            FileNotFoundError: the snapshot does not exist, or has expired.
            CorruptFileError: the file is not a snapshot.
        """
        path = self._path(snapshot_id)
        data = self.file_io.read_bytes(path)
        try:
            snapshot = decode_snapshot(data)
        except CorruptFileError as error:
            raise CorruptFileError(error.problem, where=path, fix=error.fix) from error
        if snapshot.snapshot_id != snapshot_id:
            raise CorruptFileError(
                f"the file of snapshot {snapshot_id} holds snapshot {snapshot.snapshot_id}",
                where=path,
                fix=RESTORE_FIX,
            )
        return snapshot

    def delta_list(self, snapshot_id: int) -> str | None:
        """Return the delta manifest list of a snapshot; None if it is gone or unreadable."""
        try:
            return self.snapshot(snapshot_id).delta_manifest_list
        except (FileNotFoundError, CorruptFileError):
            return None

    def latest(self, *, known_latest_id: int | None = None) -> Snapshot | None:
        """Return the latest snapshot, even if an expiry or a rollback deletes snapshots meanwhile.

        Args:
            known_latest_id: the latest number that the caller knows, which replaces the hint
                LATEST. The hint is read if this snapshot is gone or has a successor.
        """
        if self.loader is not None:
            return self.loader.latest()
        for hint in (known_latest_id, None):
            snapshot_id = self._hint(_LATEST) if hint is None else hint
            # Numbers are consecutive, so a snapshot without a successor is the latest, as with
            # LATEST.
            if snapshot_id is not None and not self.exists(snapshot_id + 1):
                try:
                    return self.snapshot(snapshot_id)
                except FileNotFoundError:
                    continue
        return self._latest_listed()

    def _latest_listed(self) -> Snapshot | None:
        ids = self.ids()
        while ids:
            try:
                return self.snapshot(ids[-1])
            except FileNotFoundError:
                missing_id, ids = ids[-1], self.ids()
                if ids and ids[-1] == missing_id:
                    raise
        return None

    def exists(self, snapshot_id: int) -> bool:
        """Return whether the snapshot exists now."""
        # A store needs two requests to check a file or folder, but one for a file's size.
        try:
            self.file_io.size(self._path(snapshot_id))
        except FileNotFoundError:
            return False
        return True

    def backwards(self, *, start: int | None = None, down_to: int = 1) -> Iterator[Snapshot]:
        """Yield snapshots from a number down to the earliest; None begins at the latest."""
        current_id = self.latest_id() if start is None else start
        while current_id is not None and current_id >= down_to:
            try:
                yield self.snapshot(current_id)
            except FileNotFoundError:  # expired
                return
            current_id -= 1

    def publish(self, snapshot: Snapshot) -> bool:
        """Publish a snapshot; False if another one has its number.

        Raises:
            UnsyncedError: the snapshot exists, but may vanish in a crash of the machine.
        """
        path = self._path(snapshot.snapshot_id)
        return self.file_io.create_if_absent(path, encode_snapshot(snapshot))

    def write_hint_and_reread(self, snapshot_id: int) -> Snapshot | None:
        """Write the hint that a new snapshot is the latest.

        Failing to write the hint is harmless: readers fall back to listing. A writer delayed here
        until its snapshot has expired must not leave a stale hint, because Paimon trusts hints.

        Returns:
            The snapshot that has the number afterwards; None if it has expired.
        """
        self._write_hint(_LATEST, snapshot_id)
        try:
            return self.snapshot(snapshot_id)
        except FileNotFoundError:
            while not self.exists(snapshot_id) and (ids := self.ids()):
                snapshot_id = ids[-1]
                self._write_hint(_LATEST, snapshot_id)
            return None

    def restore_earliest_hint(self) -> None:
        """Write the hint EARLIEST, if it does not exist."""
        if self._hint(_EARLIEST) is None and (ids := self.ids()):
            self._write_hint(_EARLIEST, ids[0])

    def latest_hint(self) -> int | None:
        """Return the number in LATEST; None if it is absent or unreadable."""
        return self._hint(_LATEST)

    def hints(self) -> tuple[int | None, int | None]:
        """Return the numbers in LATEST and EARLIEST; None if a hint is absent or unreadable."""
        return self._hint(_LATEST), self._hint(_EARLIEST)

    def restore(self, snapshot: Snapshot) -> None:
        """Write the file of a snapshot that a tag or another branch has, unless it exists."""
        self.file_io.create_if_absent(self._path(snapshot.snapshot_id), encode_snapshot(snapshot))

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Write the hint of the latest snapshot, if no later one exists."""
        self._write_hint(_LATEST, snapshot_id)

    def delete_latest_hint(self) -> None:
        """Delete the hint, so that readers list the folder during a rollback.

        If the next number does not exist, Paimon trusts even a stale hint of a deleted snapshot. So
        the deletion is durable, and the hint does not reappear after a crash.

        Raises:
            OSError: the file system refused.
        """
        self.file_io.delete(f"{self.root}/snapshot/{_LATEST}")
        self.sync_deletions()

    def delete(self, snapshot_id: int) -> None:
        """Delete a snapshot's file, durably after `sync_deletions`."""
        self.file_io.delete(self._path(snapshot_id))

    def sync_deletions(self) -> None:
        """Sync, so that no deleted snapshot reappears after a crash of the machine."""
        self.file_io.sync_deletions(f"{self.root}/snapshot")

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Write the hint of the earliest snapshot, which saves readers a listing."""
        self._write_hint(_EARLIEST, snapshot_id)

    def _write_hint(self, name: str, snapshot_id: int) -> None:
        try:
            self.file_io.overwrite(f"{self.root}/snapshot/{name}", str(snapshot_id).encode())
        except OSError:
            return  # readers then list the folder

    def _hint(self, name: str) -> int | None:
        return read_hint(self.file_io, f"{self.root}/snapshot/{name}")

    def _path(self, snapshot_id: int) -> str:
        return f"{self.root}/snapshot/{_PREFIX}{snapshot_id}"
