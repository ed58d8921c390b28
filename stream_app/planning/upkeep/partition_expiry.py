"""Which partitions are too old.

Called by `table.upkeep.expire_partitions`, which drops them.

Source: Paimon `operation/PartitionExpire.java`, `partition/PartitionValuesTimeExpireStrategy.java`,
`partition/PartitionUpdateTimeExpireStrategy.java`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedPartition:
    """A partition that has files.

    Attributes:
        partition: serialized BinaryRow.
        values: as texts, null as the default name; by these partitions are put in order.
        time_ms: by which its age counts: local time of day as if UTC; None: it has none, and stays.
        rows: of all files, deletes and older versions included.
    """

    partition: bytes
    values: tuple[str, ...]
    time_ms: int | None
    files: int
    rows: int
    bytes: int


def expired_partitions(
    partitions: Iterable[DatedPartition], *, before_ms: int, at_most: int
) -> list[DatedPartition]:
    """Those from before a time, in the order of their values; the first ones, if there are many."""
    found = [each for each in partitions if each.time_ms is not None and each.time_ms < before_ms]
    return sorted(found, key=lambda each: ",".join(each.values))[:at_most]


def batches(partitions: list[DatedPartition], batch_size: int | None) -> list[list[DatedPartition]]:
    """The partitions that one commit drops each time; None: all at once."""
    size = batch_size or max(len(partitions), 1)
    return [partitions[first : first + size] for first in range(0, len(partitions), size)]
