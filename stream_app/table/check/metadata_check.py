"""Walks through the versions of a table, and checks all that can be checked without reading rows.

The walk carries the live files from snapshot to snapshot, so a snapshot costs as much as its
changes. Each folder is listed once. The walk also collects the entries of all files that a version
needs, for the checks that read them.

Snapshots may expire during the walk: findings about an expired version are dropped.

Source: Paimon `operation/AbstractFileStoreScan.java`, `operation/FileStoreCommitImpl.java`,
`operation/FileDeletionBase.java` (which files outlive their snapshot).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from stream_app.model.bucket_id import POSTPONED, BucketId
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry, ManifestFileMeta
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.options.file_options import DELETION_VECTORS_ENABLED
from stream_app.model.options.option import is_on
from stream_app.model.snapshot import CommitKind, Snapshot, VersionKind
from stream_app.planning.check.live_file_rules import (
    LiveFiles,
    bucket_count_findings,
    level_findings,
    placement_findings,
)
from stream_app.planning.check.version_rules import (
    RecordCounts,
    compaction_findings,
    count_findings,
)
from stream_app.planning.commit.live_entries import compacted_entries, live_entries
from stream_app.table.check.chain_check import version_chain_findings
from stream_app.table.check.manifest_check import ManifestCheck
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_presence import FilePresence
from stream_app.table.versions.version_files import (
    NamedVersion,
    named_versions,
    snapshot_restored_from_tag,
)

_ROLL_BACK = "roll the table back to a snapshot or tag before it: stream-app rollback-to"
Progress = Callable[[str, int, int], None]
"""Receives the part of the check, the number of its done steps, and the number of all its steps."""


@dataclass(frozen=True, slots=True)
class FileInUse:
    """A data or changelog file that a version needs."""

    entry: ManifestEntry
    path: str
    is_changelog: bool


@dataclass(slots=True)
class MetadataCheck:
    """One walk over a table's metadata. Call `run` once.

    Attributes:
        files: path → a data or changelog file in use.
        index_files: path → an index file in use, with the first checked snapshot that names it.
        version_count: the number of checked versions.
    """

    table: FileStoreTable
    progress: Progress
    files: dict[str, FileInUse] = field(default_factory=dict)
    index_files: dict[str, tuple[IndexManifestEntry, Snapshot]] = field(default_factory=dict)
    version_count: int = 0
    _manifests: ManifestCheck = field(init=False)
    _presence: FilePresence = field(init=False)
    _files: LiveFiles | None = field(init=False, default=None)
    _metas: list[ManifestFileMeta] = field(init=False, default_factory=list)
    _previous_id: int = field(init=False, default=0)
    _restored_snapshot: Snapshot | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._manifests = ManifestCheck(self.table)
        self._presence = FilePresence(self.table)

    def run(self) -> list[Finding]:
        """Return all findings, first those about the chain of snapshots, then by version."""
        versions = named_versions(self.table)
        self._restored_snapshot = snapshot_restored_from_tag(versions)
        findings = version_chain_findings(self.table, versions)
        snapshots = {
            version.snapshot.snapshot_id: version.snapshot
            for version in versions
            if version.kind is VersionKind.SNAPSHOT and version.snapshot is not None
        }
        for done, version in enumerate(versions):
            self.progress("versions", done, len(versions))
            self._manifests.begin_version()
            rule_findings = list(self._version_findings(version, snapshots))
            version_findings = self._manifests.findings + rule_findings
            if version_findings and not self.table.file_io.exists(version.path):
                self._files = None
                continue
            self.version_count += 1
            findings += version_findings
        self.progress("versions", len(versions), len(versions))
        return findings

    def _version_findings(
        self, version: NamedVersion, snapshots: dict[int, Snapshot]
    ) -> Iterator[Finding]:
        """Yield the findings about one version: its schema, its files and its changelog."""
        snapshot = version.snapshot
        if snapshot is None:
            self._files = None
            yield _unreadable_version(version)
            return
        if (schema_id := snapshot.schema_id) not in self._presence.schemas():
            yield Finding(
                kind=FindingKind.SCHEMA,
                problem=f"the version has schema {schema_id}, which the table lacks",
                where=version.path,
                fix=f"restore schema/schema-{schema_id} from a backup",
            )
        if version.kind is VersionKind.CHANGELOG:
            yield from self._changelog_file_findings(snapshot, version)
        elif version.kind is VersionKind.TAG:
            stored_snapshot = snapshots.get(snapshot.snapshot_id)
            # Names of lists are unique, so they decide whether the tag is that snapshot.
            is_same = (
                stored_snapshot is not None
                and stored_snapshot.delta_manifest_list == snapshot.delta_manifest_list
            )
            if stored_snapshot is not None and not is_same:
                yield Finding(
                    kind=FindingKind.SNAPSHOTS,
                    problem=f"the tag's snapshot {snapshot.snapshot_id} is not the table's "
                    "snapshot of this number",
                    where=version.path,
                    fix="delete the tag, which a rollback to an earlier snapshot has left: "
                    "stream-app delete-tag",
                )
            if not is_same:  # else the snapshot's own turn checks it
                self._files = None
                yield from self._live_file_findings(snapshot, version)
                self._files = None
        else:
            if snapshot.snapshot_id != self._previous_id + 1:
                self._files = None
            self._previous_id = snapshot.snapshot_id
            yield from self._live_file_findings(snapshot, version)
            yield from self._changelog_findings(snapshot, version)

    def _live_file_findings(self, snapshot: Snapshot, version: NamedVersion) -> Iterator[Finding]:
        """Advance to the snapshot's live files, and check the files that changed."""
        read_manifests = self._manifests.manifests
        base_metas = read_manifests(snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        delta_metas = read_manifests(
            snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
        )
        if base_metas is None or delta_metas is None:
            self._files = None
            return
        delta = self._manifests.entries(delta_metas)
        if self._files is None:
            entries = self._manifests.entries(base_metas)
            if entries is None or delta is None:
                return
            changed_entries = live_entries(entries + delta)
            self._files = LiveFiles()
            self._files.apply(changed_entries)
        else:
            yield from self._base_findings(base_metas, version.path)
            if delta is None:
                self._files = None
                return
            yield from (_delta_finding(entry, version.path) for entry in self._files.apply(delta))
            changed_entries = delta
        self._metas = base_metas + delta_metas
        yield from self._placement_findings(changed_entries)
        yield from self._count_findings(snapshot, delta, version)
        yield from self._missing_file_findings(changed_entries, is_changelog=False)
        yield from self._index_findings(snapshot, version)

    def _base_findings(self, base_metas: list[ManifestFileMeta], where: str) -> Iterator[Finding]:
        """Check that merged manifests have the same live files as those that they replace."""
        metas_before = {meta.file_name: meta for meta in self._metas}
        metas_after = {meta.file_name: meta for meta in base_metas}
        removed_metas = [meta for name, meta in metas_before.items() if name not in metas_after]
        added_metas = [meta for name, meta in metas_after.items() if name not in metas_before]
        removed_entries = self._manifests.entries(removed_metas)
        added_entries = self._manifests.entries(added_metas)
        if removed_entries is None or added_entries is None:
            return
        expected_entries, actual_entries = (
            {(entry.kind, entry.identity) for entry in compacted_entries(entries)}
            for entries in (removed_entries, added_entries)
        )
        names = sorted({identity.file_name for _, identity in expected_entries ^ actual_entries})
        if names:
            yield Finding(
                kind=FindingKind.MANIFEST,
                problem="the base manifests of the snapshot are not what the snapshot before had: "
                f"they differ in {len(names)} files, such as {names[0]}",
                where=where,
                fix=_ROLL_BACK,
            )

    def _placement_findings(self, changed_entries: Iterable[ManifestEntry]) -> Iterator[Finding]:
        """Check the levels and buckets that a snapshot changed."""
        assert self._files is not None
        buckets = {entry.bucket_id: None for entry in changed_entries}
        for partition in dict.fromkeys(partition for partition, _ in buckets):
            where = self.table.paths.partition_folder(partition)
            yield from bucket_count_findings(self._files.total_buckets(partition), where)
        for partition, bucket in buckets:
            entries = list(self._files.bucket(BucketId(partition, bucket)))
            where = self.table.paths.bucket_folder(partition, bucket)
            yield from placement_findings(entries, where)
            if self._has_sorted_runs and bucket != POSTPONED:
                files = [entry.file for entry in entries]
                yield from level_findings(files, self.table.key_of, where)

    @property
    def _has_sorted_runs(self) -> bool:
        """Whether levels are sorted runs; files in order of ``clustering.columns`` may overlap."""
        schema = self.table.schema
        is_clustered = is_on(schema.options, "pk-clustering-override")
        return schema.kind_traits.merges_by_key and not is_clustered

    def _count_findings(
        self, snapshot: Snapshot, delta: list[ManifestEntry] | None, version: NamedVersion
    ) -> Iterator[Finding]:
        assert self._files is not None
        row_gain = None if delta is None else sum(map(_row_gain, delta))
        file_counts = RecordCounts(total=self._files.row_count, delta=row_gain, changelog=None)
        yield from count_findings(snapshot, file_counts, version.path)
        # A compaction drops the rows that deletion vectors mark.
        has_vectors = bool(self.index_files) or self.table.options[DELETION_VECTORS_ENABLED]
        if row_gain is not None and not self.table.kind_traits.merges_by_key and not has_vectors:
            yield from compaction_findings(snapshot, row_gain, version.path)

    def _changelog_findings(self, snapshot: Snapshot, version: NamedVersion) -> Iterator[Finding]:
        name = snapshot.changelog_manifest_list
        # Paimon's expiry of the main table deletes it, and ignores branches.
        may_be_gone = bool(self.table.branch) or snapshot == self._restored_snapshot
        paths, exists = self.table.paths, self.table.file_io.exists
        if name is not None and may_be_gone and not exists(paths.manifest(name)):
            return
        entries = self._manifests.entries_of_list(name, snapshot.changelog_manifest_list_size)
        if entries is None:
            return
        row_count = sum(entry.file.row_count for entry in entries)
        file_counts = RecordCounts(total=None, delta=None, changelog=row_count)
        yield from count_findings(snapshot, file_counts, version.path)
        yield from self._missing_file_findings(entries, is_changelog=True)

    def _changelog_file_findings(
        self, snapshot: Snapshot, version: NamedVersion
    ) -> Iterator[Finding]:
        """Check that a changelog has its changelog files, or the files that its APPEND added."""
        if snapshot.changelog_manifest_list is not None:
            yield from self._changelog_findings(snapshot, version)
        elif snapshot.commit_kind is CommitKind.APPEND and not self.table.options.writes_changelog:
            name, size = snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
            entries = self._manifests.entries_of_list(name, size)
            yield from self._missing_file_findings(entries or (), is_changelog=False)

    def _missing_file_findings(
        self, entries: Iterable[ManifestEntry], *, is_changelog: bool
    ) -> Iterator[Finding]:
        for entry in entries:
            path = self.table.paths.data_file(*entry.bucket_id, entry.file)
            if entry.kind is not FileKind.ADD or path in self.files:
                continue
            self.files[path] = FileInUse(entry, path, is_changelog)
            yield from self._presence.findings(path, entry.file.file_size)
            folder = path.rpartition("/")[0]
            for name in entry.file.extra_files:
                yield from self._presence.findings(f"{folder}/{name}", None)

    def _index_findings(self, snapshot: Snapshot, version: NamedVersion) -> Iterator[Finding]:
        for entry in self._manifests.index_entries(snapshot.index_manifest):
            file = entry.index_file
            path = self.table.paths.index_file(*entry.bucket_id, file)
            if path not in self.index_files:
                self.index_files[path] = (entry, snapshot)
                yield from self._presence.findings(path, file.file_size)
            yield from self._vectors_of_dead_files(entry, path, version.path)

    def _vectors_of_dead_files(
        self, index_entry: IndexManifestEntry, path: str, where: str
    ) -> Iterator[Finding]:
        """Yield a finding if an index file has deletion vectors of files that are not live."""
        # Paimon's full compaction of a keyed table keeps the deletion vectors of the files that it
        # replaces.
        if not index_entry.holds_deletion_vectors or self.table.merges_by_vectors:
            return
        assert self._files is not None
        live_names = {entry.file.file_name for entry in self._files.bucket(index_entry.bucket_id)}
        dead_names = sorted(set(index_entry.index_file.data_file_names) - live_names)
        if dead_names:
            yield Finding(
                kind=FindingKind.DELETION_VECTOR,
                problem=f"{path.rpartition('/')[2]} has deletion vectors of {len(dead_names)} "
                f"files that are not live, such as {dead_names[0]}",
                where=where,
                fix="do nothing: readers ignore them, and the next rewrite of the bucket removes "
                "them",
            )


def _row_gain(entry: ManifestEntry) -> int:
    return entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count


def _delta_finding(entry: ManifestEntry, where: str) -> Finding:
    is_add = entry.kind is FileKind.ADD
    problem = "adds a file that is there" if is_add else "deletes a file that is not there"
    return Finding(
        kind=FindingKind.MANIFEST,
        problem=f"the snapshot {problem}: {entry.file.file_name} at level {entry.file.level}",
        where=where,
        fix=_ROLL_BACK,
    )


def _unreadable_version(version: NamedVersion) -> Finding:
    return Finding(
        kind=FindingKind.SNAPSHOTS,
        problem=version.problem,
        where=version.path,
        fix="restore the file from a backup"
        + ("; or delete the tag" if version.kind is VersionKind.TAG else f"; or {_ROLL_BACK}"),
    )
