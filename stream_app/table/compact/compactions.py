"""What a job asks of a table's compactions; each kind of table has its own.

Cut by its users: the state of a table (`FollowsTable`), the publisher of results (`TakesOutcomes`),
waiting for retries (`Failures`) and for sorted runs (`BackPressure`). A job's loop asks all of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from stream_app.model.bucket_change import BucketChange
from stream_app.model.bucket_id import BucketId
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.back_pressure import BackPressure
from stream_app.table.compact.failures import DroppedCompactions
from stream_app.table.compact.metrics import CompactionLoad
from stream_app.table.compact.report import FinishedCompaction


class FollowsTable(Protocol):
    """Believes what the table says."""

    def restore(self, buckets: Collection[BucketId], snapshot: Snapshot | None) -> None:
        """Get to know buckets that are about to have new files."""
        ...

    def forget(self, buckets: Iterable[BucketId], snapshot: Snapshot | None) -> None:
        """Another writer changed buckets: believe the table again. What runs goes on."""
        ...

    def known_buckets(self) -> set[BucketId]:
        """Buckets of which something is remembered that another writer could change."""
        ...

    def add_new_files(self, changes: Iterable[BucketChange]) -> None:
        """Take in committed files."""
        ...


class TakesOutcomes(Protocol):
    """Learns what became of its results."""

    def apply(self, finished: Iterable[FinishedCompaction]) -> None:
        """The results are committed."""
        ...

    def doubt(self, finished: Iterable[FinishedCompaction]) -> None:
        """The results may or may not be committed: their files must stay."""
        ...

    def discard(
        self, finished: Iterable[FinishedCompaction], snapshot: Snapshot | None, why: str
    ) -> None:
        """The results cannot be committed: delete their files, believe the table again.

        Files of a result that was in doubt stay: a snapshot may name them.
        """
        ...


class Failures(Protocol):
    """Compactions that have failed."""

    def to_be_retried(self) -> set[BucketId]:
        """Buckets whose last compaction has failed, and not yet too often."""
        ...

    def seconds_until_retry(self) -> float | None:
        """How long until what failed is tried again; None when nobody waits for it."""
        ...

    def stuck(self) -> Mapping[BucketId, BaseException | None]:
        """Buckets whose compaction fails again and again, with what it last failed with."""
        ...


class Compactions(FollowsTable, TakesOutcomes, Protocol):
    """The compactions of one job. Not thread safe; what it begins runs in the executor."""

    @property
    def failures(self) -> Failures:
        """Those that have failed."""
        ...

    @property
    def dropped(self) -> DroppedCompactions:
        """Those that came to nothing because another writer was first."""
        ...

    @property
    def back_pressure(self) -> BackPressure:
        """Where writes must wait."""
        ...

    def restrict(self, partitions: Collection[bytes]) -> None:
        """Compact in no other partitions than these."""
        ...

    def trigger(self) -> int:
        """Begin compactions where they are due; how many were begun."""
        ...

    def trigger_full(self, buckets: set[BucketId]) -> set[BucketId]:
        """Begin full compactions; the buckets for which it is too early.

        Raises:
            UsageError: the table is write-only.
        """
        ...

    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits to be committed."""
        ...

    def wait_for_any(self, timeout_s: float | None = None) -> None:
        """Return when something has finished, at once when nothing runs."""
        ...

    def finished(self) -> list[FinishedCompaction]:
        """Results that wait to be committed. Failed compactions are logged and forgotten."""
        ...

    def load(self) -> CompactionLoad:
        """What there is to do, and what came to nothing. Any thread may ask."""
        ...
