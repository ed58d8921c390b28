"""Counts the requests to a file system, by kind.

It counts operations of `FileIO`. Opening a file counts once, however many ranges a reader reads and
however often the store's client retries.

A copy in another process counts from 0, and the task's result returns its counts.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from stream_app.fileio.file_io import FileIO

REQUEST_KINDS = ("get", "put", "list", "delete")
ERRORS = "_errors"
"""The suffix of a kind for its failed requests. A request for a missing file has not failed."""
_KIND_OF = {
    **dict.fromkeys(("open_input", "read_bytes", "exists", "size"), "get"),
    **dict.fromkeys(("open_output", "write_bytes", "create_if_absent", "overwrite"), "put"),
    **dict.fromkeys(("list_names", "list_status"), "list"),
    **dict.fromkeys(("delete", "delete_empty_folder"), "delete"),
}
"""The kind of each counted operation. The others send no request, or one in a job's run."""


@dataclass(slots=True)
class RequestCounter:
    """A counter of a process's requests by kind; thread-safe."""

    _counts: Counter[str] = field(init=False, default_factory=Counter)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def add(self, counts: Mapping[str, int]) -> None:
        """Add numbers of requests; keys are kinds, with or without `ERRORS`."""
        with self._lock:
            self._counts.update(counts)

    def total(self) -> Mapping[str, int]:
        """Return all counts by kind, and by kind with `ERRORS`."""
        with self._lock:
            return dict(self._counts)


@dataclass(frozen=True, slots=True)
class CountedFileIO:
    """A wrapper of another `FileIO` that counts the requests that `_KIND_OF` names."""

    file_io: FileIO
    request_counter: RequestCounter = field(
        default_factory=RequestCounter, compare=False, repr=False
    )

    def __reduce__(self) -> tuple[type[CountedFileIO], tuple[FileIO]]:
        return CountedFileIO, (self.file_io,)

    def __getattr__(self, operation: str) -> Any:
        call = getattr(self.file_io, operation)
        kind = _KIND_OF.get(operation)
        return call if kind is None else partial(self._count_request, kind, call)

    def _count_request(self, kind: str, call: Callable[..., Any], *args: Any) -> Any:
        try:
            result = call(*args)
        except FileNotFoundError:
            self.request_counter.add({kind: 1})
            raise
        except OSError:
            self.request_counter.add({kind: 1, kind + ERRORS: 1})
            raise
        self.request_counter.add({kind: 1})
        return result


def counting_file_io(file_io: FileIO, request_counter: RequestCounter) -> FileIO:
    """Wrap a file system so that its requests are counted."""
    return cast(FileIO, CountedFileIO(file_io, request_counter))
