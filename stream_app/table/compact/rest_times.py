"""Keeps the time at which each bucket last got files, in tables whose rows wait for compactions.

`bucket_coordinator` asks it whether a bucket rests, so that its waiting rows become due, and which
waiting rows metrics show. It knows no files and no levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from stream_app.clock import Clock
from stream_app.model.bucket_id import BucketId
from stream_app.planning.compact.waiting_rows import Visibility, rows_to_report

REST_S = 600.0
"""Seconds without new files after which a bucket rests: its rows wait for no further flush."""


@dataclass(slots=True)
class RestTimes:
    """The resting times of a table's buckets; where readers see each row at once, none rests."""

    clock: Clock
    visibility: Visibility
    _filled_at: dict[BucketId, float] = field(init=False, default_factory=dict)
    _newest: tuple[float, int] = field(init=False, default=(-math.inf, 0))

    def note_filled(self, buckets: Iterable[BucketId], *, rows: int) -> None:
        """Note that buckets got files from an epoch with this many rows, or from another writer."""
        if self.visibility is not Visibility.ANY_LEVEL:
            now = self.clock.steady_seconds()
            self._filled_at.update(dict.fromkeys(buckets, now))
            self._newest = (now, rows) if rows else self._newest

    def is_resting(self, bucket: BucketId) -> bool:
        """Return whether the bucket rests."""
        if self.visibility is Visibility.ANY_LEVEL:
            return False
        filled_at = self._filled_at.get(bucket, -math.inf)
        return self.clock.steady_seconds() - filled_at >= REST_S

    def rows_to_report(self, waiting: int) -> int:
        """Return the waiting rows without the newest epoch's, whose compaction has just begun."""
        filled_at, newest = self._newest
        age_s = self.clock.steady_seconds() - filled_at
        return rows_to_report(waiting, newest_count=newest, age_s=age_s)
