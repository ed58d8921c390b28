"""Counts the compactions that were dropped because another writer committed first.

The coordinators of a job use it to request a compaction again, unless it loses too many conflicts.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

from stream_app.model.bucket_id import BucketId

_LOG = logging.getLogger(__name__)
DROPPED_MAX = 5
"""The number of lost conflicts of a bucket in a row after which no full compaction follows."""


@dataclass(slots=True)
class DroppedCompactionCounter:
    """A counter of dropped compactions.

    Attributes:
        dropped_count: the number since the process began.
    """

    dropped_count: int = 0
    _in_a_row: Counter[BucketId] = field(init=False, default_factory=Counter)
    _newly_dropped: set[BucketId] = field(init=False, default_factory=set)

    def note(self, bucket_id: BucketId, where: str, reason: str) -> None:
        """Note that a compaction was dropped."""
        _LOG.warning("a compaction of %s is dropped: %s", where, reason)
        self.dropped_count += 1
        self._in_a_row[bucket_id] += 1
        self._newly_dropped.add(bucket_id)

    def forget(self, bucket_id: BucketId) -> None:
        """Note that a compaction was committed."""
        self._in_a_row.pop(bucket_id, None)

    def take_buckets(self) -> set[BucketId]:
        """Return buckets with a drop since the last call; not those with too many conflicts."""
        buckets, self._newly_dropped = self._newly_dropped, set()
        return {bucket_id for bucket_id in buckets if self._in_a_row[bucket_id] < DROPPED_MAX}
