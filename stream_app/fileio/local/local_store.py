"""Declares the store of local disks and mounted file systems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from stream_app.fileio.local.local_file_io import LocalFileIO, local_path
from stream_app.fileio.store import OptionSource, SparkAccess, Store


def _open(
    location: str, _options: Mapping[str, str], _source: OptionSource | None
) -> tuple[str, LocalFileIO]:
    return local_path(location), LocalFileIO()


def _is_same(path: str, other: str) -> bool:
    """Return whether two paths are equal after links are followed."""
    return Path(local_path(path)).resolve() == Path(local_path(other)).resolve()


def _path_beside(_root: str, location: str) -> str | None:
    # Paimon does not percent-encode paths: ``%2F`` is a part of a folder's name.
    parts = re.fullmatch(r"(?:file:(?://)?)?(/[^/].*)", location, re.DOTALL)
    return parts[1] if parts else None


LOCAL = Store(
    schemes=("", "file"),
    location_forms=("a path",),
    open=_open,
    is_same=_is_same,
    path_beside=_path_beside,
    spark=SparkAccess(
        # Spark would look for a bare path in the cluster's default file system.
        location_of=lambda location: f"file://{location}",
        settings_of=lambda _location, _options, _environ: {},
    ),
)
