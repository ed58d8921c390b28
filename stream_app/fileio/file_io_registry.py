"""Finds the file system of a location.

`file_io_of` is asked when a table is opened or made; from there on its `FileIO` goes with the
table, also to executors.

Source: Paimon `fs/FileIO.java#get`, which finds implementations by the scheme.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.hdfs.hdfs_file_io import HDFS_OPTION_PREFIX, hdfs_file_io
from stream_app.fileio.local_file_io import LocalFileIO, local_path
from stream_app.fileio.s3.s3_file_io import S3FileIO
from stream_app.fileio.s3.s3_keys import KeySource
from stream_app.fileio.s3.s3_options import is_s3_option, s3_options

_HADOOP = ("hdfs", "viewfs")
_S3 = ("s3", "s3a", "s3n")
_STORES = {
    "oss": "Aliyun OSS",
    "dls": "Aliyun OSS-HDFS",
    "cosn": "Tencent COS",
    "obs": "Huawei OBS",
    "gs": "Google Cloud Storage",
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs", "az"), "Azure Storage"),
}
"""Those that Paimon knows."""
STORE_OPTIONS = f"those that begin with s3. or {HDFS_OPTION_PREFIX}"
"""The options of file systems, for messages."""


def file_io_of(
    location: str, options: Mapping[str, str] | None = None, keys: KeySource | None = None
) -> tuple[str, FileIO]:
    """The prefix of paths below a location, and the file system for them.

    Args:
        location: ``/path``, ``file:/path``, ``s3://bucket/path``, ``hdfs://host/path`` …
        options: of file systems, such as ``s3.endpoint`` and ``hadoop.*``; AWS's variables fill in
            for ``s3.*``.
        keys: where the keys of S3 are looked up again; None: as the options say.

    Raises:
        UsageError: no such file system, or a wrong option.
        StorageError: its client cannot be used here.
    """
    for key in unknown_store_options(options or {}):
        raise UsageError(
            f"option {key!r} belongs to no known file system", fix=f"known: {STORE_OPTIONS}"
        )
    scheme = scheme_of(location)
    if scheme in _S3:
        return _s3(location, options or {}, keys)
    if scheme in _HADOOP:
        path = location.rstrip("/")
        return path, hdfs_file_io(path, options or {})
    if scheme in _STORES:
        raise _elsewhere(location)
    return local_path(location), LocalFileIO()


def unknown_store_options(options: Iterable[str]) -> list[str]:
    """The keys that belong to no file system."""
    return [key for key in options if not (is_s3_option(key) or key.startswith(HDFS_OPTION_PREFIX))]


def store_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Those options that belong to a file system."""
    others = set(unknown_store_options(options))
    return {key: value for key, value in options.items() if key not in others}


def can_open(location: str) -> bool:
    """Whether `file_io_of` has a file system for a location; Spark may reach others."""
    return is_local(location) or is_on_s3(location) or is_on_hdfs(location)


def path_beside(root: str, location: str) -> str:
    """The path by which the file system of `root` finds another location.

    Paimon's texts are not percent-encoded: a ``%2F`` in one is a part of a folder's name.

    Raises:
        UnsupportedTableError: the location is on another file system.
    """
    here, there = scheme_of(root), re.match(r"(\w*):", location)
    scheme = there[1] if there else ""
    local = re.fullmatch(r"(?:file:(?://)?)?(/[^/].*)", location, re.DOTALL)
    if here == "" and local:
        return local[1]
    same_host = location.split("/")[:3] == root.split("/")[:3]
    if (here in _S3 and scheme in _S3) or (here in _HADOOP and same_host):
        return location
    raise UnsupportedTableError(
        f"a file of the table lies on another file system: {location}",
        where=root,
        fix="use the engine that made the table; or take 'data-file.external-paths' away and let "
        "that engine rewrite the files",
    )


def is_same_location(one: str, other: str) -> bool:
    """Whether two locations, in any spelling, are the same place.

    Local paths are compared as they are when links are followed. Stores behind several endpoints
    are not told apart.

    Raises:
        UsageError: one is on no file system that is known here.
    """
    (kind, host, path), (kind_there, host_there, path_there) = _place(one), _place(other)
    # hdfs:///path is on the cluster's own NameNode, whichever that is.
    same_host = host == host_there or (kind in _HADOOP and not (host and host_there))
    return same_host and (kind, path) == (kind_there, path_there)


def _place(location: str) -> tuple[str, str, str]:
    """Kind of file system, host or bucket, and path."""
    parts, scheme = urlsplit(location), scheme_of(location)
    path = re.sub("/+$", "", parts.path)
    if scheme in _S3:
        return "s3", parts.netloc, path
    if scheme in _HADOOP:
        return scheme, parts.netloc.removesuffix(":8020"), path
    if scheme in _STORES:
        return scheme, parts.netloc, path
    return "", "", str(Path(local_path(location)).resolve())


def is_local(location: str) -> bool:
    """Whether a location is a path of this machine, or a ``file:`` URI."""
    return scheme_of(location) in ("", "file")


def absolute_location(location: str) -> str:
    """The location in a form that does not depend on the current folder."""
    return local_path(location) if is_local(location) else location


def is_on_s3(location: str) -> bool:
    """Whether a location is on S3, or on a store that speaks its language."""
    return scheme_of(location) in _S3


def is_on_hdfs(location: str) -> bool:
    """Whether a location is on HDFS, as it is or by a mount of ViewFs."""
    return scheme_of(location) in _HADOOP


def scheme_of(location: str) -> str:
    """``s3`` of ``s3://bucket/path``; empty of a path."""
    return urlsplit(location).scheme


def _s3(location: str, options: Mapping[str, str], keys: KeySource | None) -> tuple[str, FileIO]:
    bucket, _, key = location.partition("://")[2].partition("/")
    if "@" in bucket:
        raise UsageError(
            "the location holds keys before an @, which every message would show",
            fix="write s3://BUCKET/PATH, and give s3.access-key and s3.secret-key",
        )
    # Others cannot stand in a URL, and the client ends with a panic.
    if not re.fullmatch(r"[\w.:-]+", bucket, re.ASCII) or not key.strip("/"):
        raise UsageError(
            f"{location!r} names no folder of a bucket",
            fix="write s3://BUCKET/PATH; a table is s3://BUCKET/warehouse/db.db/table",
        )
    settings = s3_options(options, os.environ, bucket)
    settings = settings if keys is None else replace(settings, source=keys)
    return location.rstrip("/"), S3FileIO(settings)


def _elsewhere(location: str) -> UsageError:
    """The error for a store without a client here."""
    scheme = scheme_of(location)
    return UsageError(
        f"{scheme}:// is {_STORES[scheme]}, whose protocol stream_app does not speak",
        fix="if the store also speaks S3's protocol (Azure does not), write s3://BUCKET/PATH and "
        "give s3.endpoint and keys: it can be read, and written if it has conditional PUTs, "
        "which the job tests",
    )
