"""A file system that records the files that are opened, the bytes read, and the requests."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from stream_app.fileio.file_io import FileStatus
from stream_app.fileio.local.local_file_io import LocalFileIO


class _CountedFile(io.FileIO):
    """A file that is read by pieces."""

    def __init__(self, path: str, counts: dict[str, int]) -> None:
        super().__init__(path, "rb")
        self._counts, self._name = counts, Path(path).name

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size) or b""
        self._counts[self._name] += len(data)
        return data


@dataclass(frozen=True)
class CountingFileIO(LocalFileIO):
    """The local file system, which counts what it does.

    Attributes:
        read: bytes read, by the name of each file that was opened.
        operations: operation and path of all that a store would answer by a request of its own.
    """

    read: dict[str, int] = field(default_factory=dict)
    operations: list[tuple[str, str]] = field(default_factory=list)

    def count(self, operation: str, part: str) -> int:
        """Return the number of requests of an operation for paths that contain this text."""
        return sum(name == operation and part in path for name, path in self.operations)

    def size(self, path: str) -> int:
        self.operations.append(("size", path))
        return LocalFileIO.size(self, path)

    def exists(self, path: str) -> bool:
        self.operations.append(("exists", path))
        return LocalFileIO.exists(self, path)

    def list_names(self, folder: str) -> list[str]:
        self.operations.append(("list", folder))
        return [
            status.name for status in LocalFileIO.list_status(self, folder) if not status.is_folder
        ]

    def list_status(self, folder: str) -> list[FileStatus]:
        self.operations.append(("list", folder))
        return LocalFileIO.list_status(self, folder)

    def write_bytes(self, path: str, data: bytes) -> None:
        self.operations.append(("write", path))
        LocalFileIO.write_bytes(self, path, data)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        self.operations.append(("create", path))
        return LocalFileIO.create_if_absent(self, path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self.operations.append(("write", path))
        LocalFileIO.overwrite(self, path, data)

    def delete(self, path: str) -> None:
        self.operations.append(("delete", path))
        LocalFileIO.delete(self, path)

    def open_input(self, path: str) -> pa.NativeFile:
        self.read.setdefault(Path(path).name, 0)
        return pa.PythonFile(_CountedFile(path, self.read), mode="r")

    def read_bytes(self, path: str) -> bytes:
        self.operations.append(("read", path))
        data = LocalFileIO.read_bytes(self, path)
        self.read[Path(path).name] = self.read.get(Path(path).name, 0) + len(data)
        return data

    def opened(self, prefix: str) -> list[str]:
        """Return the names of opened files: ``data-``; for ``manifest-`` no manifest lists."""
        return sorted(
            name
            for name in self.read
            if name.startswith(prefix) and not name.startswith(f"{prefix}list-")
        )
