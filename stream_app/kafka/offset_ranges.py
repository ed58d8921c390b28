"""Defines ranges of offsets, which tasks read, and a job's progress in its topics.

`next_offsets` decides where an epoch ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stream_app.model.job_epoch import Offsets

KafkaPartition = tuple[str, int]
"""A topic and a Kafka partition."""
PartitionOffsets = Mapping[KafkaPartition, int]
"""An offset of each partition."""


PIECE_MIN = 256
"""The least offsets of a piece."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets of one partition, from `start` up to but excluding `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        assert 0 <= self.start <= self.end, f"no range of offsets: {self.start} to {self.end}"

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offsets {self.start} to {self.end}"

    @property
    def kafka_partition(self) -> KafkaPartition:
        """The topic and the partition."""
        return self.topic, self.partition

    @property
    def size(self) -> int:
        """Number of offsets; there may be fewer messages."""
        return self.end - self.start


def join_ranges(ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
    """Merge neighbouring ranges of one partition that touch."""
    joined_ranges: list[OffsetRange] = []
    for part in ranges:
        last_range = joined_ranges[-1] if joined_ranges else None
        if last_range and (last_range.topic, last_range.partition, last_range.end) == (
            part.topic,
            part.partition,
            part.start,
        ):
            joined_ranges[-1] = replace(last_range, end=part.end)
        elif part.size:
            joined_ranges.append(part)
    return joined_ranges


def ranges_between(start_offsets: Offsets, end_offsets: Offsets) -> list[OffsetRange]:
    """Return the ranges from one position of a job to a later one.

    A partition that `start_offsets` lacks is new, so it is read from offset 0. Spark does the same:
    a new partition that begins later has lost records, whatever ``starting-offsets`` says.
    """
    return [
        OffsetRange(topic, int(partition), start, end)
        for topic, topic_offsets in sorted(end_offsets.items())
        for partition, end in sorted(topic_offsets.items())
        if (start := start_offsets.get(topic, {}).get(partition, 0)) < end
    ]


def starts_for(start_offsets: Offsets, end_offsets: Offsets) -> Offsets:
    """Return the offsets at which `ranges_between` begins in each partition of `end_offsets`."""
    return {
        topic: {
            partition: min(start_offsets.get(topic, {}).get(partition, 0), end)
            for partition, end in topic_offsets.items()
        }
        for topic, topic_offsets in end_offsets.items()
    }


def messages_behind(
    reached_offsets: Offsets, newest_offsets: Offsets
) -> dict[tuple[str, str], int]:
    """Return the number of messages from the reached offsets up to the ends, by partition.

    A partition without a reached offset is new: see `ranges_between`.
    """
    return {
        (topic, partition): max(0, newest_offset - reached_offsets.get(topic, {}).get(partition, 0))
        for topic, topic_offsets in newest_offsets.items()
        for partition, newest_offset in topic_offsets.items()
    }


def cut_ranges(ranges: Sequence[OffsetRange], piece_count: int) -> list[OffsetRange]:
    """Cut ranges into about `piece_count` ranges, so that more tasks than partitions can read.

    A range is cut in proportion to its size. No piece is smaller than `PIECE_MIN`, because a
    further task would cost more than it saves.

    Args:
        piece_count: the number of ranges at least, where they are large enough.
    """
    total_count = sum(offset_range.size for offset_range in ranges)
    if len(ranges) >= piece_count or not total_count:
        return list(ranges)
    pieces: list[OffsetRange] = []
    for offset_range in ranges:
        parts = min(
            round(piece_count * offset_range.size / total_count), offset_range.size // PIECE_MIN
        )
        ends = [
            offset_range.start + offset_range.size * part // max(parts, 1)
            for part in range(max(parts, 1) + 1)
        ]
        pieces += [
            replace(offset_range, start=start, end=end) for start, end in itertools.pairwise(ends)
        ]
    return pieces


def share_out(ranges: Sequence[OffsetRange], task_count: int) -> list[list[OffsetRange]]:
    """Assign ranges to tasks: the longest first, each to the task with the fewest messages.

    Args:
        task_count: the maximum number of tasks; no task gets an empty share.
    """
    shares: list[list[OffsetRange]] = [[] for _ in range(min(task_count, len(ranges)))]
    loads = [0] * len(shares)
    for offset_range in sorted(ranges, key=lambda offset_range: (-offset_range.size, offset_range)):
        task = loads.index(min(loads))
        shares[task].append(offset_range)
        loads[task] += offset_range.size
    return [sorted(share) for share in shares]


def lost_ranges(reached_offsets: Offsets, starts: PartitionOffsets) -> list[OffsetRange]:
    """Return the ranges of offsets that topics dropped before the job read them.

    Args:
        reached_offsets: the offsets up to which the job has read.
        starts: (topic, partition) → the offset of the oldest record.
    """
    return [
        OffsetRange(topic, partition, read_to, start)
        for (topic, partition), start in sorted(starts.items())
        if (read_to := reached_offsets.get(topic, {}).get(str(partition), start)) < start
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOffsets:
    """The end offsets of a job's newest begun epoch and of its committed epochs."""

    begun_offsets: Offsets
    committed_offsets: Offsets

    def lag(self, newest_offsets: Offsets) -> dict[tuple[str, str], int]:
        """Return the number of messages of each partition that the tables do not have yet.

        Args:
            newest_offsets: the topics' known end offsets. Epochs may have begun since.
        """
        return {
            **messages_behind(self.committed_offsets, self.begun_offsets),
            **messages_behind(self.committed_offsets, self._begun_or_later(newest_offsets)),
        }

    def _begun_or_later(self, newest_offsets: Offsets) -> Offsets:
        return {
            topic: {
                partition: max(end, self.begun_offsets.get(topic, {}).get(partition, end))
                for partition, end in topic_offsets.items()
            }
            for topic, topic_offsets in newest_offsets.items()
        }
