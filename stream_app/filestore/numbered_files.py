"""Files of a folder that are numbered, such as ``snapshot-12``."""

from __future__ import annotations

from stream_app.fileio.file_io import FileIO


def numbers_of(file_io: FileIO, folder: str, prefix: str) -> list[int]:
    """The numbers behind `prefix` in a folder's names, ascending; other names are passed over."""
    found = []
    for name in file_io.list_names(folder):
        number = name.removeprefix(prefix)
        if number != name and number.isascii() and number.isdigit():
            found.append(int(number))
    return sorted(found)
