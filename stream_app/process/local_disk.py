"""Folders and files on local disk, for copies, indexes, and rows that do not fit into memory.

They are in the system's folder for temporary files, which a cluster sets for each task. Every
module that writes to local disk gets its paths here.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO


def local_disk() -> Path:
    """Return the folder for temporary files: the current ``$TMPDIR``, or the system's default."""
    tmpdir = Path(os.environ.get("TMPDIR", ""))
    is_usable = tmpdir.is_absolute() and os.access(tmpdir, os.W_OK | os.X_OK)
    return tmpdir if is_usable else Path(tempfile.gettempdir())


def kept_folder(name: str) -> Path:
    """Return the path of this user's folder that outlives the process; it may not exist yet."""
    return local_disk() / f"stream_app-{os.getuid()}" / name


def scratch_folder(name: str, parent: str | None = None) -> tempfile.TemporaryDirectory[str]:
    """Create a folder, and delete it with its content at the end of the block.

    Args:
        parent: the folder that contains it; None: the local disk's.
    """
    return tempfile.TemporaryDirectory(prefix=f"stream_app-{name}-", dir=parent or local_disk())


def scratch_file(name: str) -> IO[bytes]:
    """Create an unnamed file, which the system deletes when its last handle is closed."""
    return tempfile.TemporaryFile(prefix=f"stream_app-{name}-", dir=local_disk())
