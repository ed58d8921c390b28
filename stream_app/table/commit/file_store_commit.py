"""The committer, which publishes changes of files as one snapshot.

Order on disk: manifests, manifest lists, then the snapshot by create-if-absent, then the hint. So a
snapshot that exists is complete, and a crash before it leaves only orphans. The committer retries a
lost race on top of the winner's snapshot. If the outcome of its write is unknown, it looks for the
snapshot with the name of its delta manifest list, which is unique. Expiry frees the numbers of old
snapshots, so a delayed commit may have used such a number. The committer then deletes its snapshot
again (`late_snapshot`).

Source: Paimon `operation/FileStoreCommitImpl.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from stream_app.catalog.catalog_environment import PartitionStatisticsReader
from stream_app.errors import CommitConflictError, CommitError, CorruptFileError
from stream_app.fileio.file_io import UnsyncedError
from stream_app.format.avro.avro_records import check_known
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.options.merge_options import SEQUENCE_SNAPSHOT_ORDERING
from stream_app.model.options.write_options import (
    COMMIT_MAX_RETRIES,
    COMMIT_MAX_RETRY_WAIT,
    COMMIT_MIN_RETRY_WAIT,
    COMMIT_TIMEOUT,
)
from stream_app.model.snapshot import TRUNCATE, CommitKind, Snapshot
from stream_app.planning.commit.retry_wait import retry_wait_s
from stream_app.planning.commit.snapshot_ordering import number_entries
from stream_app.table.commit.carried_statistics_reader import CarriedStatisticsReader
from stream_app.table.commit.commit_callbacks import CommitCallbacks
from stream_app.table.commit.commit_changes import (
    CommitChanges,
    NextSumRecord,
    changes_of_buckets,
    changes_of_overwrite,
)
from stream_app.table.commit.commit_conflict_check import CommitConflictCheck
from stream_app.table.commit.commit_files import CommitFiles, NewestManifestCache
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.compacted_index import compacted_index
from stream_app.table.commit.late_snapshot import base_exists, check_follows_base, is_in_table
from stream_app.table.commit.next_snapshot import CommitBase, PlannedSnapshot, next_snapshot
from stream_app.table.commit.next_sum_record import with_copied_proof, with_sum_record
from stream_app.table.commit.recorded_epochs import epochs_as_of, with_epochs
from stream_app.table.file_store_table import FileStoreTable

BaseCheck = Callable[[Snapshot | None], None]
"""A check of the snapshot on top of which a commit is about to be made; repeated after a lost race.

It raises CommitConflictError to forbid the commit.
"""


@dataclass(frozen=True, slots=True)
class CompactOutcome:
    """The result of `commit_compactions`: a COMPACT snapshot, a conflict or nothing to commit.

    `conflict` says why the compactions were not committed; their new files are then orphans.
    `conflicting_files` has the names of the files in conflict; empty means all.
    """

    snapshot: Snapshot | None = None
    conflict: str | None = None
    conflicting_files: frozenset[str] = frozenset()


@dataclass(slots=True)
class FileStoreCommit:
    """The publication of one commit user's changes as snapshots, against concurrent writers.

    Attributes:
        commit_history: the known snapshot and this writer's commits. A commit on top of the known
            snapshot advances it. After other writers' commits the caller must catch up.
        callbacks: run after each published snapshot.
    """

    table: FileStoreTable
    commit_history: CommitHistory
    callbacks: CommitCallbacks = field(init=False)
    _conflict_check: CommitConflictCheck = field(init=False)
    _statistics_reader: CarriedStatisticsReader = field(init=False)
    _manifest_cache: NewestManifestCache = field(init=False, default_factory=NewestManifestCache)
    _has_restored_earliest_hint: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._conflict_check = CommitConflictCheck(self.table)
        self._statistics_reader = CarriedStatisticsReader(self.table)
        self.callbacks = CommitCallbacks(self.table)

    def commit_appends(
        self, committable: ManifestCommittable, *, check_base: BaseCheck | None = None
    ) -> Snapshot:
        """Publish an epoch's new files in an APPEND snapshot.

        Raises:
            CommitConflictError: the files no longer fit the table, or `check_base` raised it;
                nothing is committed.
            CommitError: other writers won every race, or time is up; nothing is committed.
            CheckpointError: the table was replaced, or so many snapshots have expired that the
                commit's outcome cannot be determined.
        """
        changes = changes_of_buckets(committable.changes, self.table.options.bucket)
        changes_on = partial(_checked_changes, changes, check_base)
        return self._publish(PlannedSnapshot(CommitKind.APPEND, committable, changes_on))

    def commit_compactions(
        self, committable: ManifestCommittable, *, are_overtaken: bool = False
    ) -> CompactOutcome:
        """Publish an epoch's compactions. A conflict is an outcome, not an error.

        Args:
            are_overtaken: whether other writers changed these buckets after the compactions began,
                and the known snapshot has their changes.
        """
        if not any(change.removed_files for change in committable.changes):
            return CompactOutcome()
        changes = changes_of_buckets(committable.changes, self.table.options.bucket)
        plan = PlannedSnapshot(
            CommitKind.COMPACT, committable, lambda _: changes, is_outdated=are_overtaken
        )
        try:
            return CompactOutcome(self._publish(plan))
        except CommitConflictError as error:
            # The rows stay in the table uncompacted: nothing is lost.
            return CompactOutcome(conflict=error.problem, conflicting_files=error.files)
        except CommitError as error:
            return CompactOutcome(conflict=error.problem)

    def overwrite(
        self,
        committable: ManifestCommittable,
        partitions: Collection[bytes] | None = None,
        *,
        check_files: Callable[[Sequence[ManifestEntry]], None] | None = None,
        operation: str | None = None,
        keeps_postponed: bool = False,
    ) -> Snapshot:
        """Replace live files by new ones in one snapshot. Without new files, this only deletes.

        It overwrites concurrent commits as well, unless `check_files` forbids it. The known
        snapshot stays, so a follower reads this snapshot like another writer's.

        Args:
            committable: names the added files. An overwrite writes no changelog, and deletes all
                live files of `partitions`.
            partitions: serialized partitions, of which all buckets are replaced; None: the whole
                table.
            check_files: gets the deleted files in each attempt, and may raise CommitConflictError.
            operation: the operation that the snapshot records.
            keeps_postponed: whether rows that wait in ``bucket-postpone`` stay.

        Raises:
            CommitConflictError: `check_files` raised it; nothing has changed.
            CommitError: other writers won every race, or time is up; nothing has changed.
        """
        changes = committable.changes
        assert not any(change.changelog_files or change.removed_files for change in changes)
        assert partitions is None or {change.partition for change in changes} <= {*partitions}

        def changes_on(base_snapshot: Snapshot | None) -> CommitChanges:
            overwrite_changes = changes_of_overwrite(
                self.table, base_snapshot, partitions, changes, keeps_postponed=keeps_postponed
            )
            if check_files is not None:
                check_files(
                    [entry for entry in overwrite_changes.entries if entry.kind is FileKind.DELETE]
                )
            return overwrite_changes

        return self._publish(
            PlannedSnapshot(CommitKind.OVERWRITE, committable, changes_on, operation=operation)
        )

    def drop_partitions(
        self,
        partitions: Collection[bytes],
        identifier: int,
        *,
        check_files: Callable[[Sequence[ManifestEntry]], None] | None = None,
    ) -> Snapshot:
        """Delete all rows of partitions, in one snapshot.

        Args:
            partitions: serialized partitions; a partition without files is harmless.
            identifier: the commit identifier. A stream gives the identifier of its newest commit. A
                caller with its own commit user may give `BATCH_COMMIT_IDENTIFIER`.
            check_files: gets the deleted files in each attempt, and may raise CommitConflictError.

        Raises:
            CommitConflictError, CommitError: as `overwrite`.
        """
        assert partitions, "nothing is to be dropped"
        committable = ManifestCommittable(identifier=identifier)
        return self.overwrite(committable, partitions, check_files=check_files, operation=TRUNCATE)

    def truncate(self, identifier: int) -> Snapshot:
        """Delete all rows of the table, in one snapshot; otherwise as `drop_partitions`."""
        return self.overwrite(ManifestCommittable(identifier=identifier), operation=TRUNCATE)

    def commit_analysis(
        self,
        committable: ManifestCommittable,
        *,
        statistics_file: str | None = None,
        next_sum_record: NextSumRecord | None = None,
    ) -> Snapshot:
        """Publish the results of an analysis in an ANALYZE snapshot, which changes no row.

        Args:
            statistics_file: the name of the statistics file.
            next_sum_record: computes the checksum of all rows from the previous snapshot's record.

        Raises:
            CommitConflictError: `next_sum_record` raised it; nothing is committed.
            CommitError: other writers won every race; nothing is committed.
        """
        changes = CommitChanges(statistics_file=statistics_file, next_sum_record=next_sum_record)
        return self._publish(PlannedSnapshot(CommitKind.ANALYZE, committable, lambda _: changes))

    def _publish(self, plan: PlannedSnapshot) -> Snapshot:
        commit_files = CommitFiles(self.table, self._manifest_cache)
        try:
            snapshot = self._race(plan, commit_files)
        except CommitError:
            # Only this error proves that no snapshot names the files; after any other error they
            # stay.
            commit_files.delete_all_files()
            raise
        commit_files.note_created_snapshot()
        self.commit_history.note_created_snapshot(snapshot)
        self.callbacks.call(snapshot, plan.committable.changes)
        return snapshot

    def _race(self, plan: PlannedSnapshot, commit_files: CommitFiles) -> Snapshot:
        """Try to commit on top of the latest snapshot until this succeeds or the retries end."""
        options, clock = self.table.options, self.table.clock
        retries_max = options[COMMIT_MAX_RETRIES]
        timeout_ms = options[COMMIT_TIMEOUT]
        start_s = clock.steady_seconds()
        # The committer has just followed the table, or made its latest snapshot. It reads the
        # latest one only after a lost race.
        latest_snapshot = self.commit_history.latest_snapshot
        for retry in range(retries_max + 1):
            snapshot = self._attempt(latest_snapshot, plan, commit_files)
            if snapshot is not None:
                return snapshot
            commit_files.delete_attempt_files()
            elapsed_s = clock.steady_seconds() - start_s
            if retry == retries_max or (timeout_ms is not None and elapsed_s > timeout_ms / 1000):
                break
            clock.sleep(
                retry_wait_s(
                    retry,
                    wait_min_ms=options[COMMIT_MIN_RETRY_WAIT],
                    wait_max_ms=options[COMMIT_MAX_RETRY_WAIT],
                    name=commit_files.name,
                )
            )
            latest_snapshot = self.table.snapshots.latest()
        races_text = f"lost the race for the next snapshot {retry + 1} times in {elapsed_s:.1f} s"
        raise _lost_race_error(self.table, self.commit_history.commit_user, plan, races_text)

    def _attempt(
        self, base_snapshot: Snapshot | None, plan: PlannedSnapshot, commit_files: CommitFiles
    ) -> Snapshot | None:
        """Try to commit on top of a snapshot; None if a newer snapshot exists."""
        snapshots = self.table.snapshots
        try:
            snapshot = self._prepare_snapshot(base_snapshot, plan, commit_files)
        except CorruptFileError:
            if base_snapshot is None or snapshots.latest_id() == base_snapshot.snapshot_id:
                raise
            return None  # the base expired during the read, so a newer one exists
        if not base_exists(snapshots, base_snapshot):
            return None  # the base expired during the write
        self.commit_history.note_attempt(snapshot)
        if not _publish_if_free(self.table, snapshot, commit_files.read_partition_statistics):
            return None
        check_follows_base(self.table, base_snapshot, snapshot)
        stored_snapshot = snapshots.write_hint_and_reread(snapshot.snapshot_id)
        # On a local file system Paimon's Java committer checks and then renames. So it can
        # overwrite a snapshot of the same id that appears in between.
        if stored_snapshot and stored_snapshot.delta_manifest_list != snapshot.delta_manifest_list:
            return None
        if not self._has_restored_earliest_hint:
            snapshots.restore_earliest_hint()
            self._has_restored_earliest_hint = True
        return snapshot

    def _prepare_snapshot(
        self, base_snapshot: Snapshot | None, plan: PlannedSnapshot, commit_files: CommitFiles
    ) -> Snapshot:
        """Write all files of a new snapshot except its own, and return the snapshot."""
        self.commit_history.check_not_rolled_back(base_snapshot)
        check_known(base_snapshot.unknown_fields if base_snapshot else (), self.table.location)
        epochs = epochs_as_of(self.table.snapshots, base_snapshot)
        schema_id = self._conflict_check.checked_schema_id()
        changes = _changes_of(self.table, plan, base_snapshot)
        known_id = self.commit_history.known_id
        if base_snapshot and (plan.is_outdated or base_snapshot.snapshot_id != known_id):
            # If another process has committed a higher identifier, this snapshot would hide its
            # commit.
            self.commit_history.check_alone(base_snapshot)
            self._conflict_check.check(plan.commit_kind, changes, base_snapshot, known_id)
        if plan.commit_kind is not CommitKind.OVERWRITE:
            self._conflict_check.check_index(changes, base_snapshot)
        index_entries = _write_compacted_index(self.table, plan, base_snapshot, changes)
        lists = commit_files.write(base_snapshot, changes, computed_index=index_entries)
        reader = self._statistics_reader
        statistics_file = changes.statistics_file or reader.inherited_file(base_snapshot, schema_id)
        base = CommitBase(self.table, base_snapshot, schema_id)
        complete_changes = replace(changes, statistics_file=statistics_file)
        user = self.commit_history.commit_user
        snapshot = with_epochs(next_snapshot(user, plan, complete_changes, lists, base), epochs)
        snapshot = with_copied_proof(snapshot, base_snapshot)
        return with_sum_record(snapshot, self.table, base_snapshot, changes)


def _changes_of(
    table: FileStoreTable, plan: PlannedSnapshot, base_snapshot: Snapshot | None
) -> CommitChanges:
    """Return the changes on top of the base, with sequence numbers if snapshots order the rows."""
    changes = plan.changes_on(base_snapshot)
    if not table.options[SEQUENCE_SNAPSHOT_ORDERING] or plan.commit_kind is CommitKind.COMPACT:
        return changes
    next_id = 1 if base_snapshot is None else base_snapshot.snapshot_id + 1
    return replace(changes, entries=number_entries(changes.entries, next_id))


def _write_compacted_index(
    table: FileStoreTable,
    plan: PlannedSnapshot,
    base_snapshot: Snapshot | None,
    changes: CommitChanges,
) -> tuple[IndexManifestEntry, ...]:
    """Write the index files of a compaction, and return their entries; empty for other commits."""
    is_compact = plan.commit_kind is CommitKind.COMPACT
    return compacted_index(table, base_snapshot, changes.entries) if is_compact else ()


def _checked_changes(
    changes: CommitChanges, check_base: BaseCheck | None, base_snapshot: Snapshot | None
) -> CommitChanges:
    """Return the changes, unless the check of their base forbids the commit."""
    if check_base is not None:
        check_base(base_snapshot)
    return changes


def _lost_race_error(
    table: FileStoreTable, commit_user: str, plan: PlannedSnapshot, races_text: str
) -> CommitError:
    winner = table.snapshots.latest()
    assert winner is not None, "a race has a winner"
    return CommitError(
        f"{plan.commit_kind.value} commit {plan.committable.identifier} of user {commit_user} "
        f"{races_text}, last to snapshot {winner.snapshot_id} of user {winner.commit_user}",
        where=table.location,
        fix="other writers commit without a pause: raise 'commit.max-retries' or "
        "'commit.timeout', or let fewer jobs write this table",
    )


def _publish_if_free(
    table: FileStoreTable, snapshot: Snapshot, read_partition_statistics: PartitionStatisticsReader
) -> bool:
    """Publish a snapshot; False if its number is taken."""
    snapshots = table.snapshots
    try:
        is_ours = table.catalog_environment.publish_snapshot(
            snapshots, snapshot, read_partition_statistics
        )
        return is_ours or is_in_table(snapshots, snapshot)
    except UnsyncedError:
        raise  # a crash could still lose the epoch: do not report it
    except Exception:
        # The snapshot may exist in spite of the error; then its files must stay.
        if not is_in_table(snapshots, snapshot):
            raise
        return True
