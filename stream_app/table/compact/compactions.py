"""The port of a job's compactions; each kind of table has its own.

Callers wait for retries by `Failures`, and for fewer sorted runs by `BackPressure`.
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
from stream_app.table.compact.failures import DroppedCompactions
from stream_app.table.compact.metrics import CompactionMetrics, CompactionUnderWay
from stream_app.table.compact.report import FinishedCompaction


class Failures(Protocol):
    """The failed compactions of a job."""

    def to_be_retried(self) -> set[BucketId]:
        """Buckets whose last compaction failed, with attempts left."""
        ...

    def seconds_until_retry(self) -> float | None:
        """Seconds until the next retry; None when no retry is worth waiting for."""
        ...

    def stuck(self) -> Mapping[BucketId, BaseException | None]:
        """Buckets whose compaction keeps failing, with the last error."""
        ...


@dataclass(frozen=True, slots=True)
class FullBounds:
    """The bounds of full compactions; without them these never end beside other writers.

    Attributes:
        buckets: where files have levels, those that still need a compaction.
        last_snapshot: where files have none, the newest snapshot whose files are searched.
    """

    buckets: set[BucketId]
    last_snapshot: int


class Compactions(Protocol):
    """The compactions of one job. Not thread safe; the executor runs what it starts."""

    @property
    def failures(self) -> Failures:
        """The failed compactions."""
        ...

    @property
    def dropped(self) -> DroppedCompactions:
        """Compactions whose result lost to another writer's commit."""
        ...

    @property
    def back_pressure(self) -> BackPressure:
        """Makes writes wait for compactions."""
        ...

    def restore(self, buckets: Collection[BucketId], snapshot: Snapshot | None) -> None:
        """Read the state of buckets that are about to get new files."""
        ...

    def forget(self, buckets: Iterable[BucketId], snapshot: Snapshot | None) -> None:
        """Forget buckets that another writer changed. Running compactions continue."""
        ...

    def known_buckets(self) -> set[BucketId]:
        """Buckets with remembered state, which another writer can make stale."""
        ...

    def add_new_files(self, changes: Iterable[BucketChange]) -> None:
        """Register committed files."""
        ...

    def apply(self, finished: Iterable[FinishedCompaction]) -> None:
        """Apply the results, which are committed."""
        ...

    def doubt(self, finished: Iterable[FinishedCompaction]) -> None:
        """Keep the files of these results, because they may or may not have been committed."""
        ...

    def discard(
        self, finished: Iterable[FinishedCompaction], snapshot: Snapshot | None, why: str
    ) -> None:
        """Delete the files of results that cannot be committed, and forget their buckets' state.

        Files of a result in doubt stay, because a snapshot may name them.
        """
        ...

    def restrict(self, partitions: Collection[bytes]) -> None:
        """Compact in these partitions only."""
        ...

    def adapt(self, bounds: PolicyBounds) -> None:
        """Choose each bucket's rules by its sizes, where the table's options leave them open."""
        ...

    def policy_of(self, bucket: BucketId) -> str | None:
        """The rules chosen for a bucket, with the reason; None if the table's options apply."""
        ...

    def trigger(self, *, rests: bool = False) -> int:
        """Start the compactions that are due; returns how many were started.

        Args:
            rests: no epoch is expected, so rows that wait for a later compaction are due too.
        """
        ...

    def trigger_full(self, bounds: FullBounds) -> set[BucketId]:
        """Start full compactions; returns the buckets for which it is too early.

        Raises:
            UsageError: the table is write-only.
        """
        ...

    def is_idle(self) -> bool:
        """Whether no compaction runs or waits for its commit."""
        ...

    def wait_for_any(self, timeout_s: float | None = None) -> None:
        """Return when a compaction ends; at once when none runs."""
        ...

    def finished(self) -> list[FinishedCompaction]:
        """Results that wait for their commit. Failed compactions are logged and forgotten."""
        ...

    def unfinished(self) -> Sequence[CompactionUnderWay]:
        """The compactions that wait for a thread or run. Any thread may call it."""
        ...

    def waiting_rows(self) -> int:
        """Rows that no reader or follower gets before a compaction. Any thread may call it."""
        ...

    def metrics(self) -> CompactionMetrics:
        """The work that is open, and the attempts that failed. Any thread may call it."""
        ...
