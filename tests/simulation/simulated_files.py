"""A file system whose operations are interrupted, fail, are lost, and are written down.

One for each process; all share the files of the `World`.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from stream_app.fileio.file_io import FileStatus
from tests.simulation.faults import FaultKind, InjectedError
from tests.simulation.scheduler import Process
from tests.support.files.memory_file_io import MemoryFileIO


class FaultyWorld(Protocol):
    """The services of the world that its files need."""

    files: MemoryFileIO

    def before(self, process: Process, operation: str, path: str) -> FaultKind | None:
        """An operation is about to be done; how it fails. May raise `CrashError`."""
        ...

    def after(self, process: Process, operation: str, outcome: str) -> None:
        """Learn that an operation has ended."""
        ...

    def strike(self, process: Process, kind: FaultKind) -> None:
        """Kill the process that a deadly fault strikes. Raises `CrashError`."""
        ...


class _FullDisk(io.RawIOBase):
    """Takes one piece and no more."""

    def __init__(self, sink: pa.NativeFile) -> None:
        self._sink, self._left = sink, 1

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._left -= 1
        if self._left < 0:
            raise InjectedError("no space is left")
        self._sink.write(bytes(data)[: max(1, len(data) // 2)])
        return len(data)

    def tell(self) -> int:
        return int(self._sink.tell())


@dataclass(frozen=True, slots=True)
class SimulatedFileIO:
    """The world's files as one process sees them."""

    world: FaultyWorld
    process: Process

    def check_atomic_create(self, folder: str) -> None:
        """Accept: each simulated file system creates files atomically."""

    def open_input(self, path: str) -> pa.NativeFile:
        return self._do("open_input", path, lambda: self.world.files.open_input(path))

    def open_output(self, path: str) -> pa.NativeFile:
        def half() -> pa.NativeFile:
            return pa.PythonFile(_FullDisk(self.world.files.open_output(path)), mode="w")

        fault = self._begin("open_output", path)
        if fault is FaultKind.HALF:
            return half()
        return self._end("open_output", fault, lambda: self.world.files.open_output(path))

    def sync(self, path: str) -> None:
        self._do("sync", path, lambda: self.world.files.sync(path))

    def read_bytes(self, path: str) -> bytes:
        return self._do("read_bytes", path, lambda: self.world.files.read_bytes(path))

    def write_bytes(self, path: str, data: bytes) -> None:
        def half() -> None:
            with self.world.files.open_output(path) as sink:
                sink.write(data[: len(data) // 2])

        self._do("write_bytes", path, lambda: self.world.files.write_bytes(path, data), half, data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        def denied() -> bool:
            self.world.files.create_if_absent(path, data)
            return False

        fault = self._begin("create_if_absent", path, data)
        if fault is FaultKind.DENIED:
            return self._end("create_if_absent", None, denied)
        work = self.world.files.create_if_absent
        return self._end("create_if_absent", fault, lambda: work(path, data))

    def overwrite(self, path: str, data: bytes) -> None:
        self._do("overwrite", path, lambda: self.world.files.overwrite(path, data), data=data)

    def list_names(self, folder: str) -> list[str]:
        return self._do("list_names", folder, lambda: self.world.files.list_names(folder))

    def list_status(self, folder: str) -> list[FileStatus]:
        return self._do("list_status", folder, lambda: self.world.files.list_status(folder))

    def exists(self, path: str) -> bool:
        return self._do("exists", path, lambda: self.world.files.exists(path))

    def size(self, path: str) -> int:
        return self._do("size", path, lambda: self.world.files.size(path))

    def delete(self, path: str) -> None:
        self._do("delete", path, lambda: self.world.files.delete(path))

    def sync_deletions(self, folder: str) -> None:
        self.world.files.sync_deletions(folder)

    def delete_empty_folder(self, folder: str) -> None:
        work = self.world.files.delete_empty_folder
        self._do("delete_empty_folder", folder, lambda: work(folder))

    def _do(
        self,
        operation: str,
        path: str,
        work: Callable[[], Any],
        half: Callable[[], Any] | None = None,
        data: bytes = b"",
    ) -> Any:
        return self._end(operation, self._begin(operation, path, data), work, half)

    def _begin(self, operation: str, path: str, data: bytes = b"") -> FaultKind | None:
        text = f"{path} {len(data)} {zlib.crc32(data)}" if data else path
        return self.world.before(self.process, operation, text)

    def _end(
        self,
        operation: str,
        fault: FaultKind | None,
        work: Callable[[], Any],
        half: Callable[[], Any] | None = None,
    ) -> Any:
        """Do the operation as the fault allows."""
        match fault:
            case FaultKind.FAILS | FaultKind.DENIED:
                raise InjectedError(f"{operation} fails")
            case FaultKind.HALF:
                if half is not None:
                    half()
                raise InjectedError(f"{operation} fails half way")
            case FaultKind.DIES_BEFORE | FaultKind.POWER_BEFORE:
                self.world.strike(self.process, fault)
        try:
            result = work()
        except FileNotFoundError:
            self.world.after(self.process, operation, "absent")
            raise
        self.world.after(self.process, operation, _outcome(result))
        match fault:
            case FaultKind.LOST | FaultKind.OUTAGE:
                raise InjectedError(f"the answer to {operation} is lost")
            case FaultKind.DIES_AFTER | FaultKind.POWER_AFTER:
                self.world.strike(self.process, fault)
        return result


def _outcome(result: Any) -> str:
    if isinstance(result, bytes):
        return f"{len(result)} {zlib.crc32(result)}"
    return "" if isinstance(result, pa.NativeFile) else repr(result)
