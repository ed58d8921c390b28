"""Reads the store's clock, which sets the time stamps of files.

Callers judge the age of files by it, because this machine's clock may be ahead.
"""

from __future__ import annotations

import uuid

from stream_app.fileio.file_io import FileIO

PROBE_PREFIX = ".probe-"
"""Prefix of probe files; a process that dies during a probe leaves its file."""


def store_now_ms(file_io: FileIO, folder: str) -> int:
    """Return the timestamp of a file written now, in milliseconds since 1970 in UTC.

    Stores report whole seconds, so the result may be up to one second behind.

    Args:
        folder: the folder in which the file is written and deleted again.

    Raises:
        OSError: the file system refused.
    """
    name = f"{PROBE_PREFIX}{uuid.uuid4()}"
    path = f"{folder}/{name}"
    try:
        file_io.write_bytes(path, b"")
        times_ms = [
            status.modified_ms for status in file_io.list_status(folder) if status.name == name
        ]
    finally:
        file_io.delete(path)
    if not times_ms:
        raise FileNotFoundError(2, "was deleted by another process as soon as it was written", path)
    return times_ms[0]
