"""Computes what a power cut would leave of a local folder, by the calls of `os.fsync`.

A file's bytes count as of its own last sync, and the names in a folder as of the folder's. A disk
may keep more; nothing may rely on that.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class SyncedDisk:
    """A watch over the syncs below a folder, which itself survives.

    Attributes:
        files: bytes of each synced file, by its number on the disk.
        folders: names of each synced folder and the numbers of what they mean, by its number.
    """

    root: Path
    files: dict[int, bytes] = field(default_factory=dict)
    folders: dict[int, dict[str, int]] = field(default_factory=dict)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Record the syncs from now on, instead of waiting for the disk."""
        monkeypatch.setattr("os.fsync", self._note)

    def found_after(self, folder: Path) -> Path:
        """Return the folder, filled with what a power cut at this moment would leave."""
        self._restore(self.root.stat().st_ino, folder)
        return folder

    def _note(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if not stat.S_ISDIR(status.st_mode):
            self.files[status.st_ino] = os.pread(descriptor, status.st_size, 0)
            return
        names = {}
        for name in os.listdir(descriptor):
            with contextlib.suppress(FileNotFoundError):  # deleted at this moment
                names[name] = os.stat(name, dir_fd=descriptor).st_ino
        self.folders[status.st_ino] = names

    def _restore(self, number: int, folder: Path) -> None:
        folder.mkdir()
        for name, below in self.folders.get(number, {}).items():
            if below in self.folders:
                self._restore(below, folder / name)
            elif below in self.files:
                (folder / name).write_bytes(self.files[below])
