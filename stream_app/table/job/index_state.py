"""What a job's driver knows of the index of its table's keys, whatever kind of index that is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stream_app.errors import CommitConflictError
from stream_app.model.bucket_change import BucketChange
from stream_app.model.snapshot import KEY_SHARES_PROPERTY, CommitKind, Snapshot
from stream_app.planning.key_index.index_rule import IndexRule, index_rule
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.hash_index_state import HashIndexState
from stream_app.table.versions.index_manifests import IndexBasis

_MOVES_NOTHING = (CommitKind.COMPACT, CommitKind.ANALYZE)


class IndexState(Protocol):
    """The index of one table, as far as its job knows."""

    @property
    def basis(self) -> IndexBasis:
        """What rows rest on that are routed or written now."""
        ...

    @property
    def is_needed(self) -> bool:
        """Whether the table has an index; else everything fits."""
        ...

    @property
    def properties(self) -> dict[str, str]:
        """What each snapshot of an epoch tells of the index."""
        ...

    def fits(self, basis: IndexBasis) -> bool:
        """Whether routed rows can be written by what is known now."""
        ...

    def stands(
        self, basis: IndexBasis, changes: Iterable[BucketChange], newest: Snapshot | None
    ) -> bool:
        """Whether what was written fits on top of a snapshot."""
        ...

    def check(
        self, basis: IndexBasis, changes: Sequence[BucketChange], latest: Snapshot | None
    ) -> None:
        """Check that changes can be committed on top of a snapshot.

        Raises:
            CommitConflictError: they cannot.
        """
        ...

    def note(self, basis: IndexBasis, changes: Iterable[BucketChange]) -> None:
        """An epoch of this job is committed."""
        ...


def index_state(table: FileStoreTable, history: CommitHistory) -> IndexState:
    """The state for a table."""
    rule = index_rule(table.schema)
    return HashIndexState(table, history) if rule is None else KeyIndexState(table, history, rule)


@dataclass(frozen=True, slots=True)
class KeyIndexState:
    """Of a table whose keys find their rows in any partition.

    Rows are routed by their keys alone. They are placed when they are written, by the snapshot that
    the job knows then. When another writer has committed rows since, a key may be elsewhere.

    Attributes:
        history: the newest snapshot that the job knows.
    """

    table: FileStoreTable
    history: CommitHistory
    rule: IndexRule

    @property
    def basis(self) -> IndexBasis:
        """See `IndexState.basis`."""
        newest = self.history.newest
        return IndexBasis(snapshot_id=0 if newest is None else newest.snapshot_id)

    @property
    def is_needed(self) -> bool:
        """See `IndexState.is_needed`."""
        return True

    @property
    def properties(self) -> dict[str, str]:
        """By how many shares the rows found their buckets."""
        return {KEY_SHARES_PROPERTY: str(self.rule.shares)}

    def fits(self, basis: IndexBasis) -> bool:  # noqa: ARG002
        """See `IndexState.fits`; a share is a function of the key."""
        return True

    def stands(
        self,
        basis: IndexBasis,
        changes: Iterable[BucketChange],  # noqa: ARG002
        newest: Snapshot | None,
    ) -> bool:
        """Whether nobody has committed rows since."""
        return self._mover(basis, newest) is None

    def check(
        self,
        basis: IndexBasis,
        changes: Sequence[BucketChange],  # noqa: ARG002
        latest: Snapshot | None,
    ) -> None:
        """See `IndexState.check`."""
        if (mover := self._mover(basis, latest)) is not None:
            raise CommitConflictError(
                f"{mover} has come while the epoch was written: a key could be in two partitions",
                where=self.table.location,
                fix="start the job again: it writes the epoch's rows anew. Let only one job write "
                "a table whose keys lack partition columns",
            )

    def note(self, basis: IndexBasis, changes: Iterable[BucketChange]) -> None:
        """See `IndexState.note`; the index follows from the table."""

    def _mover(self, basis: IndexBasis, latest: Snapshot | None) -> str | None:
        """What has changed rows above the basis, in words; None: nothing."""
        known = basis.snapshot_id
        if known is None:
            return None
        newest = known if latest is None else latest.snapshot_id
        seen = newest + 1
        for snapshot in self.table.snapshots.backwards(begin=newest, down_to=known + 1):
            if snapshot.commit_kind not in _MOVES_NOTHING:
                return f"snapshot {snapshot.snapshot_id} of user {snapshot.commit_user}"
            seen = snapshot.snapshot_id
        return None if seen == known + 1 else f"a snapshot before {seen}, which has expired,"
