"""The port to a file system, and the promises on which tables rely.

1. *Whole or not at all*: what `create_if_absent` and `overwrite` write is never seen in part under
   its name.
2. *One winner*: when callers race for a name by `create_if_absent`, in any process and on any
   machine, exactly one of them gets True. `check_atomic_create` refuses a file system without.
3. *Visibility*: when a writing call, or the closing of an `open_output`, has returned, `exists`,
   `size`, `list_status` and reads see the file everywhere. A deleted file is invisible everywhere.
4. *It stays*: what a writing call has returned from, or `sync`, survives a crash of the machine.
5. *It stays away*: what was deleted from a folder before `sync_deletions` returned from it. Until
   then each deletion for itself may be undone by a crash of the machine.

Committed files are immutable: they are written once, made safe by `sync`, and only then named by a
snapshot. Implemented by `local_file_io`, `s3_file_io` and
`hdfs_file_io`. `file_io_registry` chooses, and ``tests/unit/fileio/test_file_io_contract.py``
holds them all to it.

Errors are `OSError` and its kinds. Names may hold blanks, percent signs and any letters.

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
        name: without the folder.
        size: bytes; 0 for a folder.
        modified_millis: when it was written last, since 1970 in UTC; 0 where a file system does not
            know it of a folder.
    """

    name: str
    size: int
    modified_millis: int
    is_folder: bool


class FileIO(Protocol):
    """A file system; paths are absolute texts with slashes. Can be pickled."""

    def check_atomic_create(self, folder: str) -> None:
        """Check that `create_if_absent` is atomic; called before a table is written.

        Args:
            folder: the folder of the table; an implementation may try it out there.

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
        """Create a file whole and at once; returns False, and changes nothing, if the file exists.

        Raises:
            UnsyncedError: it was created, and may or may not survive a crash of the machine.
        """
        ...

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a file at once: readers see the old bytes or the new ones."""
        ...

    def list_names(self, folder: str) -> list[str]:
        """The names of the files in a folder, unordered; empty if there is no such folder."""
        ...

    def list_status(self, folder: str) -> list[FileStatus]:
        """The entries of a folder, unordered; empty if there is no such folder."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        ...

    def size(self, path: str) -> int:
        """The size of a file in bytes.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file; does nothing without the file."""
        ...

    def sync_deletions(self, folder: str) -> None:
        """Make deletions in a folder durable, whichever process has deleted.

        To be called before anything is done that relies on a file being gone. Nothing happens when
        there is no such folder.
        """
        ...

    def delete_empty_folder(self, folder: str) -> None:
        """Delete an empty folder; does nothing if it has entries or does not exist."""
        ...
