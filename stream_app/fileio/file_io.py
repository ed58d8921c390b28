"""The port to a file system, and the promises on which tables rely.

1. *Atomic writes*: no reader sees a part of what `create_if_absent` and `overwrite` write.
2. *One winner*: when callers race for a name by `create_if_absent`, in any process and on any
   machine, exactly one of them gets True. `check_atomic_create` refuses a file system without this
   promise.
3. *Visibility*: when a writing call, or the closing of an `open_output`, has returned, `exists`,
   `size`, `list_status` and reads see the file everywhere. A deleted file is invisible everywhere.
4. *Durability*: a file survives a crash of the machine once its writing call, or `sync`, has
   returned.
5. *Durable deletions*: once `sync_deletions` has returned, no crash undoes an earlier deletion in
   the folder. Until then a crash of the machine may undo any of them.

Committed files are immutable: they are written once, made durable by `sync`, and only then named by
a snapshot. `local_file_io`, `s3_file_io` and `hdfs_file_io` implement the port, and
`store_registry` chooses one. ``tests/unit/fileio/test_file_io_contract.py`` tests the promises of
each.

Methods raise `OSError` and its subclasses. Names may contain blanks, percent signs and any letters.

Source: Paimon `fs/FileIO.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


class UnsyncedError(OSError):
    """A file exists under its name, but may vanish in a crash of the machine."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """An entry of a folder.

    Attributes:
        name: the name without the folder.
        size: the size in bytes; 0 for a folder.
        modification_time_ms: the time of the last write, in ms since 1970 in UTC; 0 for a folder
            whose time the file system does not record.
    """

    name: str
    size: int
    modification_time_ms: int
    is_folder: bool


class FileIO(Protocol):
    """A file system that can be pickled; paths are absolute texts with slashes."""

    def check_atomic_create(self, folder: str) -> None:
        """Check that `create_if_absent` is atomic; called before a table is written.

        Args:
            folder: the folder of the table, in which an implementation may create a file to test
                it.

        Raises:
            StorageError: `create_if_absent` cannot keep its promise here.
        """
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random reading.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing in constant memory; creates missing folders."""
        ...

    def sync(self, path: str) -> None:
        """Make a written and closed file survive a crash of the machine."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """Read the whole file.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a new file whole, and sync it."""
        ...

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file atomically; False without a change if the file exists.

        Raises:
            UnsyncedError: the file was created, but may not survive a crash of the machine.
        """
        ...

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a file atomically: readers see either the old bytes or the new ones."""
        ...

    def list_names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, unordered; empty without the folder."""
        ...

    def list_status(self, folder: str) -> list[FileStatus]:
        """Return the entries of a folder, unordered; empty without the folder."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        ...

    def size(self, path: str) -> int:
        """Return the size of a file in bytes.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file; does nothing without the file."""
        ...

    def sync_deletions(self, folder: str) -> None:
        """Make the deletions in a folder durable, also those by other processes.

        Call it before any step that relies on a file being gone. Without the folder it does
        nothing.
        """
        ...

    def delete_empty_folder(self, folder: str) -> None:
        """Delete an empty folder; does nothing if it has entries or does not exist."""
        ...
