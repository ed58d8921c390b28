"""Lists the existing versions of a table: snapshots, tags, and changelogs that outlive them.

The table check and the removal of orphans call it, because they need every name in use. A snapshot
that expires during the listing may be missing, but then the list has its tag or its changelog.

Source: Paimon `operation/OrphanFilesClean.java#safelyGetAllSnapshots`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.versions.numbered_files import listed_ids
from stream_app.filestore.versions.tag_manager import TagManager
from stream_app.format.snapshot_json import decode_snapshot
from stream_app.model.snapshot import Snapshot, VersionKind
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedVersion:
    """A version and its file.

    Attributes:
        path: the path of the snapshot, tag or changelog file.
        snapshot: the file's content; None if it is unreadable.
        problem: the reason why the file is unreadable.
    """

    kind: VersionKind
    path: str
    snapshot: Snapshot | None
    problem: str = ""


def named_versions(table: FileStoreTable) -> list[NamedVersion]:
    """Return the versions of a table: tags by name, then changelogs and snapshots by number."""
    order = (VersionKind.TAG, VersionKind.CHANGELOG, VersionKind.SNAPSHOT)
    versions = versions_below(table.file_io, table.version_root)
    return sorted(versions, key=lambda version: order.index(version.kind))


def snapshot_restored_from_tag(versions: Iterable[NamedVersion]) -> Snapshot | None:
    """Return the earliest snapshot if Paimon's rollback may have restored it from a tag; else None.

    That snapshot had expired with its changelog, but Paimon leaves the changelog's name in it
    (`utils/RollbackHelper.java`).
    """
    snapshots_by_kind: dict[VersionKind, list[Snapshot]] = {kind: [] for kind in VersionKind}
    for version in versions:
        if version.snapshot is not None:
            snapshots_by_kind[version.kind].append(version.snapshot)
    snapshots = snapshots_by_kind[VersionKind.SNAPSHOT]
    earliest_snapshot = min(snapshots, key=lambda snapshot: snapshot.snapshot_id, default=None)
    return earliest_snapshot if earliest_snapshot in snapshots_by_kind[VersionKind.TAG] else None


def versions_below(file_io: FileIO, root: str) -> Iterator[NamedVersion]:
    """Yield snapshots by number, tags by name, then changelogs by number.

    A version may change its name during the walk: an expiring snapshot may become a tag or a
    changelog, and a tag another tag. So the walk lists a folder only after it has read the previous
    folders. If a file has vanished, it lists all of them again.

    Args:
        root: the folder of a table, or of one of its branches.
    """
    read_paths: set[str] = set()
    has_vanished = True
    while has_vanished:
        has_vanished = False
        for kind in (VersionKind.SNAPSHOT, VersionKind.TAG, VersionKind.CHANGELOG):
            for path in _paths(file_io, root, kind):
                if path in read_paths:
                    continue
                try:
                    data = file_io.read_bytes(path)
                except FileNotFoundError:
                    has_vanished = True
                    continue
                read_paths.add(path)
                yield _decode(kind, path, data)


def _paths(file_io: FileIO, root: str, kind: VersionKind) -> list[str]:
    if kind is VersionKind.TAG:
        return [f"{root}/tag/tag-{name}" for name in TagManager(file_io, root).names()]
    folder = f"{root}/{kind.value}"
    return [
        f"{folder}/{kind.value}-{snapshot_id}"
        for snapshot_id in listed_ids(file_io, folder, f"{kind.value}-")
    ]


def _decode(kind: VersionKind, path: str, data: bytes) -> NamedVersion:
    try:
        return NamedVersion(kind=kind, path=path, snapshot=decode_snapshot(data))
    except CorruptFileError as error:
        return NamedVersion(kind=kind, path=path, snapshot=None, problem=error.problem)
