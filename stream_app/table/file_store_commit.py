"""The single committer: files of an epoch → one APPEND and, if need be, one COMPACT snapshot.

Order on disk: manifests, manifest lists, then the snapshot by create-if-absent, then the hint. So
a snapshot that exists is complete, and a crash before leaves files that nothing names. A lost race
is retried on top of the winner; a commit whose outcome is unknown is looked up by the name of its
delta list, which nobody else can have.

Source: seed document 001, Paimon `operation/FileStoreCommitImpl.java`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.errors import CommitConflictError, CommitError
from stream_app.model.commit_message import CommitMessage, ManifestCommittable
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.manifest_entry import FileKind, ManifestEntry, ManifestFileMeta
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.planning.conflict_detection import conflict
from stream_app.planning.live_entries import compacted_entries
from stream_app.planning.manifest_merge import manifest_groups
from stream_app.table.commit_history import CommitHistory
from stream_app.table.compacted_index import CompactedIndex
from stream_app.table.file_store_scan import FileStoreScan
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True)
class CompactOutcome:
    """The COMPACT snapshot, if there was something to commit.

    `conflict` says why the compactions were not committed; their new files belong to nobody then.
    """

    snapshot: Snapshot | None = None
    conflict: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What one snapshot is to say; the manifests of it are written once, whatever is retried.

    `check` it against the table also on top of the snapshot that is known.
    """

    kind: CommitKind
    check: bool
    entries: tuple[ManifestEntry, ...]
    changelog: tuple[ManifestEntry, ...]
    committable: ManifestCommittable
    delta_list: tuple[str, int]
    changelog_list: tuple[str, int] | None
    manifests: tuple[str, ...]


@dataclass(slots=True)
class FileStoreCommit:
    """Commits for one user.

    Attributes:
        history: what is known of the table. Commits directly on top of it advance it; after
            others' it is for the caller to look.
    """

    table: FileStoreTable
    history: CommitHistory
    _scan: FileStoreScan = field(init=False)

    def __post_init__(self) -> None:
        self._scan = FileStoreScan(self.table)

    def commit_appends(self, committable: ManifestCommittable) -> Snapshot:
        """Publish an epoch's new files.

        Raises:
            CommitConflictError: they cannot go into the table any more; nothing is in it.
            CommitError: others won every race, or the time is over; nothing is in the table.
        """
        return self._publish(CommitKind.APPEND, committable, check=False)

    def commit_compactions(
        self, committable: ManifestCommittable, *, are_overtaken: bool = False
    ) -> CompactOutcome:
        """Publish an epoch's compactions; what cannot be published is no failure.

        Args:
            are_overtaken: others changed their buckets since they began: what they rest on is
                older than the known snapshot.
        """
        if not any(message.compact_before for message in committable.compactions):
            return CompactOutcome()
        try:
            return CompactOutcome(
                self._publish(CommitKind.COMPACT, committable, check=are_overtaken)
            )
        except CommitError as error:
            # Whatever is in the files stays in the table uncompacted: nothing is lost.
            return CompactOutcome(conflict=error.what)

    def _publish(
        self, kind: CommitKind, committable: ManifestCommittable, *, check: bool
    ) -> Snapshot:
        change = self._prepare(kind, committable, check=check)
        try:
            snapshot = self._race(change)
        except CommitError:
            # Only now it is sure that no snapshot names these; after any other error they stay.
            for name in change.manifests:
                self.table.manifests.delete(name)
            raise
        self.history.advance(snapshot)
        return snapshot

    def _prepare(
        self, kind: CommitKind, committable: ManifestCommittable, *, check: bool
    ) -> _Change:
        total_buckets = self.table.options.bucket
        entries: list[ManifestEntry] = []
        changelog: list[ManifestEntry] = []
        if kind is CommitKind.APPEND:
            for message in committable.appends or ():
                entries += _entries(FileKind.ADD, message, message.new_files, total_buckets)
                changelog += _entries(FileKind.ADD, message, message.changelog_files, total_buckets)
        else:
            # All DELETEs stand before all ADDs.
            for message in committable.compactions:
                entries += _entries(FileKind.DELETE, message, message.compact_before, total_buckets)
            for message in committable.compactions:
                entries += _entries(FileKind.ADD, message, message.compact_after, total_buckets)
        files = self.table.manifests
        delta_metas = files.write_manifests(entries)
        changelog_metas = files.write_manifests(changelog)
        delta_list = files.write_list(delta_metas)
        changelog_list = files.write_list(changelog_metas) if changelog_metas else None
        names = [meta.file_name for meta in (*delta_metas, *changelog_metas)]
        names += [written[0] for written in (delta_list, changelog_list) if written]
        return _Change(
            kind=kind,
            check=check,
            entries=tuple(entries),
            changelog=tuple(changelog),
            committable=committable,
            delta_list=delta_list,
            changelog_list=changelog_list,
            manifests=tuple(names),
        )

    def _race(self, change: _Change) -> Snapshot:
        options, clock = self.table.options, self.table.clock
        retries = options.integer("commit.max-retries")
        timeout_ms = options.optional_integer("commit.timeout")
        longest_wait = options.integer("commit.max-retry-wait") / 1000
        wait = options.integer("commit.min-retry-wait") / 1000
        began = clock.steady_seconds()
        for _ in range(retries + 1):
            snapshot = self._attempt(change)
            if snapshot is not None:
                return snapshot
            if timeout_ms is not None and clock.steady_seconds() - began > timeout_ms / 1000:
                break
            clock.sleep(wait)
            wait = min(longest_wait, wait * 2)
        raise CommitError(
            f"a commit lost the race for the next snapshot {retries + 1} times, or for too long",
            where=self.table.location,
            fix="other writers commit without a pause: raise 'commit.max-retries' or "
            "'commit.timeout', or let fewer jobs write this table",
        )

    def _attempt(self, change: _Change) -> Snapshot | None:
        """Try once; None when another snapshot came first."""
        latest = self.table.snapshots.latest()
        self.history.check(latest)
        self._check(change, latest)
        index = self._index(change, latest)
        base_list, merged = self._write_base_list(latest)
        snapshot = self._snapshot(change, latest, base_list, index.name)
        try:
            published = self.table.snapshots.publish(snapshot)
        except Exception:
            # The snapshot may be there all the same; then its files must stay.
            if self._is_ours(snapshot, change):
                return snapshot
            raise
        # Paimon's Java renames over a snapshot that came into being while it looked whether there
        # is one (on a local file system, which has no rename that refuses). Look again.
        if self._is_ours(snapshot, change) or (
            published and not self.table.snapshots.exists(snapshot.snapshot_id)
        ):
            return snapshot
        for name in (base_list[0], *merged):
            self.table.manifests.delete(name)
        index.delete()
        return None

    def _index(self, change: _Change, latest: Snapshot | None) -> CompactedIndex:
        index = CompactedIndex(self.table, latest.index_manifest if latest else None)
        keyless = not self.table.schema.has_primary_key
        if latest and index.name and keyless and change.kind is CommitKind.COMPACT:
            try:
                index.take_away(latest, change.entries)
            except BaseException:
                index.delete()
                raise
        return index

    def _is_ours(self, snapshot: Snapshot, change: _Change) -> bool:
        try:
            there = self.table.snapshots.snapshot(snapshot.snapshot_id)
        except FileNotFoundError:
            return False
        return there.delta_manifest_list == change.delta_list[0]

    def _check(self, change: _Change, latest: Snapshot | None) -> None:
        if latest is None or (latest.snapshot_id == self.history.known_id and not change.check):
            return
        # A compaction under an identifier that a later one has overtaken would hide the later one.
        is_compaction = change.kind is CommitKind.COMPACT
        self.history.check_not_committed(change.committable.identifier + is_compaction)
        # All buckets of a partition tell how many it has.
        numbers = self.table.schema.bucket_numbers
        partitions = {entry.partition for entry in change.entries}
        buckets = {(partition, number) for partition in partitions for number in numbers}
        live = self._scan.live(latest, buckets)
        problem = conflict(live, change.entries, self.table.key_of)
        if problem is not None:
            raise CommitConflictError(
                f"snapshot {latest.snapshot_id} of user {latest.commit_user} stands against this "
                f"{change.kind.value} commit: {problem}",
                where=self.table.location,
                fix="let one job alone change the buckets and compact the table",
            )

    def _write_base_list(self, latest: Snapshot | None) -> tuple[tuple[str, int], list[str]]:
        """The base list's name and size, and the manifests that were merged for it."""
        files, options = self.table.manifests, self.table.options
        if latest is None:
            return files.write_list([]), []
        metas: list[ManifestFileMeta] = []
        new_names: list[str] = []
        for group in manifest_groups(
            self._scan.manifests(latest),
            target_size=options.integer("manifest.target-file-size"),
            min_count=options.integer("manifest.merge-min-count"),
        ):
            if len(group) == 1:
                metas.append(group[0])
                continue
            entries = [
                entry
                for meta in group
                for entry in files.read_manifest(meta.file_name, meta.file_size)
            ]
            merged = files.write_manifests(compacted_entries(entries))
            new_names += [meta.file_name for meta in merged]
            metas += merged
        return files.write_list(metas), new_names

    def _snapshot(
        self,
        change: _Change,
        latest: Snapshot | None,
        base_list: tuple[str, int],
        index_manifest: str | None,
    ) -> Snapshot:
        delta_records = sum(
            entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
            for entry in change.entries
        )
        schema_ids = self.table.schemas.ids()
        schema_id = schema_ids[-1] if schema_ids else self.table.schema.schema_id
        committable = change.committable
        same_schema = latest is not None and latest.schema_id == schema_id
        changelog = change.changelog_list
        return Snapshot(
            snapshot_id=1 if latest is None else latest.snapshot_id + 1,
            schema_id=schema_id,
            base_manifest_list=base_list[0],
            base_manifest_list_size=base_list[1],
            delta_manifest_list=change.delta_list[0],
            delta_manifest_list_size=change.delta_list[1],
            changelog_manifest_list=changelog[0] if changelog else None,
            changelog_manifest_list_size=changelog[1] if changelog else None,
            index_manifest=index_manifest,
            commit_user=self.history.commit_user,
            commit_identifier=committable.identifier,
            commit_kind=change.kind,
            time_millis=self.table.clock.now_ms(),
            total_record_count=self._total_records(latest) + delta_records,
            delta_record_count=delta_records,
            changelog_record_count=sum(entry.file.row_count for entry in change.changelog)
            if changelog
            else None,
            watermark=_latest_watermark(committable.watermark, latest),
            statistics=latest.statistics if latest and same_schema else None,
            properties=_properties(committable.properties),
            next_row_id=(latest.next_row_id if latest else None) or 0,
        )

    def _total_records(self, latest: Snapshot | None) -> int:
        if latest is None:
            return 0
        if latest.total_record_count is not None:
            return latest.total_record_count
        return sum(entry.file.row_count for entry in self._scan.live(latest))


def _entries(
    kind: FileKind, message: CommitMessage, files: Sequence[DataFileMeta], total_buckets: int
) -> list[ManifestEntry]:
    if message.total_buckets is not None:
        total_buckets = message.total_buckets
    return [
        ManifestEntry(
            kind=kind,
            partition=message.partition,
            bucket=message.bucket,
            total_buckets=total_buckets,
            file=file,
        )
        for file in files
    ]


def _latest_watermark(given: int | None, latest: Snapshot | None) -> int | None:
    known = [mark for mark in (given, latest.watermark if latest else None) if mark is not None]
    return max(known, default=None)


def _properties(properties: Mapping[str, str] | None) -> dict[str, str] | None:
    return dict(properties) if properties else None
