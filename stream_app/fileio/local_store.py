"""Declares the local disk and mounted file systems as a store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from stream_app.fileio.local_file_io import LocalFileIO, local_path
from stream_app.fileio.store import OptionSource, SparkAccess, Store


def _open(
    location: str, _options: Mapping[str, str], _source: OptionSource | None
) -> tuple[str, LocalFileIO]:
    return local_path(location), LocalFileIO()


def _is_same(one: str, other: str) -> bool:
    """Whether two paths are equal after links are followed."""
    return Path(local_path(one)).resolve() == Path(local_path(other)).resolve()


def _path_beside(_root: str, location: str) -> str | None:
    # Paimon's texts are not percent-encoded: a ``%2F`` in one is a part of a folder's name.
    parts = re.fullmatch(r"(?:file:(?://)?)?(/[^/].*)", location, re.DOTALL)
    return parts[1] if parts else None


LOCAL = Store(
    schemes=("", "file"),
    open=_open,
    is_same=_is_same,
    path_beside=_path_beside,
    spark=SparkAccess(
        # A bare path would be one of the cluster's own file system.
        location=lambda location: f"file://{location}",
        settings=lambda _location, _options, _environ: {},
    ),
)
