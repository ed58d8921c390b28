"""How far a job is in its topics: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.kafka.offset_ranges import Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPosition:
    """Offsets up to which a job's epochs are begun, and up to which the tables have them."""

    begun: Offsets
    committed: Offsets

    def behind(self, newest: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """Messages of each partition that the tables do not have yet.

        Args:
            newest: topic and partition → the offset behind the newest message, as far as is known.
        """
        ends = dict(newest)
        for topic, offsets in self.begun.items():
            for partition, end in offsets.items():
                ends[topic, partition] = max(end, newest.get((topic, partition), end))
        return {
            (topic, partition): max(0, end - self.committed.get(topic, {}).get(partition, 0))
            for (topic, partition), end in ends.items()
        }
