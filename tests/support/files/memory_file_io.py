"""A file system in memory, which also tells what a crash of its machine would leave.

Keeps the promises of `file_io` for any number of threads of one process. Nothing of it is on a
disk: it is for tests and simulations. `after_crash` gives the file system as a
machine that loses its memory at this moment would find it.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pyarrow as pa

from stream_app.clock import Clock, SystemClock
from stream_app.fileio.file_io import FileStatus


@dataclass(slots=True)
class _File:
    """A file's content, what of it is on the disk (None: not even the name), and its time."""

    data: bytearray | bytes
    synced_data: bytes | None
    modification_time_ms: int


def _nothing(path: str, size: int) -> None:
    return None


def _never(path: str) -> bool:
    return False


@dataclass(slots=True)
class MemoryFileIO:
    """Files in the memory of this process, which cannot be pickled: they would become two.

    Attributes:
        clock: gives the times at which files are written.
    """

    clock: Clock = field(default_factory=SystemClock)
    _files: dict[str, _File] = field(default_factory=dict, repr=False)
    # Ordered, unlike a set of texts, so that a simulation sees the same names in the same order.
    _folders: dict[str, dict[str, None]] = field(default_factory=dict, repr=False)
    _deleted_data: dict[str, bytes] = field(default_factory=dict, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a MemoryFileIO cannot be pickled: its files are in the memory of one process; "
            "use a file system that all processes reach"
        )

    def after_crash(
        self,
        *,
        surviving: Callable[[str, int], int | None] = _nothing,
        is_back: Callable[[str], bool] = _never,
    ) -> MemoryFileIO:
        """Return the files that a crash of the machine at this moment would leave; these ones stay.

        What was synced stays, and so does what `create_if_absent` and `overwrite` have returned
        from. All else is up to the caller, as it is up to chance on a disk.

        Args:
            surviving: gets the path and the size of each file that was written and not synced;
                gives how many of its bytes are left, None for not even the name.
            is_back: gets the path of each file that was synced once and then deleted, without a
                `sync_deletions` since; gives whether the deletion was lost.
        """
        files = MemoryFileIO(self.clock)
        with self._lock:
            for folder in self._folders:
                if folder not in files._folders:
                    files._create_folder(folder)
            for path, data in self._deleted_data.items():
                if path not in self._files and is_back(path):
                    files._put(path, data, is_synced=True)
            for path, file in self._files.items():
                content = file.synced_data
                if content is None or content != file.data:
                    count = surviving(path, len(file.data))
                    content = content if count is None else bytes(file.data[:count])
                if content is not None:
                    files._put(path, content, is_synced=True)
                    files._files[path].modification_time_ms = file.modification_time_ms
        return files

    def check_atomic_create(self, folder: str) -> None:
        """Do nothing: the lock makes creation atomic."""

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reading; the reader does not see later writes and deletions."""
        return pa.BufferReader(self.read_bytes(path))

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing, and create missing folders."""
        with self._lock:
            file = self._put(path, bytearray(), is_synced=False)
        return pa.PythonFile(_Output(self, file), mode="w")

    def sync(self, path: str) -> None:
        """Let the file survive `after_crash`."""
        with self._lock:
            file = self._file(path)
            file.synced_data = bytes(file.data)

    def read_bytes(self, path: str) -> bytes:
        """Return the whole file."""
        with self._lock:
            return bytes(self._file(path).data)

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a new file whole, and sync it."""
        with self._lock:
            self._put(path, data, is_synced=True)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file whole and at once, unless there is one."""
        with self._lock:
            if path in self._files:
                return False
            self._put(path, data, is_synced=True)
            return True

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a file at once."""
        self.write_bytes(path, data)

    def list_names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, the oldest first."""
        with self._lock:
            names = self._folders.get(folder, ())
            return [name for name in names if f"{folder}/{name}" in self._files]

    def list_status(self, folder: str) -> list[FileStatus]:
        """Return what lies in a folder, the oldest first."""
        with self._lock:
            return [self._status(folder, name) for name in self._folders.get(folder, ())]

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder."""
        with self._lock:
            return path in self._files or path in self._folders

    def size(self, path: str) -> int:
        """Return the number of bytes of a file."""
        with self._lock:
            return len(self._file(path).data)

    def delete(self, path: str) -> None:
        """Delete a file."""
        with self._lock:
            file = self._files.pop(path, None)
            if file is None:
                return
            folder, _, name = path.rpartition("/")
            del self._folders[folder][name]
            if file.synced_data is not None:
                self._deleted_data[path] = file.synced_data

    def sync_deletions(self, folder: str) -> None:
        """Let deletions survive `after_crash`."""
        with self._lock:
            for path in [path for path in self._deleted_data if path.rpartition("/")[0] == folder]:
                del self._deleted_data[path]

    def delete_empty_folder(self, folder: str) -> None:
        """Delete a folder, unless something lies in it."""
        with self._lock:
            if self._folders.get(folder) == {}:
                del self._folders[folder]
                above, _, name = folder.rpartition("/")
                self._folders[above].pop(name, None)

    def _file(self, path: str) -> _File:
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(2, "No such file", path) from None

    def _put(self, path: str, data: bytearray | bytes, *, is_synced: bool) -> _File:
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            self._create_folder(folder)
        self._folders[folder][name] = None
        file = _File(data, bytes(data) if is_synced else None, self.clock.now_ms())
        self._files[path] = file
        return file

    def _create_folder(self, folder: str) -> None:
        self._folders[folder] = {}
        if folder:
            above, _, name = folder.rpartition("/")
            if above not in self._folders:
                self._create_folder(above)
            self._folders[above][name] = None

    def _status(self, folder: str, name: str) -> FileStatus:
        file = self._files.get(f"{folder}/{name}")
        if file is None:
            return FileStatus(name, 0, 0, True)
        return FileStatus(name, len(file.data), file.modification_time_ms, False)


class _Output(io.RawIOBase):
    """An output whose bytes are in the file at once, as on a disk, but not synced."""

    def __init__(self, files: MemoryFileIO, file: _File) -> None:
        self._files, self._file = files, file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with self._files._lock:
            assert isinstance(self._file.data, bytearray)
            self._file.data += data
            self._file.modification_time_ms = self._files.clock.now_ms()
        return len(data)

    def tell(self) -> int:
        return len(self._file.data)
