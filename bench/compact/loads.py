"""Defines the loads of simulated compactions: the content of each flush of a bucket.

`compaction_simulation` simulates the loads, and tests and pages name them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stream_app.planning.compact.policy_simulation import merged_size

MB = 1 << 20


@dataclass(frozen=True)
class Load:
    """The content of a flush.

    Attributes:
        flush_size: the size of a flush's changes.
        keys_size: the size of the rows of all keys, or None if every row has a new key.
        in_order: whether keys ascend with time, so that flushes do not overlap.
        interval_s: the seconds from one flush to the next.
        compaction_rate: the bytes of input that a compaction reads in a second.
    """

    name: str
    flush_size: int = MB
    keys_size: int | None = None
    in_order: bool = False
    interval_s: float = 5.0
    compaction_rate: float = 60.0 * MB

    def merged_size(self, written: float, share: float = 1.0) -> int:
        """Return the bytes of changes after a merge, which leaves one row for each key.

        Args:
            written: the bytes of the changes, with unordered keys.
            share: the share of all keys that the changes have.
        """
        return merged_size(written, None if self.keys_size is None else self.keys_size * share)

    def with_longer_epochs(self, factor: int) -> Load:
        """Return a load of the same rows in fewer and larger flushes."""
        return replace(
            self, flush_size=factor * self.flush_size, interval_s=factor * self.interval_s
        )


INSERTS = Load("inserts")
UPDATES = Load("updates", keys_size=1000 * MB)
ASCENDING = Load("inserts in key order", in_order=True)
LOADS = {load.name: load for load in (INSERTS, UPDATES, ASCENDING)}
