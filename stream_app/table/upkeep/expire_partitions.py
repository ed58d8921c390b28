"""Drops partitions that are too old.

A drop is an OVERWRITE commit with a separate commit user. A writing job treats it as another
writer's commit, and drops its state of these buckets. The files are deleted when the earlier
snapshots expire.

With the strategy update-time, a write makes its partition young again. So a drop is committed only
on top of a snapshot in which all its partitions are still too old. With the strategy values-time
partitions stay old, and late rows are dropped with them.

Source: Paimon `operation/PartitionExpire.java`.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stream_app.clock import local_wall_clock_ms
from stream_app.errors import CommitConflictError, UsageError
from stream_app.format.binary_row import deserialize_row
from stream_app.format.partition_path import value_texts
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.near_names import unknown_name
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.expire_options import (
    PARTITION_EXPIRATION_BATCH_SIZE,
    PARTITION_EXPIRATION_MAX_NUM,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_TIME,
)
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.planning.upkeep.partition_time import (
    DatedPartition,
    PartitionTimeReader,
    batches_to_drop,
    expired_partitions,
    partition_time_reader,
)
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


class AgeBasis(enum.Enum):
    """The time from which a partition's age counts (``partition.expiration-strategy``)."""

    VALUES = "values-time"
    UPDATE = "update-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRetention:
    """The retention of partitions, from the table's options.

    Attributes:
        retained_ms: the milliseconds for which a partition is kept.
        age_basis: the time from which a partition's age counts.
        partitions_max: the maximum number of partitions that one expiry drops.
        batch_size: the number of partitions that one commit drops; None: all.
    """

    retained_ms: int
    age_basis: AgeBasis
    time_reader: PartitionTimeReader
    partitions_max: int
    batch_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpiry:
    """The partitions that expire.

    Attributes:
        partitions: the partitions in the order in which they are dropped.
        undated_count: the number of partitions that stay because they have no time.
    """

    partitions: tuple[DatedPartition, ...]
    undated_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedPartitions:
    """A snapshot, with the partitions that it has dropped."""

    snapshot: Snapshot
    partitions: tuple[DatedPartition, ...]


def partition_retention(options: CoreOptions) -> PartitionRetention | None:
    """Return the retention in the table's options; None if partitions do not expire.

    Raises:
        UsageError: an option has an unknown value.
    """
    retained_ms = options[PARTITION_EXPIRATION_TIME]
    if retained_ms is None:
        return None
    strategy = options[PARTITION_EXPIRATION_STRATEGY].lower()
    strategies = [basis.value for basis in AgeBasis]
    if strategy not in strategies:
        raise UsageError(
            unknown_name("value of option 'partition.expiration-strategy':", strategy, strategies),
            fix=f"use one of {', '.join(strategies)}",
        )
    return PartitionRetention(
        retained_ms=retained_ms,
        age_basis=AgeBasis(strategy),
        time_reader=partition_time_reader(options),
        partitions_max=options[PARTITION_EXPIRATION_MAX_NUM],
        batch_size=options[PARTITION_EXPIRATION_BATCH_SIZE],
    )


@dataclass(frozen=True, slots=True)
class ExpirePartitions:
    """The expiry of one table's partitions."""

    table: FileStoreTable
    retention: PartitionRetention

    def plan(self) -> PartitionExpiry:
        """Return the expiry that is due."""
        partitions = self._with_times(FileStoreScan(self.table).live(self.table.snapshots.latest()))
        return PartitionExpiry(
            partitions=tuple(self._partitions_too_old(partitions)[: self.retention.partitions_max]),
            undated_count=sum(partition.time_ms is None for partition in partitions),
        )

    def execute(self, expiry: PartitionExpiry) -> Iterator[DroppedPartitions]:
        """Drop the partitions, and yield each snapshot.

        Partitions that have become young again since the plan stay.

        Raises:
            CommitError: other writers won every race; the next expiry drops the rest.
        """
        commit_user = f"expire-partitions-{uuid.uuid4()}"
        for batch in batches_to_drop(list(expiry.partitions), self.retention.batch_size):
            dropped_partitions = self._drop(commit_user, batch)
            if dropped_partitions is not None:
                yield dropped_partitions

    def _drop(
        self, commit_user: str, expiring: Sequence[DatedPartition]
    ) -> DroppedPartitions | None:
        """Drop the partitions that are still too old; None if no partition is."""
        while expiring:
            latest_snapshot = self.table.snapshots.latest()
            commit = FileStoreCommit(
                self.table, CommitHistory(self.table, commit_user, latest_snapshot)
            )
            try:
                snapshot = commit.drop_partitions(
                    [partition.partition for partition in expiring],
                    BATCH_COMMIT_IDENTIFIER,
                    check_files=self._check_files,
                )
                return DroppedPartitions(snapshot=snapshot, partitions=tuple(expiring))
            except CommitConflictError:
                live_entries = FileStoreScan(self.table).live(self.table.snapshots.latest())
                old_partitions = self._partitions_too_old(self._with_times(live_entries))
                old_ids = {partition.partition for partition in old_partitions}
                still_expiring = [
                    expiring_partition
                    for expiring_partition in expiring
                    if expiring_partition.partition in old_ids
                ]
                if len(still_expiring) == len(expiring):  # the conflict has another cause
                    raise
                expiring = still_expiring
        return None

    def _check_files(self, entries: Sequence[ManifestEntry]) -> None:
        """Check that the partitions of the deleted files have expired."""
        if self.retention.age_basis is AgeBasis.VALUES:
            return
        partitions = self._with_times(entries)
        young_count = len(partitions) - len(self._partitions_too_old(partitions))
        if young_count:
            raise CommitConflictError(
                f"{young_count} of the partitions were written to meanwhile",
                where=self.table.location,
                fix="expire partitions again, which checks their age",
            )

    def _partitions_too_old(self, partitions: Sequence[DatedPartition]) -> list[DatedPartition]:
        bound_time_ms = local_wall_clock_ms(self.table.clock) - self.retention.retained_ms
        return expired_partitions(
            partitions, bound_time_ms=bound_time_ms, partitions_max=len(partitions)
        )

    def _with_times(self, live_entries: Iterable[ManifestEntry]) -> list[DatedPartition]:
        entries_by_partition: dict[bytes, list[ManifestEntry]] = {}
        for entry in live_entries:
            entries_by_partition.setdefault(entry.partition, []).append(entry)
        return [
            self._partition(partition, entries)
            for partition, entries in entries_by_partition.items()
        ]

    def _partition(self, partition: bytes, entries: list[ManifestEntry]) -> DatedPartition:
        """Return the partition with its time, by its values or by its newest file."""
        schema = self.table.schema
        row_type = schema.partition_type
        texts = value_texts(deserialize_row(partition, row_type.types), row_type)
        if self.retention.age_basis is AgeBasis.VALUES:
            time_ms = self.retention.time_reader.time_ms(row_type.names, texts)
        else:
            times = [entry.file.creation_time_ms for entry in entries]
            known_times = [time for time in times if time is not None]
            time_ms = max(known_times) if len(known_times) == len(times) else None
        default = self.table.paths.default_name
        return DatedPartition(
            partition=partition,
            values=tuple(default if text is None else text for text in texts),
            time_ms=time_ms,
            file_count=len(entries),
            row_count=sum(entry.file.row_count for entry in entries),
            byte_count=sum(entry.file.file_size for entry in entries),
        )
