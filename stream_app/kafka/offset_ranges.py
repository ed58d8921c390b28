"""Ranges of offsets: what a task reads. Spark's source plans them on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


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
