"""What decoding tasks count, on its way to the driver.

Counts travel as blocks beside the changes: a task that is done again is counted once, which
Spark's accumulators do not promise.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field

Where = tuple[str, int]
"""Topic and Kafka partition."""


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """The newest record of a Kafka partition in an epoch; the time is the record's, in ms UTC."""

    offset: int
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCounts:
    """What was read: `skipped` messages mean no row, `bad` ones could not be decoded.

    `decoder_errors` are those of the bad ones at which the decoder failed.
    """

    messages: int = 0
    changes: int = 0
    skipped: int = 0
    bad: int = 0
    decoder_errors: int = 0
    ends: Mapping[Where, PartitionEnd] = field(default_factory=dict)

    def plus(self, other: DecodeCounts) -> DecodeCounts:
        """Both together."""
        ends = dict(self.ends)
        for where, end in other.ends.items():
            if where not in ends or end.offset > ends[where].offset:
                ends[where] = end
        return DecodeCounts(
            messages=self.messages + other.messages,
            changes=self.changes + other.changes,
            skipped=self.skipped + other.skipped,
            bad=self.bad + other.bad,
            decoder_errors=self.decoder_errors + other.decoder_errors,
            ends=ends,
        )

    def last_offsets(self) -> dict[str, dict[str, int]]:
        """Topic → partition → last offset that was read."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), end in self.ends.items():
            offsets.setdefault(topic, {})[str(partition)] = end.offset
        return offsets

    def to_bytes(self) -> bytes:
        """What `counts_of` reads."""
        return pickle.dumps(self)


def counts_of(block: bytes) -> DecodeCounts:
    """The counts in a block of kind ``COUNTS``; only this job's own tasks make such blocks."""
    counts = pickle.loads(block)
    assert isinstance(counts, DecodeCounts)
    return counts
