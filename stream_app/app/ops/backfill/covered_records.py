"""Finds the quarantined records that a backfill reads again, and marks them as resolved.

A record is covered if the topic still has the same message. Its mark is written before the commit,
and takes effect through the commit, as in a replay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import with_all_columns
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.quarantine.quarantine_folder import (
    Identity,
    Quarantine,
    RecordMark,
    RecordOutcome,
    identity_of,
)


@dataclass(slots=True)
class CoveredRecords:
    """The quarantined records that a backfill also reads from the topics.

    Attributes:
        quarantines: the quarantine folders that may contain unresolved records of the table.
    """

    quarantines: Sequence[Quarantine]
    _unresolved_identities: list[frozenset[Identity]] = field(init=False, default_factory=list)
    _covered_identities: set[Identity] = field(init=False, default_factory=set)

    def noting_covered(
        self, batches: Iterable[pa.RecordBatch], committed_users: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages, and remember which of them wait in a quarantine folder.

        Args:
            batches: messages in columns of `MESSAGE_SCHEMA`.
            committed_users: the commit users that have a commit in the table.
        """
        self._unresolved_identities = [
            frozenset(record.identity for record in quarantine.unresolved_records(committed_users))
            for quarantine in self.quarantines
        ]
        unresolved_identities = frozenset[Identity]().union(*self._unresolved_identities)
        offsets: dict[KafkaPartition, list[int]] = defaultdict(list)
        for topic, partition_number, offset, _ in unresolved_identities:
            offsets[topic, partition_number].append(offset)
        for batch in batches:
            if offsets:
                self._covered_identities |= unresolved_identities.intersection(
                    _identities(batch, offsets)
                )
            yield batch

    @property
    def count(self) -> int:
        """The number of covered records so far."""
        return len(self._covered_identities)

    def mark(self, name: str, user: str, snapshot: int | None = None) -> None:
        """Mark the covered records as resolved.

        Args:
            name, user, snapshot: the fields of the `RecordMark`.
        """
        for quarantine, unresolved_identities in zip(
            self.quarantines, self._unresolved_identities, strict=True
        ):
            if records := tuple(sorted(unresolved_identities & self._covered_identities)):
                outcomes = (RecordOutcome.BACKFILLED,) * len(records)
                quarantine.write_mark(
                    RecordMark(
                        name=name, records=records, outcomes=outcomes, user=user, snapshot=snapshot
                    )
                )


def _identities(
    batch: pa.RecordBatch, offsets: dict[KafkaPartition, list[int]]
) -> Iterator[Identity]:
    """Yield the identities of the messages at these offsets, which are few."""
    batch = with_all_columns(batch)
    has_offset = np.isin(
        batch.column("offset").to_numpy(), np.unique(np.concatenate([*offsets.values()]))
    )
    for row in batch.filter(pa.array(has_offset)).to_pylist():
        if row["offset"] in offsets.get((row["topic"], row["partition"]), ()):
            yield identity_of(
                row["topic"], row["partition"], row["offset"], row["key"], row["value"]
            )
