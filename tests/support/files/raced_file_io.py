"""A file system on which another writer acts just before each of our snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stream_app.fileio.local.local_file_io import LocalFileIO


@dataclass(frozen=True)
class RacedFileIO(LocalFileIO):
    """Local files that run the next of `rivals` before each of our snapshots is created."""

    rivals: list[Callable[[], object]] = field(default_factory=list)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if self.rivals and Path(path).name.startswith("snapshot-"):
            self.rivals.pop(0)()
        return LocalFileIO.create_if_absent(self, path, data)
