"""Lists what expiry must keep of a table: the files on disk, and the rows of each version.

This module has the rules once more, from the files' point of view and by brute force: a file stays
if some version that is left names it. It calls no code of the expiry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.tables.merge_read import MergeRead

_KINDS = ("data-*", "changelog-*.parquet", "manifest-*", "index-*", "stat-*")


def files_on_disk(table: FileStoreTable) -> set[str]:
    """Return all files of data and metadata but snapshots, schemas, tags and consumers."""
    root = Path(table.location)
    return {path.name for kind in _KINDS for path in root.rglob(kind)}


def branches_of(table: FileStoreTable) -> list[FileStoreTable]:
    """Return the main branch and the others, as tables."""
    folders = sorted(Path(table.location, "branch").glob("branch-*"))
    names = [folder.name.removeprefix("branch-") for folder in folders]
    return [replace(table, branch=name) for name in ("", *names)]


def files_that_are_named(table: FileStoreTable) -> set[str]:
    """Return the files that a snapshot, tag or long-lived changelog of a branch names."""
    return set().union(*map(_files_of_branch, branches_of(table)))


def _files_of_branch(table: FileStoreTable) -> set[str]:
    names: set[str] = set()
    scan = FileStoreScan(table)
    for snapshot in map(table.snapshots.snapshot, table.snapshots.ids()):
        names |= _of_version(table, snapshot) | _of_changelog(table, snapshot)
    for tag in table.tags.tags():
        names |= _of_version(table, tag.snapshot)
    for number in table.changelogs.ids():
        changelog = table.changelogs.changelog(number)
        names |= _of_changelog(table, changelog)
        if changelog.changelog_manifest_list is None and _is_there(table, changelog):
            added_entries = [e for e in scan.delta(changelog) if e.kind is FileKind.ADD]
            is_append = changelog.commit_kind is CommitKind.APPEND
            names |= (_data_names(added_entries) if is_append else set()) | _lists(table, changelog)
    return names


def files_that_later_changelogs_drop(table: FileStoreTable) -> set[str]:
    """Return flushed files that serve as changelog until a later changelog expires.

    The later changelog is the one that replaced them. It may still be the earliest snapshot, which
    becomes a changelog when it expires.
    """
    return set().union(*map(_later_drops, branches_of(table)))


def _later_drops(table: FileStoreTable) -> set[str]:
    if table.options.writes_changelog or not table.changelogs.ids():
        return set()
    scan = FileStoreScan(table)
    changelogs = [table.changelogs.changelog(number) for number in table.changelogs.ids()]
    earliest_snapshot = table.snapshots.snapshot(table.snapshots.ids()[0])
    return {
        name
        for snapshot in (*changelogs, earliest_snapshot)
        for name in _data_names(scan.delta(snapshot))
    }


def _of_version(table: FileStoreTable, snapshot: Snapshot) -> set[str]:
    names = _data_names(FileStoreScan(table).live(snapshot)) | _lists(table, snapshot)
    if snapshot.index_manifest is not None:
        names.add(snapshot.index_manifest)
        entries = table.manifests.read_index_manifest(snapshot.index_manifest)
        names |= {entry.index_file.file_name for entry in entries}
    return names


def _of_changelog(table: FileStoreTable, snapshot: Snapshot) -> set[str]:
    name = snapshot.changelog_manifest_list
    if name is None:
        return set()
    metas = table.manifests.read_list(name, snapshot.changelog_manifest_list_size)
    entries = FileStoreScan(table).changelog(snapshot)
    return {name, *(meta.file_name for meta in metas)} | _data_names(entries)


def _lists(table: FileStoreTable, snapshot: Snapshot) -> set[str]:
    names = {snapshot.base_manifest_list, snapshot.delta_manifest_list}
    return names | {meta.file_name for meta in FileStoreScan(table).manifests(snapshot)}


def _is_there(table: FileStoreTable, changelog: Snapshot) -> bool:
    return table.file_io.exists(table.paths.manifest(changelog.delta_manifest_list))


def _data_names(entries: Iterable[ManifestEntry]) -> set[str]:
    return {name for entry in entries for name in (entry.file.file_name, *entry.file.extra_files)}


def rows_of(table: FileStoreTable, snapshot: Snapshot) -> list[str]:
    """Return a version's rows in an order of their own."""
    read = MergeRead(table)
    return by_content(normal_rows(pa.Table.from_batches(read.read(snapshot), schema=read.schema)))


def changes_of_all(table: FileStoreTable) -> dict[int, list[str]]:
    """Return the changes of each snapshot and long-lived changelog that has any."""
    first = min([*table.changelogs.ids(), *table.snapshots.ids()], default=1)
    by_snapshot: dict[int, list[str]] = {}
    for batch in PaimonTable(table).changelog(snapshot=first):
        rows = normal_rows(pa.Table.from_batches([batch.rows]))
        by_snapshot.setdefault(batch.snapshot_id, []).extend(by_content(rows))
    return {number: sorted(texts) for number, texts in by_snapshot.items()}


def versions(table: FileStoreTable) -> dict[str, Snapshot]:
    """Return all versions that can be read now, by name."""
    snapshots = {str(n): table.snapshots.snapshot(n) for n in table.snapshots.ids()}
    return snapshots | {tag.name: tag.snapshot for tag in table.tags.tags()}


def give_tag(table: FileStoreTable, name: str, snapshot_id: int) -> None:
    """Create a tag as Paimon does without a time to live: a copy of the snapshot's file."""
    data = Path(table.version_root, "snapshot", f"snapshot-{snapshot_id}").read_bytes()
    tag = Path(table.version_root, "tag", f"tag-{name}")
    tag.parent.mkdir(exist_ok=True)
    tag.write_bytes(data)


def make_branch(table: FileStoreTable, name: str, snapshot_id: int) -> None:
    """Make a branch of a snapshot as Paimon does: copy its file and the schema's."""
    root = Path(table.location)
    branch = root / "branch" / f"branch-{name}"
    for kind, number in (("snapshot", snapshot_id), ("schema", table.schema.schema_id)):
        file = branch / kind / f"{kind}-{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((root / kind / file.name).read_bytes())
