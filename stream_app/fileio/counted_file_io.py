"""A file system whose requests are counted, by kind.

What is counted are the operations of `FileIO`. A file that is opened counts once, however many
ranges of it are read, and however often the store's client repeats a request.

A copy in another process counts from 0; what it counts travels back with the task's result.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from stream_app.fileio.file_io import FileIO, FileStatus

REQUEST_KINDS = ("get", "put", "list", "delete")
ERRORS = "_errors"
"""Ends the kind of requests that have failed; that a file is not there is no failure."""
_T = TypeVar("_T")


@dataclass(slots=True)
class StoreRequests:
    """Counts of a process; any thread may add and read."""

    _counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, counts: Mapping[str, int]) -> None:
        """Count requests: kind, with or without `ERRORS` → how many."""
        with self._lock:
            self._counts.update(counts)

    def total(self) -> Mapping[str, int]:
        """All so far, by kind, and by kind with `ERRORS`."""
        with self._lock:
            return dict(self._counts)


@dataclass(frozen=True, slots=True)
class CountedFileIO:
    """Implements `FileIO` by another one."""

    files: FileIO
    requests: StoreRequests = field(default_factory=StoreRequests, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[CountedFileIO], tuple[FileIO]]:
        return CountedFileIO, (self.files,)

    def _ask(self, kind: str, ask: Callable[[], _T]) -> _T:
        try:
            answer = ask()
        except FileNotFoundError:
            self.requests.add({kind: 1})
            raise
        except OSError:
            self.requests.add({kind: 1, kind + ERRORS: 1})
            raise
        self.requests.add({kind: 1})
        return answer

    def check_atomic_create(self, folder: str) -> None:
        """Not counted: once a run."""
        self.files.check_atomic_create(folder)

    def open_input(self, path: str) -> pa.NativeFile:
        """A get."""
        return self._ask("get", lambda: self.files.open_input(path))

    def open_output(self, path: str) -> pa.NativeFile:
        """A put."""
        return self._ask("put", lambda: self.files.open_output(path))

    def sync(self, path: str) -> None:
        """No request."""
        self.files.sync(path)

    def read_bytes(self, path: str) -> bytes:
        """A get."""
        return self._ask("get", lambda: self.files.read_bytes(path))

    def write_bytes(self, path: str, data: bytes) -> None:
        """A put."""
        self._ask("put", lambda: self.files.write_bytes(path, data))

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """A put."""
        return self._ask("put", lambda: self.files.create_if_absent(path, data))

    def overwrite(self, path: str, data: bytes) -> None:
        """A put."""
        self._ask("put", lambda: self.files.overwrite(path, data))

    def list_names(self, folder: str) -> list[str]:
        """A list."""
        return self._ask("list", lambda: self.files.list_names(folder))

    def list_status(self, folder: str) -> list[FileStatus]:
        """A list."""
        return self._ask("list", lambda: self.files.list_status(folder))

    def exists(self, path: str) -> bool:
        """A get."""
        return self._ask("get", lambda: self.files.exists(path))

    def size(self, path: str) -> int:
        """A get."""
        return self._ask("get", lambda: self.files.size(path))

    def delete(self, path: str) -> None:
        """A delete."""
        self._ask("delete", lambda: self.files.delete(path))

    def sync_deletions(self, folder: str) -> None:
        """No request."""
        self.files.sync_deletions(folder)

    def delete_empty_folder(self, folder: str) -> None:
        """A delete."""
        self._ask("delete", lambda: self.files.delete_empty_folder(folder))
