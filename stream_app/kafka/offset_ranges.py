"""Ranges of offsets: what an epoch reads of each partition, and how tasks share it out.

Pure functions for the driver. An epoch begins where the one before ended; Spark's source has chosen
both ends and keeps them in the checkpoint.

Source: Spark `KafkaOffsetReaderAdmin.getOffsetRangesFromResolvedOffsets`,
`KafkaOffsetRangeCalculator`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

Offsets = Mapping[str, Mapping[int, int]]
"""Topic → partition → offset."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets of one partition: from `begin` on, up to and without `end`."""

    topic: str
    partition: int
    begin: int
    end: int

    def __post_init__(self) -> None:
        assert 0 <= self.begin <= self.end, f"no range of offsets: {self.begin} to {self.end}"

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offsets {self.begin} to {self.end}"

    @property
    def size(self) -> int:
        """How many offsets; there may be fewer messages."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRanges:
    """What an epoch reads.

    Attributes:
        ranges: by topic and partition; none is empty.
        losses: what cannot be read any more, a sentence each.
    """

    ranges: tuple[OffsetRange, ...]
    losses: tuple[str, ...] = ()


def read_offsets(text: str) -> Offsets:
    """Offsets as Spark writes them: ``{"topic": {"0": 17}}``."""
    return {
        topic: {int(partition): int(offset) for partition, offset in partitions.items()}
        for topic, partitions in json.loads(text).items()
    }


def epoch_ranges(begins: Offsets, ends: Offsets) -> EpochRanges:
    """The ranges between two ends.

    A partition without a begin is new and read from its first offset; whether that is still there,
    the reader finds out.
    """
    gone = sorted(set(_places(begins)) - set(_places(ends)))
    losses = [f"{topic}/{partition} is gone" for topic, partition in gone]
    ranges = []
    for (topic, partition), end in sorted(_places(ends).items()):
        begin = begins.get(topic, {}).get(partition, 0)
        if end < begin:
            losses.append(f"{topic}/{partition} went back from offset {begin} to {end}")
        elif end > begin:
            ranges.append(OffsetRange(topic, partition, begin, end))
    return EpochRanges(ranges=tuple(ranges), losses=tuple(losses))


def split_ranges(ranges: Sequence[OffsetRange], parts: int) -> list[OffsetRange]:
    """About `parts` ranges, in order: the longer ones are cut, as Spark does by minPartitions.

    Args:
        parts: fewer than there are ranges leave all as they are.
    """
    ranges = [each for each in ranges if each.size]
    if len(ranges) >= parts:
        return ranges
    total = sum(each.size for each in ranges)
    whole = {each for each in ranges if _share(each.size, total, parts) == 1}
    left = total - sum(each.size for each in whole)
    left_parts = max(parts - len(whole), 1)
    return [
        part
        for each in ranges
        for part in _cut(each, 1 if each in whole else _share(each.size, left, left_parts))
    ]


def joined(ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
    """The same with neighbours of one partition that touch as one."""
    found: list[OffsetRange] = []
    for each in ranges:
        last = found[-1] if found else None
        if last and (last.topic, last.partition, last.end) == (
            each.topic,
            each.partition,
            each.begin,
        ):
            found[-1] = replace(last, end=each.end)
        elif each.size:
            found.append(each)
    return found


def _share(size: int, total: int, parts: int) -> int:
    # Halves are rounded up.
    return max((2 * size * parts + total) // (2 * total), 1)


def _cut(whole: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    begin = whole.begin
    for part in range(parts):
        end = begin + (whole.end - begin) // (parts - part)
        if end > begin:
            yield replace(whole, begin=begin, end=end)
        begin = end


def _places(offsets: Offsets) -> dict[tuple[str, int], int]:
    return {
        (topic, partition): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }
