"""Syncs files while a task writes others.

A sync waits for the disk and uses no CPU, so the task can write its next file meanwhile. After
`wait` the files are as durable as with a sync after each file.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

from stream_app.fileio.file_io import FileIO

_THREAD_COUNT = 4


class BackgroundSync:
    """A `FileIO` whose `sync` returns at once. It serves one task, which must `wait` at its end.

    It delegates every other operation.
    """

    def __init__(self, file_io: FileIO) -> None:
        self._file_io = file_io
        self._syncs: list[Future[None]] = []

    def wait(self) -> None:
        """Wait until all files of the task are synced, or could not be.

        Raises:
            OSError: a file could not be synced.
        """
        first_error: Exception | None = None
        for sync in self._syncs:
            try:
                sync.result()
            except Exception as error:  # the abort deletes files, which nobody may be syncing then
                first_error = first_error or error
        self._syncs = []
        if first_error is not None:
            raise first_error

    def close(self) -> None:
        """Wait for the syncs that have begun, and ignore their errors."""
        for sync in self._syncs:
            with contextlib.suppress(Exception):
                sync.result()

    def sync(self, path: str) -> None:
        """Start to sync a file."""
        self._syncs.append(_threads(os.getpid()).submit(self._file_io.sync, path))

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._file_io, operation)


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """Return the sync threads that all writers of this process share, but not a forked one."""
    return ThreadPoolExecutor(_THREAD_COUNT, thread_name_prefix="sync")
