"""The progress of a named follower of a table.

Source: Paimon `consumer/Consumer.java`. Bytes on disk: `filestore.versions.consumer_manager`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A consumer's file.

    Attributes:
        consumer_id: the consumer's name, which ends the file's name.
        next_snapshot_id: the first snapshot that the consumer has not read yet, and that expiry
            must keep.
        modification_time_ms: the time of its last progress, in ms since 1970 in UTC.
    """

    consumer_id: str
    next_snapshot_id: int
    modification_time_ms: int

    def has_expired(self, now_ms: int, expiration_ms: int | None) -> bool:
        """Return whether the last progress is older than ``consumer.expiration-time``."""
        return expiration_ms is not None and self.modification_time_ms < now_ms - expiration_ms
