"""Chooses the store of a location by its scheme.

Opening or creating a table calls `file_io_of`. The table keeps its `FileIO`, also on executors.

A new store is a folder beside `s3` that declares a `Store`, and an entry in `STORES`. The contract
about stores in `pyproject.toml` names the folder. A store that needs more has one place for each
need:

* Options: `model.options.store_options` declares them.
* Packages: an extra in `pyproject.toml`.
* Variables of its client with secrets: `app.config.settings` keeps their values out of logs.
* Jars with which Spark accesses it: `HADOOP_SETS` in `app.launch.jar_sets`.

`_UNSUPPORTED_STORES` explains the schemes that have no store. Remove the schemes of the new store
there.

Source: Paimon `fs/FileIO.java#get`, which finds implementations by the scheme.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.hdfs.hdfs_store import HDFS
from stream_app.fileio.local.local_file_io import local_path
from stream_app.fileio.local.local_store import LOCAL
from stream_app.fileio.s3.s3_store import S3
from stream_app.fileio.store import OptionSource, Store

STORES = (LOCAL, S3, HDFS)
_UNSUPPORTED_STORES = {
    "oss": "Aliyun OSS",
    "dls": "Aliyun OSS-HDFS",
    "cosn": "Tencent COS",
    "obs": "Huawei OBS",
    "gs": "Google Cloud Storage",
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs", "az"), "Azure Storage"),
}
"""The schemes that Paimon knows and stream_app does not."""
STORE_OPTIONS = "those that begin with " + " or ".join(
    store.option_prefixes[0] for store in STORES if store.option_prefixes
)
"""The options of stores, for messages."""
STORE_LOCATIONS = ", ".join(form for store in STORES for form in store.location_forms)
"""The forms of locations, for messages."""


def file_io_of(
    location: str,
    options: Mapping[str, str] | None = None,
    option_source: OptionSource | None = None,
    stores: Sequence[Store] = STORES,
) -> tuple[str, FileIO]:
    """Return the prefix of paths below a location, and its file system.

    Args:
        location: ``/path``, ``file:/path``, ``s3://bucket/path``, ``hdfs://host/path`` …
        options: the options of stores, such as ``s3.endpoint`` and ``hadoop.*``; AWS's variables
            fill in for ``s3.*``.
        option_source: renews options that expire; None if they do not expire.
        stores: the declared stores.

    Raises:
        UsageError: no store has this scheme, or an option is wrong.
        StorageError: the store's client cannot be used here.
    """
    for key in unknown_store_options(options or {}, stores):
        raise UsageError(
            f"option {key!r} belongs to no known file system", fix=f"known: {STORE_OPTIONS}"
        )
    return _store(location, stores).open(location, options or {}, option_source)


def unknown_store_options(options: Iterable[str], stores: Sequence[Store] = STORES) -> list[str]:
    """Return the keys that belong to no store."""
    prefixes = tuple(prefix for store in stores for prefix in store.option_prefixes)
    return [key for key in options if not key.startswith(prefixes)]


def options_of_stores(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options that belong to a store."""
    other_keys = set(unknown_store_options(options))
    return {key: value for key, value in options.items() if key not in other_keys}


def check_store_options(options: Mapping[str, str], location: str) -> None:
    """Check option values, and option names if a store knows all of its names.

    Args:
        location: the location of a warehouse; a bucket may have its own options.

    Raises:
        UsageError: an option is wrong.
    """
    for store in STORES:
        store.check_options(options, location)


def store_of(location: str, stores: Sequence[Store] = STORES) -> Store | None:
    """Return the store of a location; None if stream_app has none for its scheme."""
    match = re.match(r"([A-Za-z][\w+.-]*):", location)
    scheme = match[1].lower() if match else ""
    return next((store for store in stores if scheme in store.schemes), None)


def can_open(location: str) -> bool:
    """Return whether `file_io_of` has a file system for a location; Spark may reach others."""
    return store_of(location) is not None


def is_local(location: str) -> bool:
    """Return whether a location is a path of this machine, or a ``file:`` URI."""
    return store_of(location) is LOCAL


def absolute_location(location: str) -> str:
    """Return the location in a form that does not depend on the current folder."""
    return local_path(location) if is_local(location) else location


def path_beside(root: str, location: str) -> str:
    """Return the path of another location in the file system of `root`.

    Raises:
        UnsupportedTableError: the location is on another file system.
    """
    store = store_of(root)
    if store is not None and store is store_of(location):
        path = store.path_beside(root, location)
        if path is not None:
            return path
    raise UnsupportedTableError(
        f"a file of the table is on another file system: {location}",
        where=root,
        fix="use the engine that made the table; or unset 'data-file.external-paths' and let that "
        "engine rewrite the files",
    )


def is_same_location(location: str, other: str) -> bool:
    """Return whether two locations, in any spelling, name the same place.

    Raises:
        UsageError: a location has an unknown scheme.
    """
    store, other_store = _store(location), _store(other)
    return store is other_store and store.is_same(location, other)


def _store(location: str, stores: Sequence[Store] = STORES) -> Store:
    store = store_of(location, stores)
    if store is not None:
        return store
    scheme = location.partition(":")[0].lower()
    if scheme not in _UNSUPPORTED_STORES:
        raise UsageError(
            f"{location!r} is on a file system that stream_app does not support",
            fix=f"give {STORE_LOCATIONS}; a mounted file system has a path",
        )
    raise UsageError(
        f"{scheme}:// is {_UNSUPPORTED_STORES[scheme]}, whose protocol stream_app does not speak",
        fix="if the store also speaks S3's protocol (Azure does not), write s3://BUCKET/PATH and "
        "give s3.endpoint and keys: it can be read, and written if it has conditional PUTs, "
        "which the job tests",
    )
