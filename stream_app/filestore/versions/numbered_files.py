"""Reads numbered files of a folder, such as ``snapshot-12``, and the hints that save a listing.

Source: Paimon `utils/HintFileUtils.java`.
"""

from __future__ import annotations

from stream_app.fileio.file_io import FileIO


def listed_ids(file_io: FileIO, folder: str, prefix: str) -> list[int]:
    """Return the ids after `prefix` in a folder's names, ascending; it ignores other names."""
    ids = []
    for name in file_io.list_names(folder):
        suffix = name.removeprefix(prefix)
        if suffix != name and suffix.isascii() and suffix.isdigit():
            ids.append(int(suffix))
    return sorted(ids)


def read_hint(file_io: FileIO, path: str) -> int | None:
    """Return the id in a hint; None if the hint is absent or unreadable."""
    try:
        return int(file_io.read_bytes(path))
    except (OSError, ValueError):
        return None
