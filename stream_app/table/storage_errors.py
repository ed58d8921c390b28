"""Converts errors of the file system to errors with place and advice."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from stream_app.errors import NoAccessError, StorageError
from stream_app.fileio.store_registry import store_of

_START_AGAIN = "then start again, a job continues where it was"
_DISK_FIXES: Mapping[int | None, str] = {
    errno.ENOSPC: f"free space on the disk; {_START_AGAIN}",
    errno.EDQUOT: f"this user's quota is used up: free space; {_START_AGAIN}",
    errno.ENOENT: f"see that it and its folder exist; {_START_AGAIN}",
    errno.EMFILE: f"raise the number of files that a process may open (ulimit -n); {_START_AGAIN}",
}
_DISK_FIX = (
    f"see that the disk is mounted and sound (the system's log has its errors); {_START_AGAIN}"
)
_PATH_FIX = "give another path: a part of it is a file where a folder is wanted, or the opposite"
_ACCESS_FIXES: Mapping[int | None, str] = {
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST), _PATH_FIX),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM),
        "let the user of this process write there, or the nearest folder above it that exists; or "
        "give another path",
    ),
    errno.EROFS: "it is mounted for reading only: give another path, or mount it for writing",
    errno.ENAMETOOLONG: "give a shorter name: most file systems take 255 bytes",
    errno.ELOOP: "a link in the path leads back to itself: give another path, or correct the link",
}


def storage_error(error: OSError, where: str = "") -> StorageError:
    """Convert an error of the file system; `where` is used if the error names no path.

    If a retry of the same path cannot help, the result is a `NoAccessError`.
    """
    path = str(error.filename or where)
    notes = getattr(error, "__notes__", ())  # the store's own advice
    advice = _store_advice(path)
    is_permanent = not notes and not advice and error.errno in _ACCESS_FIXES
    return (NoAccessError if is_permanent else StorageError)(
        f"the file system refused: {error.strerror or error}",
        where=path,
        fix=notes[0] if notes else _fix(error, advice),
    )


def _store_advice(path: str) -> str:
    store = store_of(path)
    return store.advice if store else ""


def _fix(error: OSError, advice: str) -> str:
    if isinstance(error, NotADirectoryError | IsADirectoryError):
        return _PATH_FIX
    return advice or _ACCESS_FIXES.get(error.errno) or _DISK_FIXES.get(error.errno) or _DISK_FIX


@contextmanager
def storage_errors(where: str) -> Iterator[None]:
    """Convert file system errors that the block raises."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, where) from error
