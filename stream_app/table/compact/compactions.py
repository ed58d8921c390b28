"""What `stream_commit` asks of a table's compactions; each kind of table has its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from stream_app.model.bucket_change import BucketChange
from stream_app.model.bucket_id import BucketId
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.metrics import CompactionLoad
from stream_app.table.compact.report import FinishedCompaction


class StreamCompactions(Protocol):
    """The compactions of one job. Not thread safe; what it begins runs in the executor."""

    def restore(self, buckets: Collection[BucketId], snapshot: Snapshot | None) -> None:
        """Get to know buckets that are about to have new files."""
        ...

    def restrict(self, partitions: Collection[bytes]) -> None:
        """Compact in no other partitions than these."""
        ...

    def forget(self, buckets: Iterable[BucketId], snapshot: Snapshot | None) -> None:
        """Another writer changed buckets: believe the table again."""
        ...

    def known_buckets(self) -> set[BucketId]:
        """Buckets of which something is remembered that another writer could change."""
        ...

    def add_new_files(self, changes: Iterable[BucketChange]) -> None:
        """Take in committed files."""
        ...

    def trigger(self) -> int:
        """Begin compactions where they are due; how many were begun."""
        ...

    def trigger_full(self, buckets: set[BucketId]) -> set[BucketId]:
        """Begin full compactions; the buckets for which it is too early."""
        ...

    def running(self) -> int:
        """Compactions that run now."""
        ...

    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits to be committed."""
        ...

    def sorted_runs(self) -> dict[BucketId, int]:
        """Sorted runs of each known bucket, where there are such."""
        ...

    def most_sorted_runs(self) -> int:
        """Of all buckets that are known."""
        ...

    def over_stop_trigger(self) -> int:
        """Buckets that must be compacted before they take more files."""
        ...

    def check_not_stuck(self, buckets: Iterable[BucketId]) -> None:
        """See that each bucket may take more files.

        Raises:
            CompactionError: one has too many sorted runs, and compacting it fails.
        """
        ...

    def to_be_retried(self) -> set[BucketId]:
        """Buckets whose last compaction has failed, and not yet too often."""
        ...

    def seconds_until_retry(self) -> float | None:
        """How long until what failed is tried again; None when nobody waits for it."""
        ...

    def stuck(self) -> Mapping[BucketId, BaseException | None]:
        """Buckets whose compaction fails again and again, with what it last failed with."""
        ...

    def load(self) -> CompactionLoad:
        """What there is to do, and what came to nothing. Any thread may ask."""
        ...

    def dropped(self) -> int:
        """Compactions that came to nothing because another writer was first."""
        ...

    def take_dropped(self) -> set[BucketId]:
        """Buckets whose compaction was dropped since the last call, unless that happens often."""
        ...

    def wait_for_any(self, timeout_s: float | None = None) -> None:
        """Return when something has finished, at once when nothing runs."""
        ...

    def finished(self) -> list[FinishedCompaction]:
        """Results that wait to be committed."""
        ...

    def apply(self, finished: Iterable[FinishedCompaction]) -> None:
        """The results are committed."""
        ...

    def doubt(self, finished: Iterable[FinishedCompaction]) -> None:
        """It is not known whether the results are committed: their files must stay."""
        ...

    def discard(
        self, finished: Iterable[FinishedCompaction], snapshot: Snapshot | None, why: str
    ) -> None:
        """The results cannot be committed: delete their files, believe the table again."""
        ...
