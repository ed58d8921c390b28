"""Splits an epoch's duration into parts. Pure.

A task before the shuffle measures itself. The driver measures back-pressure, the Spark jobs and the
commits. `epoch_seconds` combines both, so that the parts of an epoch add up to its duration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, order=True)
class TaskSeconds:
    """Seconds of one task before the shuffle; values compare by their sum.

    Attributes:
        read_s: seconds of waiting for messages.
        decode_s: seconds of decoding them, for all tables.
    """

    total_s: float = 0.0
    read_s: float = 0.0
    decode_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSeconds:
    """The seconds of each part of an epoch, in order; all parts except `commit_s` cover all tables.

    Attributes:
        wait_s: back-pressure before the epoch's rows are written.
        read_s, decode_s: the seconds of the longest task, for which the others wait.
        route_s: the rest of the tasks before the shuffle: buckets, blocks, and Spark's own work.
        write_s: the tasks after the shuffle.
    """

    wait_s: float = 0.0
    read_s: float = 0.0
    decode_s: float = 0.0
    route_s: float = 0.0
    write_s: float = 0.0
    commit_s: float = 0.0

    @property
    def by_name(self) -> Mapping[str, float]:
        """Part → seconds: ``wait``, ``read``, ``decode``, ``route``, ``write``, ``commit``."""
        return {name.removesuffix("_s"): seconds for name, seconds in asdict(self).items()}

    @property
    def total_s(self) -> float:
        """Sum of all parts."""
        return sum(self.by_name.values())

    @property
    def as_property(self) -> str:
        """The parts before the commit, as a property of its snapshot; see `parse_epoch_seconds`."""
        seconds_by_name = {name: round(seconds, 3) for name, seconds in self.by_name.items()}
        del seconds_by_name["commit"]
        return json.dumps(seconds_by_name)


def parse_epoch_seconds(text: str | None) -> Mapping[str, float]:
    """Return the parts in a snapshot's property; empty if it cannot be parsed."""
    try:
        return {str(name): float(seconds) for name, seconds in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def epoch_seconds_text(seconds_by_name: Mapping[str, float]) -> str:
    """Return the parts as text: ``wait 0.00 s, read 0.25 s, …``."""
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in seconds_by_name.items())


def epoch_seconds(
    slowest_task: TaskSeconds, *, wait_s: float, routing_s: float, writing_s: float
) -> EpochSeconds:
    """Return the parts of an epoch before its commits.

    Args:
        slowest_task: the longest task before the shuffle.
        routing_s: seconds of the Spark job of those tasks, if they have a job of their own.
        writing_s: seconds of the Spark job that writes; otherwise it includes those tasks.
    """
    routed_s = min(max(routing_s, slowest_task.total_s), routing_s + writing_s)
    read_s = min(slowest_task.read_s, routed_s)
    decode_s = min(slowest_task.decode_s, routed_s - read_s)
    return EpochSeconds(
        wait_s=wait_s,
        read_s=read_s,
        decode_s=decode_s,
        route_s=routed_s - read_s - decode_s,
        write_s=routing_s + writing_s - routed_s,
    )
