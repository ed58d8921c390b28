"""Local files on which another writer commits just before or just after one of our snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stream_app.fileio.local.local_file_io import LocalFileIO


@dataclass(frozen=True)
class OvertakenFileIO(LocalFileIO):
    """Local files that run each action once, at one of our snapshots, the last of a list first.

    Attributes:
        before: done before a snapshot is created.
        afterwards: done when it is.
    """

    before: list[Callable[[], object]] = field(default_factory=list)
    afterwards: list[Callable[[], object]] = field(default_factory=list)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if not Path(path).name.startswith("snapshot-"):
            return LocalFileIO.create_if_absent(self, path, data)
        if self.before:
            self.before.pop()()
        is_created = LocalFileIO.create_if_absent(self, path, data)
        if self.afterwards:
            self.afterwards.pop()()
        return is_created
