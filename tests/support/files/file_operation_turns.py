"""Actors that stop before a chosen file operation, so that a test decides their order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from stream_app.fileio.file_io import FileIO
from stream_app.table.file_store_table import FileStoreTable

LIMIT_S = 240
_OPERATIONS = frozenset(
    ("open_input", "open_output", "sync", "read_bytes", "write_bytes", "create_if_absent",
     "overwrite", "sync_deletions", "list_names", "list_status", "exists", "size", "delete",
     "delete_empty_folder")
)  # fmt: skip


class DeadError(BaseException):
    """The error of every operation of a killed actor."""


class GatedFileIO:
    """A file system that asks before each operation."""

    def __init__(self, files: FileIO, gate: Callable[[str], None]) -> None:
        self._files, self._gate = files, gate

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._files, name)
        if name not in _OPERATIONS:
            return method

        def gated(*arguments: Any, **keywords: Any) -> Any:
            self._gate(name)
            return method(*arguments, **keywords)

        return gated


@dataclass
class Actor:
    """Work in a thread of its own, which runs only while `run_to` or `finish` waits for it.

    Attributes:
        operations: those that have been done.
        result, error: of the work, when it has ended.
    """

    table: FileStoreTable
    work: Callable[[FileStoreTable], Any]
    operations: list[str] = field(default_factory=list)
    result: Any = None
    error: BaseException | None = None
    has_ended: bool = False
    _stop: int | None = None
    _is_killed: bool = False
    _may_go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _has_stopped: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _thread: threading.Thread | None = None

    def run_to(self, operation: int | None) -> None:
        """Let the actor run until it stands before an operation (from 0), or None: to its end."""
        is_there = self._thread is not None and len(self.operations) == operation
        if self.has_ended or is_there:
            return
        self._stop = operation
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._may_go.release()
        assert self._has_stopped.acquire(timeout=LIMIT_S), "it waits for something else"

    def finish(self) -> None:
        """Let the actor run to its end."""
        self.run_to(None)

    def kill(self) -> None:
        """Let the actor do nothing more."""
        self._is_killed = True
        self.finish()

    def _run(self) -> None:
        self._may_go.acquire()
        try:
            files: Any = GatedFileIO(self.table.file_io, self._pass)
            self.result = self.work(replace(self.table, file_io=files))
        except BaseException as error:
            self.error = error
        self.has_ended = True
        self._has_stopped.release()

    def _pass(self, operation: str) -> None:
        if not self._is_killed and len(self.operations) == self._stop:
            self._has_stopped.release()
            self._may_go.acquire()
        if self._is_killed:
            raise DeadError
        self.operations.append(operation)
