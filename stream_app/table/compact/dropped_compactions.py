"""Compactions that came to nothing because another writer was first.

Used by the coordinators of a job's compactions.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

from stream_app.model.bucket_id import BucketId

_LOG = logging.getLogger(__name__)
DROPPED_MAX = 5
"""Lost conflicts of one bucket in a row after which a full compaction is not asked for again."""


@dataclass(slots=True)
class DroppedCompactions:
    """Counts them.

    Attributes:
        total: since the process began.
    """

    total: int = 0
    _in_a_row: Counter[BucketId] = field(default_factory=Counter)
    _to_be_asked_again: set[BucketId] = field(default_factory=set)

    def note(self, bucket: BucketId, where: str, why: str) -> None:
        """One was dropped."""
        _LOG.warning("a compaction of %s is dropped: %s", where, why)
        self.total += 1
        self._in_a_row[bucket] += 1
        self._to_be_asked_again.add(bucket)

    def forget(self, bucket: BucketId) -> None:
        """One was committed."""
        self._in_a_row.pop(bucket, None)

    def take(self) -> set[BucketId]:
        """Where one was dropped since the last call, unless that happens again and again."""
        buckets, self._to_be_asked_again = self._to_be_asked_again, set()
        return {bucket for bucket in buckets if self._in_a_row[bucket] < DROPPED_MAX}
