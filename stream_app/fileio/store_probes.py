"""Probes a store by files: its clock, and whether it creates a file only if none exists.

The store's clock sets the time stamps of files. Callers judge the age of files by it, because this
machine's clock may be ahead. Without atomic creation two writers can both believe that they
created a snapshot, and one loses its rows. `check_atomic_create` of file systems tests it.
"""

from __future__ import annotations

import contextlib
import uuid

from stream_app.errors import NoAccessError
from stream_app.fileio.file_io import FileIO

_PROBE_PREFIX = ".probe-"
"""Prefix of probe files; a process that dies during a probe leaves its file."""


def store_now_ms(file_io: FileIO, folder: str) -> int:
    """Return the timestamp of a file written now, in milliseconds since 1970 in UTC.

    Stores report whole seconds, so the result may be up to one second behind.

    Args:
        folder: the folder in which the file is written and deleted again.

    Raises:
        OSError: the file system refused.
    """
    name = f"{_PROBE_PREFIX}{uuid.uuid4()}"
    path = f"{folder}/{name}"
    try:
        file_io.write_bytes(path, b"")
        times_ms = [
            status.modification_time_ms
            for status in file_io.list_status(folder)
            if status.name == name
        ]
    finally:
        file_io.delete(path)
    if not times_ms:
        raise FileNotFoundError(2, "was deleted by another process as soon as it was written", path)
    return times_ms[0]


def probe_atomic_create(file_io: FileIO, folder: str, reason: str) -> None:
    """Try to create a file twice, then delete it.

    Args:
        folder: the folder for the test file.
        reason: the cause to report if both attempts succeed.

    Raises:
        NoAccessError: both attempts succeed.
    """
    path = f"{folder}/{_PROBE_PREFIX}{uuid.uuid4()}"
    try:
        file_io.create_if_absent(path, b"1")
        is_safe = not file_io.create_if_absent(path, b"2")
    except OSError:
        with contextlib.suppress(OSError):
            file_io.delete(path)
        raise
    file_io.delete(path)
    if not is_safe:
        raise NoAccessError(
            "stream_app does not write to this file system: it cannot create a file only if none "
            f"exists ({reason}), so two writers could publish the same snapshot and one would lose "
            "its rows",
            where=folder,
            fix="write tables to another store (docs/setup/stores.md lists them); reading works "
            "here",
        )
