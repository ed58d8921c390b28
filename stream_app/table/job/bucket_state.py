"""Records on the driver how a table's rows get their buckets, for every kind of table.

A table with a fixed number of buckets has a number for each partition, and no index. With ``bucket
= -1`` an index of hashes routes an epoch's rows, while the previous epoch may still add to the
index (docs/adr/0021-epochs-overlap.md). So the driver checks twice. Before rows are written, it
checks that the newest index gives them the same buckets. At the commit it checks that no other
writer has changed the index. Rows that fail a check are routed again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stream_app.errors import CommitConflictError, CorruptFileError, OutdatedRowsError
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.manifest_entry import FileKind
from stream_app.model.snapshot import KEY_SHARES_PROPERTY, CommitKind, Snapshot
from stream_app.planning.buckets.open_buckets import DynamicBucketRules, open_buckets
from stream_app.planning.buckets.stale_routing import IndexReplacement, is_routed_alike
from stream_app.planning.key_index.index_rule import IndexRule, index_rule
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.bucket_basis import NO_BASIS, BucketBasis
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.index_manifests import IndexManifest, index_manifest
from stream_app.table.write.write_constraints import WriteConstraints

_ROW_PRESERVING_KINDS = (CommitKind.COMPACT, CommitKind.ANALYZE)
_EPOCHS_MAX = 4
"""Epochs whose index changes are kept: the next epoch is routed while the previous one is still
written, perhaps in further rounds."""


class BucketState(ABC):
    """The state from which one table's rows get their buckets.

    By default the table has an index to read, and rows that an older index routed still fit it.
    """

    @property
    @abstractmethod
    def basis(self) -> BucketBasis:
        """The newest index or bucket counts by which an epoch's rows get their buckets."""

    @property
    def has_index_to_read(self) -> bool:
        """Whether the table has an index that must be read."""
        return True

    @property
    def properties(self) -> dict[str, str]:
        """The properties that describe the index in the snapshots of epochs."""
        return {}

    def fits(self, basis: BucketBasis) -> bool:  # noqa: ARG002
        """Return whether rows routed by `basis` can be written with the current index."""
        return True

    @abstractmethod
    def is_current(
        self, basis: BucketBasis, changes: Iterable[BucketChange], latest_snapshot: Snapshot | None
    ) -> bool:
        """Return whether written rows do not conflict with the latest snapshot."""

    @abstractmethod
    def check(
        self, basis: BucketBasis, changes: Sequence[BucketChange], latest_snapshot: Snapshot | None
    ) -> None:
        """Check that changes can be committed on top of a snapshot.

        Raises:
            CommitConflictError: they cannot.
        """

    def note(self, basis: BucketBasis, changes: Iterable[BucketChange]) -> None:  # noqa: B027
        """Note that an epoch of this job is committed; a state without memory does nothing."""


def bucket_state(
    table: FileStoreTable, commit_history: CommitHistory, constraints: WriteConstraints
) -> BucketState:
    """Return the state for a table, by the traits of its kind.

    It is not a part of the kind, because readers know kinds, and states need `table.commit`.
    """
    if (rule := index_rule(table.schema)) is not None:
        return KeyIndexState(table, commit_history, rule)
    if table.kind_traits.has_bucket_number:
        return BucketCountState(table, commit_history, constraints)
    return (
        HashIndexState(table, commit_history)
        if table.kind_traits.indexes_hashes
        else NoIndexState()
    )


@dataclass(frozen=True, slots=True)
class NoIndexState(BucketState):
    """The state of a table whose rows go to any bucket, or get their bucket later."""

    @property
    def basis(self) -> BucketBasis:
        """Always `NO_BASIS`."""
        return NO_BASIS

    @property
    def has_index_to_read(self) -> bool:
        """Always False, because the table has no index."""
        return False

    def is_current(
        self,
        basis: BucketBasis,  # noqa: ARG002
        changes: Iterable[BucketChange],  # noqa: ARG002
        latest_snapshot: Snapshot | None,  # noqa: ARG002
    ) -> bool:
        """Return True, because rows may be in any bucket."""
        return True

    def check(
        self, basis: BucketBasis, changes: Sequence[BucketChange], latest_snapshot: Snapshot | None
    ) -> None:
        """Do nothing, because any changes can be committed."""


@dataclass(frozen=True, slots=True)
class BucketCountState(BucketState):
    """The numbers of buckets of a table's partitions, which replace an index.

    When another program rescales a partition, rows that were already routed are routed again.

    Attributes:
        commit_history: the latest snapshot that the job knows.
        constraints: holds the numbers of buckets in that snapshot.
    """

    table: FileStoreTable
    commit_history: CommitHistory
    constraints: WriteConstraints

    @property
    def basis(self) -> BucketBasis:
        """The known numbers of buckets by partition; `NO_BASIS` without any."""
        bucket_counts = self.constraints.bucket_counts
        return BucketBasis(bucket_counts=bucket_counts) if bucket_counts else NO_BASIS

    @property
    def has_index_to_read(self) -> bool:
        """Always False: `constraints` has the numbers, so no manifest must be read."""
        return False

    def fits(self, basis: BucketBasis) -> bool:
        """Return whether the known numbers of buckets are those of `basis`."""
        return basis.bucket_counts == self.constraints.bucket_counts

    def is_current(
        self, basis: BucketBasis, changes: Iterable[BucketChange], latest_snapshot: Snapshot | None
    ) -> bool:
        """Return whether each changed partition has its number of buckets, or no files."""
        return self._rescaled_partition(basis, changes, latest_snapshot) is None

    def check(
        self, basis: BucketBasis, changes: Sequence[BucketChange], latest_snapshot: Snapshot | None
    ) -> None:
        """See `BucketState.check`.

        Raises:
            OutdatedRowsError: a changed partition was rescaled.
        """
        if (
            rescaled_partition := self._rescaled_partition(basis, changes, latest_snapshot)
        ) is not None:
            partition, count = rescaled_partition
            raise OutdatedRowsError(
                f"another writer changed the partition to {count} buckets while its "
                "rows were written",
                where=self.table.paths.partition_folder(partition),
                fix="write the rows again: a running job does so by itself",
            )

    def _rescaled_partition(
        self, basis: BucketBasis, changes: Iterable[BucketChange], latest_snapshot: Snapshot | None
    ) -> tuple[bytes, int] | None:
        """Return a changed partition that was rescaled, and its number of buckets; else None."""
        partitions = {change.partition for change in changes}
        default_count = self.table.options.bucket
        if latest_snapshot is None or latest_snapshot.snapshot_id == self.commit_history.known_id:
            known_counts = self.constraints.bucket_counts
            counts = {
                partition: known_counts.get(partition, default_count) for partition in partitions
            }
        else:
            live_entries = FileStoreScan(self.table).live_in(latest_snapshot, partitions)
            counts = {entry.partition: entry.total_buckets for entry in live_entries}
        for partition, count in counts.items():
            if count != basis.bucket_counts.get(partition, default_count):
                return partition, count
        return None


@dataclass(frozen=True, slots=True)
class KeyIndexState(BucketState):
    """The index state of a table with cross-partition upsert.

    Rows are routed by key share, a function of the key. A writing task places them, by the snapshot
    that the job then knows. If another writer has committed rows since, a key's row may be in
    another place.

    Attributes:
        commit_history: the latest snapshot that the job knows.
    """

    table: FileStoreTable
    commit_history: CommitHistory
    rule: IndexRule

    @property
    def basis(self) -> BucketBasis:
        """The latest snapshot that the job knows, as of which a task finds older rows."""
        latest_snapshot = self.commit_history.latest_snapshot
        return BucketBasis(
            snapshot_id=0 if latest_snapshot is None else latest_snapshot.snapshot_id
        )

    @property
    def properties(self) -> dict[str, str]:
        """The snapshot property with the number of key shares."""
        return {KEY_SHARES_PROPERTY: str(self.rule.share_count)}

    def is_current(
        self,
        basis: BucketBasis,
        changes: Iterable[BucketChange],  # noqa: ARG002
        latest_snapshot: Snapshot | None,
    ) -> bool:
        """Return whether no other writer has committed rows since the basis."""
        return self._row_changing_commit(basis, latest_snapshot) is None

    def check(
        self,
        basis: BucketBasis,
        changes: Sequence[BucketChange],  # noqa: ARG002
        latest_snapshot: Snapshot | None,
    ) -> None:
        """See `BucketState.check`."""
        if (commit := self._row_changing_commit(basis, latest_snapshot)) is not None:
            raise CommitConflictError(
                f"{commit} was committed while the job wrote the epoch: a key could "
                "be in two partitions",
                where=self.table.location,
                fix="start the job again: it writes the epoch's rows again. Let only one job write "
                "a table whose keys lack partition columns",
            )

    def _row_changing_commit(
        self, basis: BucketBasis, latest_snapshot: Snapshot | None
    ) -> str | None:
        """Describe the commit that has changed rows since `basis`; None if no commit did."""
        known_id = basis.snapshot_id
        if known_id is None:
            return None
        latest_id = known_id if latest_snapshot is None else latest_snapshot.snapshot_id
        earliest_read_id = latest_id + 1
        for snapshot in self.table.snapshots.backwards(start=latest_id, down_to=known_id + 1):
            if snapshot.commit_kind not in _ROW_PRESERVING_KINDS:
                return f"snapshot {snapshot.snapshot_id} of user {snapshot.commit_user}"
            earliest_read_id = snapshot.snapshot_id
        if earliest_read_id == known_id + 1:
            return None
        return f"a snapshot before {earliest_read_id}, which has expired,"


@dataclass(slots=True)
class HashIndexState(BucketState):
    """The hash index of one table.

    Attributes:
        commit_history: the latest snapshot that the job knows.
    """

    table: FileStoreTable
    commit_history: CommitHistory
    _epoch_replacements: deque[dict[str, IndexReplacement]] = field(
        init=False, default_factory=lambda: deque(maxlen=_EPOCHS_MAX)
    )
    """For each of the newest epochs: the name of an added index file → what it replaces."""

    @property
    def basis(self) -> BucketBasis:
        """The newest index that this process knows, by which rows are routed."""
        return self._basis_of(self.commit_history.latest_snapshot)

    def fits(self, basis: BucketBasis) -> bool:
        """Return whether the newest index gives rows the same buckets as `basis`."""
        routed_on = self.basis.routed_on
        if routed_on == basis.routed_on:
            return True
        try:
            routed_manifest = index_manifest(self.table, basis.routed_on)
            latest_manifest = index_manifest(self.table, routed_on)
        except CorruptFileError:
            return False  # the older index manifest may have expired
        return is_routed_alike(
            routed_manifest.hash_file_names,
            latest_manifest.hash_file_names,
            lambda partition: self._open_buckets(routed_manifest, partition),
            ChainMap(*self._epoch_replacements),
        )

    def is_current(
        self, basis: BucketBasis, changes: Iterable[BucketChange], latest_snapshot: Snapshot | None
    ) -> bool:
        """Return whether the changes extend the current index of the changed partitions."""
        written_on = self._basis_of(latest_snapshot).written_on
        if written_on == basis.written_on:
            return True
        written_entries = index_manifest(self.table, basis.written_on).hash_entries
        latest_entries = index_manifest(self.table, written_on).hash_entries
        partitions = {change.partition for change in changes}
        return all(
            written_entries.get(partition) == latest_entries.get(partition)
            for partition in partitions
        )

    def check(
        self, basis: BucketBasis, changes: Sequence[BucketChange], latest_snapshot: Snapshot | None
    ) -> None:
        """Check that changes can be committed on top of a snapshot.

        Raises:
            CommitConflictError: they cannot.
        """
        if self.is_current(basis, changes, latest_snapshot):
            return
        assert latest_snapshot is not None, "without a snapshot there is no index"
        raise CommitConflictError(
            "another writer has changed the index of the table's keys while the epoch was "
            f"written, in snapshot {latest_snapshot.snapshot_id} or before: a key would be in "
            "two buckets",
            where=self.table.location,
            fix="start the job again: it assigns the epoch's rows to buckets again. With "
            "bucket = -1 let only one job write a table at a time",
        )

    def note(self, basis: BucketBasis, changes: Iterable[BucketChange]) -> None:
        """Note that an epoch of this job is committed."""
        index_changes = [change for change in changes if change.index_entries]
        if not index_changes:
            return
        try:
            routed_manifest = index_manifest(self.table, basis.routed_on)
        except CorruptFileError:
            return  # the next epoch is then routed again
        self._epoch_replacements.append(
            dict(
                replacement
                for change in index_changes
                for replacement in self._index_replacements(routed_manifest, change)
            )
        )

    def _basis_of(self, latest_snapshot: Snapshot | None) -> BucketBasis:
        if latest_snapshot is None:
            return NO_BASIS
        return BucketBasis(latest_snapshot.index_manifest, latest_snapshot.index_manifest)

    def _index_replacements(
        self, routed_manifest: IndexManifest, change: BucketChange
    ) -> Iterable[tuple[str, IndexReplacement]]:
        names = {entry.kind: entry.index_file.file_name for entry in change.index_entries}
        replacement = IndexReplacement(
            names.get(FileKind.DELETE), self._open_buckets(routed_manifest, change.partition)
        )
        yield names[FileKind.ADD], replacement

    def _open_buckets(self, manifest: IndexManifest, partition: bytes) -> tuple[int, ...]:
        rules = DynamicBucketRules.of_options(self.table.options)
        return open_buckets(manifest.hash_counts(partition), rules)
