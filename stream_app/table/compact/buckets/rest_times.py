"""Keeps the time at which each bucket last got files, in tables whose rows wait for compactions.

`bucket_coordinator` asks whether a bucket rests, so that its waiting rows become due, and which
waiting rows the metrics show. It sees no files and no levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from stream_app.clock import Clock
from stream_app.model.bucket_id import BucketId
from stream_app.planning.compact.waiting_rows import Visibility, reported_row_count

REST_S = 600.0
"""Seconds without new files after which a bucket rests: its rows wait for no further flush."""


@dataclass(slots=True)
class RestTimes:
    """The resting times of a table's buckets; where readers see each row at once, none rests."""

    clock: Clock
    visibility: Visibility
    _filled_at_s: dict[BucketId, float] = field(init=False, default_factory=dict)
    _newest_fill: tuple[float, int] = field(init=False, default=(-math.inf, 0))

    def note_filled(self, buckets: Iterable[BucketId], *, row_count: int) -> None:
        """Note that buckets got files from an epoch with this many rows, or from another writer."""
        if self.visibility is not Visibility.ANY_LEVEL:
            now_s = self.clock.steady_seconds()
            self._filled_at_s.update(dict.fromkeys(buckets, now_s))
            self._newest_fill = (now_s, row_count) if row_count else self._newest_fill

    def is_resting(self, bucket_id: BucketId) -> bool:
        """Return whether the bucket rests."""
        if self.visibility is Visibility.ANY_LEVEL:
            return False
        filled_at_s = self._filled_at_s.get(bucket_id, -math.inf)
        return self.clock.steady_seconds() - filled_at_s >= REST_S

    def reported_row_count(self, waiting_row_count: int) -> int:
        """Return the waiting rows without the newest epoch's, whose compaction has just begun."""
        filled_at_s, newest_row_count = self._newest_fill
        age_s = self.clock.steady_seconds() - filled_at_s
        return reported_row_count(waiting_row_count, newest_count=newest_row_count, age_s=age_s)
