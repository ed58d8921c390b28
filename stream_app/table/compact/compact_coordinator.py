"""The port of a table's compactions, which each kind of table implements.

Callers consult `FailedCompactions` before they wait for retries, and `BackPressure` before writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.auto_policy import PolicyBounds
from stream_app.table.compact.back_pressure import BackPressure
from stream_app.table.compact.compaction_metrics import CompactionMetrics, UnfinishedCompaction
from stream_app.table.compact.compaction_report import FinishedCompaction
from stream_app.table.compact.dropped_compaction_counter import DroppedCompactionCounter


class FailedCompactions(Protocol):
    """The failed compactions of a table."""

    def to_be_retried(self) -> set[BucketId]:
        """Return the buckets whose last compaction failed and has attempts left."""
        ...

    def seconds_until_retry(self) -> float | None:
        """Return the seconds until the next retry; None if no retry is worth waiting for."""
        ...

    def stuck_errors(self) -> Mapping[BucketId, BaseException | None]:
        """Return the buckets whose compaction keeps failing, with the last error."""
        ...


@dataclass(frozen=True, slots=True)
class FullBounds:
    """The bounds of full compactions, which would never end while other writers add files.

    Attributes:
        buckets: in tables with levels, the buckets that still need a compaction.
        last_snapshot_id: in tables without levels, the last snapshot whose files are compacted.
    """

    buckets: set[BucketId]
    last_snapshot_id: int


class CompactCoordinator(Protocol):
    """The compactions of one table in a job. Not thread safe; an executor runs the compactions."""

    @property
    def failures(self) -> FailedCompactions:
        """The failed compactions."""
        ...

    @property
    def dropped_compactions(self) -> DroppedCompactionCounter:
        """The compactions that were dropped because another writer committed first."""
        ...

    @property
    def back_pressure(self) -> BackPressure:
        """The part that decides whether writes wait for compactions."""
        ...

    def load(self, buckets: Collection[BucketId], snapshot: Snapshot | None) -> None:
        """Read the state of buckets that are about to get new files."""
        ...

    def reload(self, buckets: Iterable[BucketId], snapshot: Snapshot | None) -> None:
        """Read buckets again that another writer changed. Begun compactions continue."""
        ...

    def known_buckets(self) -> set[BucketId]:
        """Return the buckets whose state is in memory, which another writer can make stale."""
        ...

    def add_new_files(self, changes: Iterable[BucketChange]) -> None:
        """Register committed files."""
        ...

    def apply(self, compactions: Iterable[FinishedCompaction]) -> None:
        """Apply committed results."""
        ...

    def note_doubt(self, compactions: Iterable[FinishedCompaction]) -> None:
        """Keep the files of these results, because they may or may not have been committed."""
        ...

    def discard(
        self, compactions: Iterable[FinishedCompaction], snapshot: Snapshot | None, reason: str
    ) -> None:
        """Delete the files of results that cannot be committed, and reload their buckets.

        Files of a result in doubt stay, because a snapshot may name them.
        """
        ...

    def restrict(self, partitions: Collection[bytes]) -> None:
        """Compact only these partitions."""
        ...

    def adapt(self, policy_bounds: PolicyBounds) -> None:
        """Choose each bucket's rules by its sizes, where the table's options leave them open."""
        ...

    def policy_of(self, bucket_id: BucketId) -> str | None:
        """Return a bucket's chosen rules and the reason; None if the table's options apply."""
        ...

    def trigger(self, *, expects_no_flush: bool = False) -> int:
        """Begin the compactions that are due, and return their number.

        Args:
            expects_no_flush: whether no epoch is expected, so that rows that wait for a later
                compaction are due too.
        """
        ...

    def trigger_full(self, full_bounds: FullBounds) -> set[BucketId]:
        """Begin full compactions, and return the buckets whose compaction must begin later.

        Raises:
            UsageError: the table is write-only.
        """
        ...

    def is_idle(self) -> bool:
        """Return whether no compaction runs or waits for its commit."""
        ...

    def wait_for_any(self, timeout_s: float | None = None) -> None:
        """Wait until a compaction ends; return at once if none runs."""
        ...

    def collect_finished_compactions(self) -> list[FinishedCompaction]:
        """Return results that wait for their commit. It logs and forgets failed compactions."""
        ...

    def unfinished_compactions(self) -> Sequence[UnfinishedCompaction]:
        """Return compactions that run or wait for a thread. Any thread may call it."""
        ...

    def waiting_row_count(self) -> int:
        """Return the number of rows invisible until a compaction. Any thread may call it."""
        ...

    def metrics(self) -> CompactionMetrics:
        """Return metrics of begun compactions and failed attempts. Any thread may call it."""
        ...
