"""The local disk of a process: for copies, indexes, and rows that do not fit into memory.

It is the system's folder for temporary files, where a cluster puts a task's files. Every module
that writes there asks this one.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO


def local_disk() -> Path:
    """The folder: ``$TMPDIR`` as it is now, or the system's."""
    given = Path(os.environ.get("TMPDIR", ""))
    is_fit = given.is_absolute() and os.access(given, os.W_OK | os.X_OK)
    return given if is_fit else Path(tempfile.gettempdir())


def kept_folder(name: str) -> Path:
    """A folder that outlives the process; the user's own. It need not be there."""
    return local_disk() / f"stream_app-{os.getuid()}" / name


def scratch_folder(name: str, parent: str | None = None) -> tempfile.TemporaryDirectory[str]:
    """A new folder, which is deleted with all that it holds.

    Args:
        parent: the folder in which it is made; None: the local disk's.
    """
    return tempfile.TemporaryDirectory(prefix=f"stream_app-{name}-", dir=parent or local_disk())


def scratch_file(name: str) -> IO[bytes]:
    """A new file without a name, whose bytes are deleted when it is closed everywhere."""
    return tempfile.TemporaryFile(prefix=f"stream_app-{name}-", dir=local_disk())
