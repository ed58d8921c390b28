"""A border: the end of an epoch that no transaction crosses, and the source's progress there.

`epoch_cut` makes a border at the end of each epoch, and cuts the next epoch by it.
`checkpoint.border_log` keeps it in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.transactions import NO_POSITION, POSITION_LENGTH, LogPositions
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.database_snapshot import SourcePosition

LogPosition = tuple[int, ...]
"""A position in a source's log; a change's position ends with its order in the transaction."""
BEFORE_ALL: LogPosition = (NO_POSITION,) * (POSITION_LENGTH + 1)
LAST_OF_ALL = np.iinfo(np.int64).max
"""An order after every change of a transaction."""


class PartitionState(StrEnum):
    """The state of a partition's rows after its messages up to an end.

    Attributes:
        SETTLED: each row has its latest version: the last change is the newest one that the
            connector has sent to the partition.
        READING: the last messages are rows of the connector's first read, or nothing is known.
        BEHIND: an earlier change has yet to come. The connector repeats changes, or an epoch has
            ended without the change.
    """

    SETTLED = "settled"
    READING = "reading"
    BEHIND = "behind"


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of a partition up to an end.

    Attributes:
        highest_position: the highest position of the partition's changes, or a higher one that the
            partition must pass first.
    """

    highest_position: LogPosition = BEFORE_ALL
    state: PartitionState = PartitionState.READING


@dataclass(frozen=True, slots=True)
class NewestTransaction:
    """The newest transaction of a connector.

    Attributes:
        log_position: the position of its commit in the log.
        log: the log in which the job has begun; positions of another one cannot be compared.
    """

    position: SourcePosition
    log_position: LogPosition
    log: str = ""


@dataclass(frozen=True, slots=True)
class LogProgress:
    """The job's progress in the logs of its sources, at the end of an epoch.

    Attributes:
        newest_transactions: connector → its newest transaction.
    """

    newest_transactions: Mapping[str, NewestTransaction] = field(default_factory=dict)
    partitions: Mapping[KafkaPartition, PartitionProgress] = field(default_factory=dict)

    @property
    def positions(self) -> dict[str, SourcePosition]:
        """Connector → its newest transaction, as a database snapshot names it."""
        return {
            source: transaction.position for source, transaction in self.newest_transactions.items()
        }

    def newest_position(self, topic: str) -> LogPosition:
        """Return the position of the newest transaction of a topic's connector.

        The changes of a new partition are after it, except repeats.
        """
        sources = [source for source in self.newest_transactions if topic.startswith(f"{source}.")]
        if not sources:
            return BEFORE_ALL
        # The connector "shop.eu" has the topics "shop.eu.…", and the connector "shop" the others.
        return (*self.newest_transactions[max(sources, key=len)].log_position, LAST_OF_ALL)

    def partition_progress(self, kafka_partition: KafkaPartition) -> PartitionProgress:
        """Return the progress of a partition. A new partition still awaits its first rows."""
        return self.partitions.get(kafka_partition) or PartitionProgress(
            self.newest_position(kafka_partition[0])
        )


@dataclass(frozen=True, slots=True)
class Doubt:
    """The reason why the tables may differ from the database at its newest transaction.

    Attributes:
        fix: the remedy; empty if the doubt resolves itself.
    """

    reason: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """The end of an epoch, in transactions of the source.

    Attributes:
        progress: the job's progress in the logs of its sources at the border.
        advances: whether a transaction of this epoch, or of doubtful ones before, is the newest.
        doubt: why the tables may differ from the database at the border, or None if they do not.
    """

    progress: LogProgress = field(default_factory=LogProgress)
    advances: bool = False
    doubt: Doubt | None = None

    @property
    def is_whole(self) -> bool:
        """Whether this epoch advances the tables to a later transaction of the database."""
        return self.advances and self.doubt is None


def compare_positions(positions: LogPositions, position: Sequence[int]) -> Int64s:
    """Return whether positions are before another one (-1), equal it (0), or are after it (1).

    Returns:
        int64 [n].
    """
    result = np.zeros(len(positions), np.int64)
    for column, component in enumerate(position):
        result[result == 0] = np.sign(positions[result == 0, column] - component)
    return result


def ranks_of(positions: LogPositions) -> Int64s:
    """Return numbers that have the order of positions: int64 [n]; equal ones have the same."""
    order = np.lexsort(positions.T[::-1])
    in_order = positions[order]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.append(0, np.cumsum((in_order[1:] != in_order[:-1]).any(axis=1)))[
        : len(order)
    ]
    return ranks
