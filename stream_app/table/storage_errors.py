"""Errors of the file system in our form: where, and what can be done about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream_app.errors import StorageError

_OF_A_DISK = (
    "see that the disk has room and that this user may write there; then start the job again, it "
    "goes on where it was"
)
_OF_A_STORE = (
    "see that the store can be reached from here (s3.endpoint, s3.region) and that its keys "
    "(s3.access-key, s3.secret-key, or AWS's variables) may read and write there; then start "
    "again, a job goes on where it was"
)

_OF_A_PATH = "give another path: a part of it is a file where a folder is wanted, or the opposite"
_OF_HDFS = (
    "see that the NameNode runs, has left safe mode, can be reached from here (HADOOP_CONF_DIR, or "
    "host and port in the location) and lets this user write there; then start again, a job goes "
    "on where it was"
)


def storage_error(error: OSError, where: str = "") -> StorageError:
    """An error of the file system, in our form; `where` stands in for a path that it lacks."""
    place = str(error.filename or where)
    notes = getattr(error, "__notes__", ())  # how a store's trouble is mended
    return StorageError(
        f"the file system refused: {error.strerror or error}",
        where=place,
        fix=notes[0] if notes else _fix(error, place),
    )


def _fix(error: OSError, place: str) -> str:
    if isinstance(error, NotADirectoryError | IsADirectoryError):
        return _OF_A_PATH
    if place.startswith("s3"):
        return _OF_A_STORE
    return _OF_HDFS if place.startswith(("hdfs", "viewfs")) else _OF_A_DISK


@contextmanager
def storage_errors(where: str) -> Iterator[None]:
    """Give errors of the file system our form, around work on a table."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, where) from error
