"""What a job's driver knows of the index of its table's keys (``bucket = -1``).

An epoch is routed by an index that the epoch before may still add to. So the driver checks twice:
before the rows are written, that they have the buckets that the newest index gives them; and with
the commit, that nobody has changed the index since. Rows that fail are routed again.

Source: none. In Paimon one assigner sees all rows of a key, and no other job may write.
"""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stream_app.errors import CommitConflictError, CorruptFileError
from stream_app.model.bucket_change import BucketChange
from stream_app.model.manifest_entry import FileKind
from stream_app.model.snapshot import Snapshot
from stream_app.planning.buckets.open_buckets import DynamicBucketRules, open_buckets
from stream_app.planning.buckets.routed_alike import IndexStep, is_routed_alike
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.index_manifests import (
    NO_INDEX,
    IndexBasis,
    IndexManifest,
    index_manifest,
)

_EPOCHS_KEPT = 4
"""An epoch is routed while the one before is written; that one may need further rounds."""


@dataclass(slots=True)
class HashIndexState:
    """The index of one table. Tables of other kinds have none, and everything fits.

    Attributes:
        history: the newest snapshot that the job knows.
    """

    table: FileStoreTable
    history: CommitHistory
    _epochs: deque[dict[str, IndexStep]] = field(default_factory=lambda: deque(maxlen=_EPOCHS_KEPT))

    @property
    def basis(self) -> IndexBasis:
        """What rows rest on that are routed now, as far as this process knows."""
        return self._basis(self.history.newest)

    @property
    def is_needed(self) -> bool:
        """Whether the table is of the kind."""
        return self.table.kind.indexes_hashes

    @property
    def properties(self) -> dict[str, str]:
        """Nothing: the index manifest tells all."""
        return {}

    def fits(self, basis: IndexBasis) -> bool:
        """Whether routed rows have the buckets that the newest index gives them."""
        now = self.basis.routed_on
        if not self.table.kind.indexes_hashes or now == basis.routed_on:
            return True
        try:
            before = index_manifest(self.table, basis.routed_on)
            after = index_manifest(self.table, now)
        except CorruptFileError:
            return False  # the older one may have expired
        return is_routed_alike(
            before.hash_files,
            after.hash_files,
            lambda partition: self._open(before, partition),
            ChainMap(*self._epochs),
        )

    def stands(
        self, basis: IndexBasis, changes: Iterable[BucketChange], newest: Snapshot | None
    ) -> bool:
        """Whether the index of the changed partitions is the one that the changes add to."""
        now = self._basis(newest).written_on
        if not self.table.kind.indexes_hashes or now == basis.written_on:
            return True
        before = index_manifest(self.table, basis.written_on).hashes
        after = index_manifest(self.table, now).hashes
        partitions = {change.partition for change in changes}
        return all(before.get(partition) == after.get(partition) for partition in partitions)

    def check(
        self, basis: IndexBasis, changes: Sequence[BucketChange], latest: Snapshot | None
    ) -> None:
        """Check that changes can be committed on top of a snapshot.

        Raises:
            CommitConflictError: they cannot.
        """
        if self.stands(basis, changes, latest):
            return
        assert latest is not None, "without a snapshot there is no index"
        raise CommitConflictError(
            "another writer has changed the index of the table's keys while the epoch was "
            f"written, in snapshot {latest.snapshot_id} or before: a key would be in two buckets",
            where=self.table.location,
            fix="start the job again: it gives the epoch's rows their buckets anew. With "
            "bucket = -1 let only one job write a table at a time",
        )

    def note(self, basis: IndexBasis, changes: Iterable[BucketChange]) -> None:
        """An epoch of this job is committed."""
        changed = [change for change in changes if change.index]
        if not changed:
            return
        try:
            before = index_manifest(self.table, basis.routed_on)
        except CorruptFileError:
            return  # then the next epoch is routed again
        self._epochs.append(
            dict(step for change in changed for step in self._steps(before, change))
        )

    def _basis(self, newest: Snapshot | None) -> IndexBasis:
        if not self.table.kind.indexes_hashes or newest is None:
            return NO_INDEX
        return IndexBasis(newest.index_manifest, newest.index_manifest)

    def _steps(
        self, before: IndexManifest, change: BucketChange
    ) -> Iterable[tuple[str, IndexStep]]:
        names = {entry.kind: entry.index_file.file_name for entry in change.index}
        step = IndexStep(names.get(FileKind.DELETE), self._open(before, change.partition))
        yield names[FileKind.ADD], step

    def _open(self, manifest: IndexManifest, partition: bytes) -> tuple[int, ...]:
        rules = DynamicBucketRules.of(self.table.options)
        return open_buckets(manifest.counts(partition), rules)
