"""Syncs files while others are written.

A sync waits for the disk and needs no core; a task that writes many files need not wait after each.
After `wait` the files are as safe as with a sync after each file.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

from stream_app.fileio.file_io import FileIO

_THREADS = 4


class BackgroundSync:
    """A `FileIO` whose `sync` returns at once; for one task, which must `wait` at its end.

    It hands every other operation on.
    """

    def __init__(self, file_io: FileIO) -> None:
        self._file_io = file_io
        self._syncs: list[Future[None]] = []

    def wait(self) -> None:
        """Wait until all files of the task are synced.

        Raises:
            OSError: one of them is not.
        """
        syncs, self._syncs = self._syncs, []
        for sync in syncs:
            sync.result()

    def close(self) -> None:
        """Wait for syncs that have begun; errors are ignored."""
        for sync in self._syncs:
            with contextlib.suppress(Exception):
                sync.result()

    def sync(self, path: str) -> None:
        """Begin to sync a file."""
        self._syncs.append(_threads(os.getpid()).submit(self._file_io.sync, path))

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._file_io, operation)


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """The sync threads of this process, shared by its writers; a forked process starts its own."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
