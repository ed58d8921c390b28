"""The versions beside snapshots whose files are retained: tags, and all versions of branches.

Source: Paimon `utils/TagManager.java#taggedSnapshots`, `utils/BranchManager.java`. Branches are
our care alone: Paimon's expiry of the main table does not look at them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial

from stream_app.fileio.recent_files import RecentFiles
from stream_app.filestore.versions.branches import branch_roots
from stream_app.filestore.versions.snapshot_manager import SnapshotManager
from stream_app.filestore.versions.tag_manager import TagManager
from stream_app.model.snapshot import Snapshot
from stream_app.planning.upkeep.unused_files import FileKey, tag_before, tags_of_range
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.manifest_reads import ManifestReads

LiveFilesCache = RecentFiles[frozenset[FileKey]]
"""The data files of versions by their delta lists, kept from one expiry to the next."""
_LIVE_FILES_KEPT = 1_000_000


def live_files_cache() -> LiveFilesCache:
    """An empty one."""
    return RecentFiles(_LIVE_FILES_KEPT, len)


@dataclass(frozen=True, slots=True)
class ProtectedVersions:
    """Tags and branches of a table at one moment.

    Attributes:
        tags: the tagged snapshots by number, ascending.
        branches: all snapshots and tags of branches. The oldest snapshot of a branch has all files
            that it began with. But when Paimon fast-forwards the main table to a branch, the table
            shares all of the branch's snapshots, and expires them one by one.
        branch_changelogs: the changelog lists of all versions of branches.
    """

    tags: dict[int, Snapshot]
    branches: tuple[Snapshot, ...]
    branch_changelogs: frozenset[str]

    def files_needed(
        self, snapshot_id: int, reads: ManifestReads, cache: LiveFilesCache
    ) -> list[Collection[FileKey]]:
        """Sets of retained files, among those that this snapshot's delta deletes.

        Raises:
            CorruptFileError: a version's metadata is incomplete, so its files cannot be determined.
        """
        number = tag_before(tuple(self.tags), snapshot_id)
        tagged = () if number is None else (self.tags[number],)
        return [
            cache.get(version.delta_manifest_list, partial(reads.live_files, version))
            for version in (*tagged, *self.branches)
        ]

    def of_range(self, begin: int, end: int, *, and_next: bool = False) -> list[Snapshot]:
        """The versions that may share metadata with the snapshots from `begin` to before `end`.

        Args:
            and_next: the first tag from `end` on as well. The version at `end` may have lost its
                own metadata, and then its shared files are unknown.
        """
        tagged = tuple(self.tags)
        numbers = tags_of_range(tagged, begin, end)
        if and_next:
            numbers += [number for number in tagged if number >= end][:1]
        return [*(self.tags[number] for number in numbers), *self.branches]


def protected_versions(
    table: FileStoreTable, names: Iterable[str] | None = None
) -> ProtectedVersions:
    """The tags and branches that there are now.

    Args:
        names: of the tags, if the caller has just listed them.

    Raises:
        CorruptFileError: the file of a tag or of a branch's snapshot cannot be read.
    """
    versions: list[Snapshot] = []
    changelogs: set[str] = set()
    for root in branch_roots(table.file_io, table.location):
        manager = SnapshotManager(table.file_io, root)
        snapshots = [manager.snapshot(number) for number in manager.ids()]
        of_branch = [tag.snapshot for tag in TagManager(table.file_io, root).tags()]
        versions += [*snapshots, *of_branch]
        changelogs |= {
            version.changelog_manifest_list
            for version in (*snapshots, *of_branch)
            if version.changelog_manifest_list is not None
        }
    tags = table.tags.tags() if names is None else table.tags.named(names)
    tagged = {tag.snapshot.snapshot_id: tag.snapshot for tag in tags}
    return ProtectedVersions(dict(sorted(tagged.items())), tuple(versions), frozenset(changelogs))
