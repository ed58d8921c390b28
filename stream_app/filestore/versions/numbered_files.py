"""Reads numbered files of a folder, such as ``snapshot-12``, and the hints that save a listing.

Source: Paimon `utils/HintFileUtils.java`.
"""

from __future__ import annotations

from stream_app.fileio.file_io import FileIO


def file_numbers(file_io: FileIO, folder: str, prefix: str) -> list[int]:
    """Return the numbers after `prefix` in a folder's names, ascending; it ignores other names."""
    numbers = []
    for name in file_io.list_names(folder):
        number = name.removeprefix(prefix)
        if number != name and number.isascii() and number.isdigit():
            numbers.append(int(number))
    return sorted(numbers)


def hint_of(file_io: FileIO, path: str) -> int | None:
    """Return the number in a hint; None if the hint is absent or unreadable."""
    try:
        return int(file_io.read_bytes(path))
    except (OSError, ValueError):
        return None
