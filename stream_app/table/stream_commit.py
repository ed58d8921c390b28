"""What one streaming job does to its table, epoch by epoch, on the driver.

begin_epoch → (tasks write files) → commit_epoch, and commit_idle while nothing comes in. It joins
the committer with the compactions and follows what other writers commit. Nothing here knows Spark;
compactions run wherever the `CompactExecutor` runs them.

Source: seed documents 001 §4 and 002, Paimon `table/sink/StreamTableCommit.java`,
`flink/sink/StoreCompactOperator.java`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stream_app.errors import CommitError, CorruptFileError, UnsupportedTableError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.commit_message import CommitMessage, ManifestCommittable
from stream_app.model.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import Snapshot
from stream_app.table.commit_history import CommitHistory
from stream_app.table.compact_coordinator import FinishedCompaction
from stream_app.table.file_store_commit import FileStoreCommit
from stream_app.table.file_store_scan import FileStoreScan
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.stream_compactions import StreamCompactions, stream_compactions

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCommit:
    """What became of an epoch.

    Attributes:
        compactions_begun: compactions that this commit set off.
        compactions_running: that run now.
    """

    snapshots: tuple[Snapshot, ...]
    compactions_begun: int
    compactions_running: int


@dataclass(slots=True)
class StreamTableCommit:
    """Not thread safe: the caller sees to it that epochs and idle commits do not overlap.

    Attributes:
        commit_user: the streaming query's id.
        last_identifier: of this user's newest commit; None when it has not committed yet.
    """

    table: FileStoreTable
    commit_user: str
    executor: CompactExecutor
    last_identifier: int | None = field(init=False)
    _history: CommitHistory = field(init=False)
    _commit: FileStoreCommit = field(init=False)
    _coordinator: StreamCompactions = field(init=False)
    _max_sequence_number: int = field(init=False)
    _bucket_counts: dict[bytes, int] = field(default_factory=dict)
    _same_columns: set[int] = field(default_factory=set)
    _while_waiting: list[Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        latest = self.table.snapshots.latest()
        self._history = CommitHistory(self.table, self.commit_user, latest)
        self._commit = FileStoreCommit(self.table, self._history)
        self._coordinator = stream_compactions(self.table, self.executor)
        self._max_sequence_number = -1
        self._look_at(self._all_files(latest))
        self.last_identifier = self._history.last_identifier()

    def is_committed(self, epoch: int) -> bool:
        """Whether the epoch is in the table already; then nothing is to be done for it."""
        return self.last_identifier is not None and epoch <= self.last_identifier

    def begin_epoch(self) -> int:
        """Follow other writers and wait for compaction where a bucket has too many runs.

        Returns:
            The first sequence number that the epoch's rows may take in each bucket.

        Raises:
            CheckpointError: the table has gone back to an earlier snapshot.
            CommitConflictError: another process works with the same checkpoint.
            CompactionError: a bucket has too many runs and cannot be compacted.
        """
        self._follow()
        self._back_pressure()
        return self._max_sequence_number + 1

    def commit_epoch(
        self,
        epoch: int,
        messages: Sequence[CommitMessage],
        *,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
    ) -> EpochCommit:
        """Publish the epoch's files and the compactions that have finished meanwhile.

        Raises:
            CommitError: nothing of the epoch is in the table; it may be tried again.
            UnsupportedTableError: a partition has another number of buckets than the table.
        """
        try:
            latest = self._follow()
            touched = {(message.partition, message.bucket) for message in messages}
            self._check_bucket_counts({partition for partition, _ in touched})
            self._coordinator.restore(touched, latest)
        except BaseException:
            self.discard(messages)
            raise
        finished = self._coordinator.finished()
        committable = ManifestCommittable(
            identifier=epoch,
            appends=tuple(messages),
            compactions=tuple(compaction.message for compaction in finished),
            watermark=watermark,
            properties=properties,
        )
        try:
            append = self._commit.commit_appends(committable)
        except CommitError:
            self.discard(messages)
            raise
        # From here on the epoch is in the table, whatever becomes of the compactions.
        self.last_identifier = epoch
        self._coordinator.add_new_files(messages)
        for message in messages:
            for file in message.new_files:
                self._max_sequence_number = max(self._max_sequence_number, file.max_sequence_number)
        compact = self._publish_compactions(committable, finished)
        begun = self._coordinator.trigger()
        snapshots = [*self._while_waiting, *(each for each in (append, compact) if each)]
        self._while_waiting.clear()
        if self.table.options.boolean("prepare-commit.wait-compaction"):
            snapshots += self.drain()
        return EpochCommit(
            snapshots=tuple(snapshots),
            compactions_begun=begun,
            compactions_running=self._coordinator.running(),
        )

    def discard(self, messages: Iterable[CommitMessage]) -> None:
        """Delete files of an epoch that no snapshot names, nor will."""
        for message in messages:
            for file in (*message.new_files, *message.changelog_files):
                path = self.table.paths.data_file(message.partition, message.bucket, file)
                self.table.file_io.delete(path)

    def commit_idle(self) -> Snapshot | None:
        """Publish finished compactions without an epoch, under the last one's identifier."""
        if self.last_identifier is None:
            return None
        if not self._coordinator.finished():
            return None
        # Only now it shows whether others have overtaken them.
        self._follow()
        finished = self._coordinator.finished()
        committable = ManifestCommittable(
            identifier=self.last_identifier,
            appends=None,
            compactions=tuple(compaction.message for compaction in finished),
        )
        snapshot = self._publish_compactions(committable, finished)
        self._coordinator.trigger()
        return snapshot

    def drain(self) -> list[Snapshot]:
        """Wait for all compactions that are due and publish them; the snapshots."""
        snapshots = []
        self._coordinator.trigger()
        while not self._coordinator.is_idle():
            self._coordinator.wait_for_any()
            snapshot = self.commit_idle()
            if snapshot is not None:
                snapshots.append(snapshot)
            if self.last_identifier is None:
                break
        return snapshots

    def sorted_runs(self) -> dict[tuple[bytes, int], int]:
        """Sorted runs of each bucket that was touched."""
        return self._coordinator.sorted_runs()

    def compactions_running(self) -> int:
        """Compactions that run now."""
        return self._coordinator.running()

    def _back_pressure(self) -> None:
        """Wait while a bucket has more sorted runs than the stop trigger allows."""
        while self.last_identifier is not None and self._coordinator.over_stop_trigger():
            self._coordinator.trigger()
            if self._coordinator.is_idle():
                return  # nothing can be picked, waiting would not help
            _LOG.info(
                "waiting for compaction: %d buckets are over the stop trigger",
                len(self._coordinator.over_stop_trigger()),
            )
            self._coordinator.wait_for_any()
            if snapshot := self.commit_idle():
                self._while_waiting.append(snapshot)

    def _publish_compactions(
        self, committable: ManifestCommittable, finished: Sequence[FinishedCompaction]
    ) -> Snapshot | None:
        try:
            outcome = self._commit.commit_compactions(
                committable,
                are_overtaken=any(compaction.is_overtaken for compaction in finished),
            )
        except BaseException:
            # They may be in the table all the same; the next commit finds out.
            self._coordinator.doubt(finished)
            raise
        if outcome.conflict is None:
            self._coordinator.apply(finished)
        else:
            latest = self.table.snapshots.latest()
            at_fault = [compaction for compaction in finished if compaction.is_overtaken]
            self._coordinator.discard(at_fault or finished, latest, outcome.conflict)
            others = [compaction for compaction in finished if not compaction.is_overtaken]
            if at_fault and others:
                messages = tuple(compaction.message for compaction in others)
                return self._publish_compactions(replace(committable, compactions=messages), others)
        return outcome.snapshot

    def _all_files(self, snapshot: Snapshot | None) -> list[ManifestEntry]:
        """All live files; none where new rows need not know of them, since there may be many."""
        if self.table.schema.is_bucket_unaware:
            return []
        return FileStoreScan(self.table).live(snapshot)

    def _look_at(self, entries: Iterable[ManifestEntry]) -> None:
        """Note what new rows must respect: sequence numbers, and numbers of buckets."""
        ours = self.table.options.bucket
        for entry in entries:
            if entry.kind is FileKind.ADD:
                self._check_schema(entry.file.schema_id)
            self._max_sequence_number = max(
                self._max_sequence_number, entry.file.max_sequence_number
            )
            if entry.kind is FileKind.ADD and entry.total_buckets not in (0, -1, ours):
                self._bucket_counts[entry.partition] = entry.total_buckets

    def _check_schema(self, schema_id: int) -> None:
        """Compacting files of a newer schema by ours would drop what only theirs knows."""
        ours = self.table.schema
        if schema_id <= ours.schema_id or schema_id in self._same_columns:
            return
        if self.table.schemas.schema(schema_id).fields != ours.fields:
            raise UnsupportedTableError(
                f"another writer has changed the columns: its files have schema {schema_id}, this "
                f"job began with schema {ours.schema_id}",
                where=self.table.location,
                fix="start the job again, with the table's new columns in table.columns",
            )
        self._same_columns.add(schema_id)

    def _check_bucket_counts(self, partitions: set[bytes]) -> None:
        for partition in partitions & self._bucket_counts.keys():
            raise UnsupportedTableError(
                f"the partition has {self._bucket_counts[partition]} buckets, the table's option "
                f"'bucket' says {self.table.options.bucket}: a key would be in two of them",
                where=f"{self.table.location}/{self.table.paths.partition(partition)}",
                fix="let Paimon rescale the partition (INSERT OVERWRITE), then restart the job",
            )

    def _follow(self) -> Snapshot | None:
        """Take in what others have committed since; the newest snapshot."""
        snapshots = self.table.snapshots
        latest = snapshots.latest()
        self._history.check(latest)
        known, latest_id = self._history.known_id, 0 if latest is None else latest.snapshot_id
        if latest_id == known:
            return latest
        newest_of_ours = -1 if self.last_identifier is None else self.last_identifier
        self._history.check_not_committed(newest_of_ours + 1)
        scan = FileStoreScan(self.table)
        try:
            news = [snapshots.snapshot(number) for number in range(known + 1, latest_id + 1)]
            entries = [entry for snapshot in news for entry in scan.delta(snapshot)]
            touched = {(entry.partition, entry.bucket) for entry in entries}
        except (FileNotFoundError, CorruptFileError):
            # Some are expired already, or their manifests: nothing that we know is sure.
            entries = self._all_files(latest)
            touched = self._coordinator.known_buckets()
        self._look_at(entries)
        self._coordinator.forget(touched, latest)
        self._history.known = latest
        return latest
