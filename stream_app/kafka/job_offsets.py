"""A job's progress in its topics: pure."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.kafka.offset_ranges import Offsets, behind


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOffsets:
    """Offsets up to which a job's epochs are begun, and up to which the tables have them."""

    begun: Offsets
    committed: Offsets

    def behind(self, newest: Offsets) -> dict[tuple[str, str], int]:
        """Messages of each partition that the tables do not have yet.

        Args:
            newest: the offsets behind the newest messages, as far as they are known. Epochs may
                have begun since.
        """
        return {**behind(self.committed, self.begun), **behind(self.committed, self._later(newest))}

    def _later(self, newest: Offsets) -> Offsets:
        return {
            topic: {
                partition: max(end, self.begun.get(topic, {}).get(partition, end))
                for partition, end in partitions.items()
            }
            for topic, partitions in newest.items()
        }
