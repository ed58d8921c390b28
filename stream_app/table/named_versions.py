"""The versions of a table that are there: snapshots, tags, and changelogs that outlive them.

For those who must know all that a table still names: the check and the cleaning of orphans. What
vanishes while it is listed, because it expires, is left out.

Source: Paimon `operation/OrphanFilesClean.java#safelyGetAllSnapshots`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.numbered_files import numbers_of
from stream_app.filestore.tag_manager import TagManager
from stream_app.format.snapshot_json import decode_snapshot
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable


class VersionKind(enum.Enum):
    """Where a version's file lies."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedVersion:
    """A version by its file.

    Attributes:
        path: of the snapshot, tag or changelog file.
        snapshot: what it holds; None when it cannot be read.
        problem: why it cannot be read.
    """

    kind: VersionKind
    path: str
    snapshot: Snapshot | None
    problem: str = ""


def named_versions(table: FileStoreTable) -> Iterator[NamedVersion]:
    """The versions of a table; see `versions_below`."""
    return versions_below(table.file_io, table.location)


def versions_below(file_io: FileIO, root: str) -> Iterator[NamedVersion]:
    """Tags by name, changelogs by number, then snapshots by number.

    Args:
        root: the folder of a table, or of one of its branches.
    """
    tags = TagManager(file_io, root).names()
    paths = [(VersionKind.TAG, f"{root}/tag/tag-{name}") for name in tags]
    for kind, folder in (
        (VersionKind.CHANGELOG, "changelog"),
        (VersionKind.SNAPSHOT, "snapshot"),
    ):
        numbers = numbers_of(file_io, f"{root}/{folder}", f"{folder}-")
        paths += [(kind, f"{root}/{folder}/{folder}-{number}") for number in numbers]
    for kind, path in paths:
        try:
            data = file_io.read_bytes(path)
        except FileNotFoundError:
            continue
        try:
            yield NamedVersion(kind=kind, path=path, snapshot=decode_snapshot(data))
        except CorruptFileError as error:
            yield NamedVersion(kind=kind, path=path, snapshot=None, problem=error.what)
