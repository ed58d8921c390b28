"""Syncs files while others are written.

A sync waits for the disk and needs no core; a task that writes many files need not wait after each.
What `wait` has returned from is as safe as with a sync after each file.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import pyarrow as pa

from stream_app.fileio.file_io import FileIO, FileStatus

_THREADS = 4


class BackgroundSync:
    """A `FileIO` whose `sync` returns at once; for one task, which must `wait` at its end."""

    def __init__(self, file_io: FileIO) -> None:
        self._file_io = file_io
        self._syncs: list[Future[None]] = []

    def wait(self) -> None:
        """Return when every file is safe.

        Raises:
            OSError: one of them is not.
        """
        syncs, self._syncs = self._syncs, []
        for sync in syncs:
            sync.result()

    def close(self) -> None:
        """Wait for what has begun; errors are ignored."""
        for sync in self._syncs:
            with contextlib.suppress(Exception):
                sync.result()

    def check_atomic_create(self, folder: str) -> None:
        """Whether tables can be written."""
        self._file_io.check_atomic_create(folder)

    def sync(self, path: str) -> None:
        """Begin to sync a file."""
        self._syncs.append(_threads(os.getpid()).submit(self._file_io.sync, path))

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reading."""
        return self._file_io.open_input(path)

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing."""
        return self._file_io.open_output(path)

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        return self._file_io.read_bytes(path)

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a new file whole, synced when this returns."""
        self._file_io.write_bytes(path, data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file whole and at once, unless there is one."""
        return self._file_io.create_if_absent(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a file at once."""
        self._file_io.overwrite(path, data)

    def list_names(self, folder: str) -> list[str]:
        """Names of the files in a folder."""
        return self._file_io.list_names(folder)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return self._file_io.exists(path)

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self._file_io.size(path)

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._file_io.delete(path)

    def sync_deletions(self, folder: str) -> None:
        """Let deletions survive a crash; done when this returns."""
        self._file_io.sync_deletions(folder)

    def list_status(self, folder: str) -> list[FileStatus]:
        """The entries of a folder."""
        return self._file_io.list_status(folder)

    def delete_empty_folder(self, folder: str) -> None:
        """Delete a folder, unless something lies in it."""
        self._file_io.delete_empty_folder(folder)


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """The threads of this process, for all of its writers; a fork has none of them."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
