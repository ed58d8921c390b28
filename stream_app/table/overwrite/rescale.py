"""Changes a partition's number of buckets, in one OVERWRITE snapshot that changes no row.

It may run beside the table's jobs:

1. Split the files of the latest snapshot into files of the new buckets.
2. If other writers have changed the partition, split the added files too, and delete what was split
   from removed files. Repeat until nothing has changed.
3. Commit: replace exactly the files that were split, or begin again with step 2.

Rows in ``bucket-postpone`` still wait. A job that has routed rows by the old number routes them
again (`table.job.bucket_state`).

Source: Paimon `flink/action/RescaleAction.java`, whose commit fails when others have committed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from stream_app.errors import (
    CommitConflictError,
    CommitError,
    CorruptFileError,
    UnsupportedTableError,
)
from stream_app.model.bucket_id import POSTPONED
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.files.manifest_entry import FileIdentity, ManifestEntry
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.planning.buckets.rescale_plan import PlannedRescale, split_groups
from stream_app.table.commit.batch_commit import batch_commit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.map_in_threads import map_in_threads, thread_count
from stream_app.table.overwrite.bucket_division import BucketDivision
from stream_app.table.versions.deletion_vectors import deletion_vectors
from stream_app.table.versions.file_store_scan import FileStoreScan

_ATTEMPTS_MAX = 20
_GroupKey = frozenset[tuple[FileIdentity, int]]
"""The files of a group, each with the number of its rows that deletion vectors mark."""


def check_rescalable(table: FileStoreTable) -> None:
    """Check that partitions of the table may have different numbers of buckets.

    Raises:
        UnsupportedTableError: all partitions must have the same number, or have none.
    """
    traits = table.kind_traits
    if (traits.has_bucket_number or traits.postpones) and not traits.looks_up_partition:
        return
    raise UnsupportedTableError(
        "with 'partition-lookup' a key has the same bucket in all partitions"
        if traits.looks_up_partition
        else f"rows of this table find their bucket {traits.bucket_mode}, and not by a fixed "
        "number",
        where=table.location,
        fix="leave the table as it is, or write its rows into a new one",
    )


def rescale_partition(table: FileStoreTable, planned_rescale: PlannedRescale) -> Snapshot | None:
    """Rescale one partition and return the snapshot; None if the partition was dropped.

    A `CommitError` and each error before the commit leave the table unchanged.

    Raises:
        CommitConflictError: other writers change the files faster than they are split.
        CommitError: other writers won every race.
        CorruptFileError: a file cannot be read.
    """
    return _PartitionRescale(
        table, planned_rescale.partition, planned_rescale.new_bucket_count
    ).run()


@dataclass(slots=True)
class _PartitionRescale:
    """The rescale of one partition.

    Attributes:
        bucket_count: the new number of buckets.
        _splits: group of files → the changes that its split has written.
        _split_ids: the files that were split, which are those of the snapshot; None before a split.
    """

    table: FileStoreTable
    partition: bytes
    bucket_count: int
    _splits: dict[_GroupKey, list[BucketChange]] = field(init=False, default_factory=dict)
    _split_ids: set[FileIdentity] | None = field(init=False, default=None)

    def run(self) -> Snapshot | None:
        for _ in range(_ATTEMPTS_MAX):
            snapshot = self._attempt()
            if snapshot is not None or self._split_ids == set():
                return snapshot
        self._discard(self._splits)
        raise CommitConflictError(
            f"other writers have changed the partition {_ATTEMPTS_MAX} times while it was split",
            where=self.table.paths.partition_folder(self.partition),
            fix="stop the job that compacts it, or give it 'write-only' = 'true', and try again",
        )

    def _attempt(self) -> Snapshot | None:
        """Run steps 2 and 3; None if other writers changed the partition again, or dropped it."""
        try:
            commit = batch_commit(self.table)
            if not self._try_split(commit.commit_history.latest_snapshot):
                return None
        except BaseException:
            self._discard(self._splits)
            raise
        changes = tuple(change for group in self._splits.values() for change in group)
        committable = ManifestCommittable(identifier=BATCH_COMMIT_IDENTIFIER, changes=changes)
        try:
            return commit.overwrite(
                committable,
                [self.partition],
                check_files=self._check_files,
                keeps_postponed=True,
            )
        except _OvertakenError:
            return None
        except CommitError:
            # Only this error proves that no snapshot names the files; after any other they stay.
            self._discard(self._splits)
            raise

    def _try_split(self, latest_snapshot: Snapshot | None) -> bool:
        """Run step 2; False if a file expired during the read, or the partition has no files."""
        try:
            self._split_new_files(latest_snapshot)
        except CorruptFileError:
            if self.table.snapshots.latest() == latest_snapshot:
                raise
            return False
        return bool(self._split_ids)

    def _split_new_files(self, latest_snapshot: Snapshot | None) -> None:
        """Split files that a snapshot has gained, and discard the splits of files that it lost."""
        live_entries = [
            entry
            for entry in FileStoreScan(self.table).live_in(latest_snapshot, [self.partition])
            if entry.bucket != POSTPONED
        ]
        if len(bucket_counts := {entry.total_buckets for entry in live_entries}) > 1:
            raise CorruptFileError(
                f"the partition's files have different numbers of buckets: {sorted(bucket_counts)}",
                where=self.table.paths.partition_folder(self.partition),
                fix="roll the table back to a version before that: stream-app check names the "
                "first such version",
            )
        buckets = {entry.bucket_id for entry in live_entries}
        vectors = (
            {}
            if latest_snapshot is None
            else deletion_vectors(self.table, latest_snapshot, buckets)
        )
        split = BucketDivision(self.table, self.partition, self.bucket_count, vectors)

        def key_of(group: Sequence[ManifestEntry]) -> _GroupKey:
            file_vectors = (
                vectors.get(entry.bucket_id, {}).get(entry.file.file_name) for entry in group
            )
            counts = (0 if vector is None else vector.cardinality for vector in file_vectors)
            return frozenset(zip((entry.identity for entry in group), counts, strict=True))

        has_keys = self.table.kind_traits.merges_by_key
        groups = {
            key_of(group): group
            for group in split_groups(live_entries, self.bucket_count, has_keys=has_keys)
        }
        self._discard(self._splits.keys() - groups.keys())
        new_keys = [key for key in groups if key not in self._splits]

        def split_group(key: _GroupKey) -> None:
            self._splits[key] = split.split(groups[key])

        map_in_threads(thread_count(self.table), split_group, new_keys)
        self._split_ids = {entry.identity for entry in live_entries}

    def _check_files(self, deleted_entries: Sequence[ManifestEntry]) -> None:
        if {entry.identity for entry in deleted_entries} != self._split_ids:
            raise _OvertakenError(
                "the partition has other files",
                where=self.table.paths.partition_folder(self.partition),
            )

    def _discard(self, keys: Collection[_GroupKey]) -> None:
        for key in list(keys):
            self.table.discard(self._splits.pop(key))


class _OvertakenError(CommitConflictError):
    """Other writers have changed the partition since its files were split."""
