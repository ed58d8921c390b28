"""How far a job is in the logs of its sources: per connector, and per partition of each topic.

`window_cut` tells it at the end of an epoch, and judges the next epoch by it. A border of the
checkpoint keeps it (`spark.stream.border_log`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.transactions import POSITION_NUMBERS, UNKNOWN, LogPlaces
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.database.database_snapshot import SourcePosition

LogPosition = tuple[int, ...]
"""A place in a source's log; that of a change ends with its order in the transaction."""
BEFORE_ALL: LogPosition = (UNKNOWN,) * (POSITION_NUMBERS + 1)
LAST_OF_ALL = np.iinfo(np.int64).max
"""An order behind each change of a transaction."""


class Pace(StrEnum):
    """What the messages of a partition are, up to an end.

    Attributes:
        SETTLED: all that the connector has sent there, and the newest change is the last one.
        READING: rows of the connector's first read are the last ones, or nothing is known.
        BEHIND: a change of the partition is to come before others count. The connector repeats, or
            an epoch has ended without the change.
    """

    SETTLED = "settled"
    READING = "reading"
    BEHIND = "behind"


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """A partition up to an end.

    Attributes:
        top: the highest place of its changes.
    """

    top: LogPosition = BEFORE_ALL
    pace: Pace = Pace.READING


@dataclass(frozen=True, slots=True)
class NewestTransaction:
    """The newest transaction of a connector.

    Attributes:
        at: the place of its commit in the log.
        log: the log in which the job has begun; places of another one cannot be compared.
    """

    position: SourcePosition
    at: LogPosition
    log: str = ""


@dataclass(frozen=True, slots=True)
class LogProgress:
    """All that a job knows of its sources' logs at the end of an epoch."""

    newest: Mapping[str, NewestTransaction] = field(default_factory=dict)
    partitions: Mapping[KafkaPartition, PartitionProgress] = field(default_factory=dict)

    @property
    def positions(self) -> dict[str, SourcePosition]:
        """Connector → its newest transaction."""
        return {source: newest.position for source, newest in self.newest.items()}

    def top_of_new(self, topic: str) -> LogPosition:
        """The place that changes of a new partition lie behind, unless they are repeats."""
        of_topic = (at.at for source, at in self.newest.items() if topic.startswith(f"{source}."))
        return max(((*at, LAST_OF_ALL) for at in of_topic), default=BEFORE_ALL)

    def partition(self, place: KafkaPartition) -> PartitionProgress:
        """A partition; a new one has its first rows to come."""
        return self.partitions.get(place) or PartitionProgress(self.top_of_new(place[0]))


def compared(positions: LogPlaces, at: Sequence[int]) -> Int64s:
    """Whether places lie before another one (-1), equal it (0), or lie behind it (1): int64 [n]."""
    result = np.zeros(len(positions), np.int64)
    for column, number in enumerate(at):
        result[result == 0] = np.sign(positions[result == 0, column] - number)
    return result


def ranks_of(positions: LogPlaces) -> Int64s:
    """Numbers that have the order of places: int64 [n]; equal ones have the same."""
    order = np.lexsort(positions.T[::-1])
    in_order = positions[order]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.append(0, np.cumsum((in_order[1:] != in_order[:-1]).any(axis=1)))[
        : len(order)
    ]
    return ranks
