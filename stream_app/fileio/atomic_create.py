"""Tests whether a file system can create a file only if it does not exist.

Without this ability two writers can both believe that they created a snapshot, and one loses its
rows. File systems call it in `check_atomic_create`.
"""

from __future__ import annotations

import contextlib
import uuid

from stream_app.errors import NoAccessError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.store_time import PROBE_PREFIX


def probe_atomic_create(file_io: FileIO, folder: str, reason: str) -> None:
    """Try to create a file twice, then delete it.

    Args:
        folder: the folder for the test file.
        reason: the cause to report if both attempts succeed.

    Raises:
        NoAccessError: both attempts succeed.
    """
    path = f"{folder}/{PROBE_PREFIX}{uuid.uuid4()}"
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
