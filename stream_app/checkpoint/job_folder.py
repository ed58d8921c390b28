"""Defines a folder of the job's own, on any file system: its checkpoint or its quarantine.

These files need far fewer promises than a table's `FileIO`. So file systems that only Spark reaches
are sufficient (`spark.driver.hadoop_files`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class FolderFileIO(Protocol):
    """The operations on small files that a folder needs; every `fileio.file_io.FileIO` has them."""

    def read_bytes(self, path: str) -> bytes:
        """Read the whole file.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        ...

    def sync(self, path: str) -> None:
        """Wait until a file, and its name in the folder, survive a crash of the machine."""
        ...

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace or create a file atomically, and create missing folders."""
        ...

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file atomically and return True; if one exists, do nothing and return False."""
        ...

    def list_names(self, folder: str) -> list[str]:
        """Return the names of a folder's files, unordered; none if the folder does not exist."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        ...


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A folder's path, and the operations on its files."""

    location: str
    file_io: FolderFileIO

    def path(self, name: str) -> str:
        """Return the path of a file in the folder; the name may contain slashes."""
        return f"{self.location}/{name}"

    def __str__(self) -> str:
        return self.location
