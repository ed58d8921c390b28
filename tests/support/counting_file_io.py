"""A file system that notes what is opened, and how many bytes are read of it."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from stream_app.fileio.local_file_io import LocalFileIO


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
    """The local file system, watched.

    Attributes:
        read: bytes read, by the name of each file that was opened.
    """

    read: dict[str, int] = field(default_factory=dict)

    def open_input(self, path: str) -> pa.NativeFile:
        self.read.setdefault(Path(path).name, 0)
        return pa.PythonFile(_CountedFile(path, self.read), mode="r")

    def read_bytes(self, path: str) -> bytes:
        data = LocalFileIO.read_bytes(self, path)
        self.read[Path(path).name] = self.read.get(Path(path).name, 0) + len(data)
        return data

    def opened(self, prefix: str) -> list[str]:
        """Names of what was opened: ``data-``; for ``manifest-`` manifests, but no lists."""
        return sorted(
            name
            for name in self.read
            if name.startswith(prefix) and not name.startswith(f"{prefix}list-")
        )
