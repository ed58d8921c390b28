"""The progress of a named follower of a table.

Source: Paimon `consumer/Consumer.java`. Bytes on disk: `filestore.versions.consumer_manager`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A consumer as its file says.

    Attributes:
        consumer_id: its name, the end of the file's name.
        next_snapshot: the first snapshot that it has not read yet; expiry must keep it.
            modified_millis: when it wrote that, since 1970 in UTC.
    """

    consumer_id: str
    next_snapshot: int
    modified_millis: int

    def has_expired(self, now_millis: int, expiration_millis: int | None) -> bool:
        """Whether its last progress is older than ``consumer.expiration-time``."""
        return (
            expiration_millis is not None and self.modified_millis < now_millis - expiration_millis
        )
