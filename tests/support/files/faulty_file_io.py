"""A file system that fails at a chosen operation, as a dying process or a full disk would.

Only operations that change something are counted. A failing one can do nothing ("before"), do all
its work and then fail ("after": the answer is lost), or leave half a file ("half").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from stream_app.fileio.local.local_file_io import LocalFileIO

Mode = Literal["before", "after", "half"]


class InjectedError(OSError):
    """The error of the chosen operation."""


@dataclass
class Fault:
    """The operation that fails, by its number from 0; a process that is `dead` can do no more."""

    number: int = -1
    mode: Mode = "before"
    stays_dead: bool = False
    done: list[str] = field(default_factory=list)

    @property
    def has_struck(self) -> bool:
        return 0 <= self.number < len(self.done)

    def strikes(self, operation: str) -> bool:
        if self.stays_dead and self.has_struck:
            raise InjectedError(f"dead since operation {self.number}, {self.done[self.number]}")
        self.done.append(operation)
        return len(self.done) - 1 == self.number


@dataclass(frozen=True)
class FaultyFileIO(LocalFileIO):
    """The local file system with one fault."""

    fault: Fault = field(default_factory=Fault)

    def _do(
        self, operation: str, path: str, work: Callable[[], Any], half: Callable[[], Any]
    ) -> Any:
        if not self.fault.strikes(f"{operation} {Path(path).name}"):
            return work()
        if self.fault.mode == "after":
            work()
        elif self.fault.mode == "half":
            half()
        raise InjectedError(f"operation {self.fault.number}: {operation} {path}")

    def open_output(self, path: str) -> pa.NativeFile:
        def half() -> None:
            with LocalFileIO.open_output(self, path) as sink:
                sink.write(b"PAR1")

        return self._do("open", path, lambda: LocalFileIO.open_output(self, path), half)

    def sync(self, path: str) -> None:
        self._do("sync", path, lambda: LocalFileIO.sync(self, path), lambda: None)

    def write_bytes(self, path: str, data: bytes) -> None:
        whole = LocalFileIO()
        self._do(
            "write",
            path,
            lambda: whole.write_bytes(path, data),
            lambda: whole.write_bytes(path, data[: len(data) // 2]),
        )

    def create_if_absent(self, path: str, data: bytes) -> bool:
        whole = LocalFileIO()

        def half() -> None:
            whole.write_bytes(f"{Path(path).parent}/.{Path(path).name}.x.tmp", data[:-1])

        return self._do("create", path, lambda: whole.create_if_absent(path, data), half)

    def overwrite(self, path: str, data: bytes) -> None:
        whole = LocalFileIO()
        self._do("overwrite", path, lambda: whole.overwrite(path, data), lambda: None)

    def delete(self, path: str) -> None:
        self._do("delete", path, lambda: LocalFileIO.delete(self, path), lambda: None)

    def sync_deletions(self, folder: str) -> None:
        work = LocalFileIO.sync_deletions
        self._do("sync deletions", folder, lambda: work(self, folder), lambda: None)
