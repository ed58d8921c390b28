"""Reads and writes files on this machine's disks and mounted file systems.

`create_if_absent` links a finished temporary file to the name. POSIX refuses the link if the name
is taken, and no reader sees a half-written snapshot. Names of temporary files begin with a dot,
because readers parse every name that begins with ``snapshot-``.

Source: Paimon `fs/local/LocalFileIO.java`, `fs/Path.java#createTempPath`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from stream_app.errors import UsageError
from stream_app.fileio.file_io import FileStatus, UnsyncedError


@dataclass(frozen=True, slots=True)
class LocalFileIO:
    """The files of this machine, written so that they survive its crash."""

    def check_atomic_create(self, folder: str) -> None:
        """Do nothing: POSIX promises atomic links."""

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reading."""
        return pa.OSFile(path, "rb")

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing; creates missing folders."""
        try:
            return pa.OSFile(path, "wb")
        except FileNotFoundError:
            _create_folder(Path(path).parent)
            return pa.OSFile(path, "wb")

    def sync(self, path: str) -> None:
        """Flush the file and its name to the disk."""
        _sync(path)
        _sync(_folder_of(path))

    def read_bytes(self, path: str) -> bytes:
        """Read the whole file."""
        with open(path, "rb", buffering=0) as source:
            return source.readall()

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a new file whole."""
        with self.open_output(path) as sink:
            sink.write(data)
        self.sync(path)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Link a finished temporary file to the name; the link fails if the name is taken."""
        temporary_path = self._write_temporary(path, data)
        try:
            os.link(temporary_path, path)
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary_path)
        try:
            _sync(_folder_of(path))
        except OSError as error:
            raise UnsyncedError(error.errno, error.strerror, path) from error
        return True

    def overwrite(self, path: str, data: bytes) -> None:
        """Rename a finished temporary file over the name."""
        os.replace(self._write_temporary(path, data), path)
        _sync(_folder_of(path))

    def list_names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""
        try:
            return [entry.name for entry in os.scandir(folder) if not entry.is_dir()]
        except FileNotFoundError:
            return []

    def list_status(self, folder: str) -> list[FileStatus]:
        """Return the entries of a folder, without those that vanish during the listing."""
        statuses = []
        try:
            entries = list(os.scandir(folder))
        except FileNotFoundError:
            return []
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                status, is_folder = entry.stat(), entry.is_dir()
                size = 0 if is_folder else status.st_size
                modification_time_ms = status.st_mtime_ns // 1_000_000
                statuses.append(FileStatus(entry.name, size, modification_time_ms, is_folder))
        return statuses

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        return os.stat(path).st_size

    def delete(self, path: str) -> None:
        """Delete a file."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def sync_deletions(self, folder: str) -> None:
        """Flush the folder's names to the disk."""
        with contextlib.suppress(FileNotFoundError):
            _sync(folder)

    def delete_empty_folder(self, folder: str) -> None:
        """Delete a folder unless it has entries."""
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise

    def _write_temporary(self, path: str, data: bytes) -> str:
        folder, slash, name = path.rpartition("/")
        temporary_path = f"{folder}{slash}.{name}.{uuid.uuid4()}.tmp"
        try:
            with self.open_output(temporary_path) as sink:
                sink.write(data)
            _sync(temporary_path)
        except BaseException:
            self.delete(temporary_path)
            raise
        return temporary_path


def local_path(location: str) -> str:
    """Return the absolute path of a path or ``file:`` URI.

    Raises:
        UsageError: the URI is of another file system.
    """
    parts = urlsplit(location)
    if parts.scheme in ("", "file") and parts.netloc in ("", "localhost"):
        path = unquote(parts.path) if parts.scheme else location
        return str(Path(path).expanduser().absolute())
    raise UsageError(
        f"{location!r} is on a file system that stream_app does not support",
        fix="give a local path, or one that is mounted on the driver and all executors",
    )


def _create_folder(folder: Path) -> None:
    """Create a folder, and sync the names of all new folders."""
    new_folders = []
    while not folder.exists():
        new_folders.append(folder)
        folder = folder.parent
    for new_folder in reversed(new_folders):
        new_folder.mkdir(exist_ok=True)
        _sync(str(new_folder.parent))


def _folder_of(path: str) -> str:
    folder, slash, _ = path.rpartition("/")
    return folder or slash or "."


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
