"""Which file system a location is on.

`file_io_of` is asked when a table is opened or made; from there on its `FileIO` goes with the
table, also to executors.

Source: Paimon `fs/FileIO.java#get`, which finds implementations by the scheme.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from stream_app.errors import UsageError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.hdfs_file_io import hdfs_file_io
from stream_app.fileio.local_file_io import LocalFileIO, local_path
from stream_app.fileio.locked_s3_file_io import LockedS3FileIO
from stream_app.fileio.s3_file_io import S3FileIO
from stream_app.fileio.s3_options import s3_options

_HADOOP = ("hdfs", "viewfs")
_S3 = ("s3", "s3a", "s3n")


def file_io_of(location: str, options: Mapping[str, str] | None = None) -> tuple[str, FileIO]:
    """The location as paths below it begin, and what reads and writes them.

    Args:
        location: ``/path``, ``file:/path``, ``s3://bucket/path``, ``hdfs://host/path`` …
        options: of file systems, such as ``s3.endpoint`` and ``hadoop.*``; AWS's variables fill in
            for ``s3.*``.

    Raises:
        UsageError: no such file system, or a wrong option.
        StorageError: its client cannot be used here.
    """
    scheme = scheme_of(location)
    if scheme in _S3:
        return _s3(location, options or {})
    if scheme in _HADOOP:
        path = location.rstrip("/")
        return path, hdfs_file_io(path, options or {})
    return local_path(location), LocalFileIO()


def scheme_of(location: str) -> str:
    """``s3`` of ``s3://bucket/path``; empty of a path."""
    return urlsplit(location).scheme


def _s3(location: str, options: Mapping[str, str]) -> tuple[str, FileIO]:
    bucket, _, key = location.partition("://")[2].partition("/")
    if not bucket or not key.strip("/"):
        raise UsageError(
            f"{location!r} names no table", fix="write s3://BUCKET/warehouse/db.db/table"
        )
    found = s3_options(options, os.environ)
    kind = LockedS3FileIO if found.create_lock_file else S3FileIO
    return location.rstrip("/"), kind(found)
