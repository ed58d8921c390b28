"""Selects buckets of a table by conditions on their partitions.

Source: Paimon `flink/action/CompactAction.java` (``--partition``, ``--where``,
``--partition_idle_time``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from stream_app.clock import local_wall_clock_ms
from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_scalar
from stream_app.format.binary_row import deserialize_row
from stream_app.format.partition_path import partition_component, partition_path
from stream_app.model.bucket_id import POSTPONED, BucketId
from stream_app.model.snapshot import Snapshot
from stream_app.predicate.predicate import Predicate, column_names, to_expression
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFilter:
    """Conditions on a bucket's partition, all of which must hold.

    Attributes:
        partitions: mappings of column → value as text, each of which selects one or more
            partitions; empty: all.
        condition: a condition on partition columns; None: no condition.
        idle_ms: the minimum age in milliseconds of the partition's newest file.
    """

    partitions: tuple[Mapping[str, str], ...] = ()
    condition: Predicate | None = None
    idle_ms: int | None = None

    @property
    def has_conditions(self) -> bool:
        """Whether any condition is set."""
        return bool(self.partitions) or self.condition is not None or self.idle_ms is not None

    def check(self, table: FileStoreTable) -> None:
        """Check that the conditions name partition columns only.

        Raises:
            UsageError: a condition names another column.
        """
        keys = table.schema.partition_keys
        used_columns = [name for partition in self.partitions for name in partition]
        used_columns += [] if self.condition is None else column_names(self.condition)
        if self.idle_ms is not None and not keys:
            raise UsageError(
                "--partition-idle-time is set, and the table has no partitions",
                where=table.location,
                fix="leave --partition-idle-time out",
            )
        for name in used_columns:
            if name not in keys:
                raise UsageError(
                    f"{name!r} is not a partition column: whole buckets are compacted",
                    where=table.location,
                    fix=f"name some of {', '.join(keys)}"
                    if keys
                    else "the table has no partitions: leave --partition and --where out",
                )

    def buckets(
        self, table: FileStoreTable, snapshot: Snapshot | None, *, is_postponed: bool = False
    ) -> set[BucketId]:
        """Return the buckets with files in a snapshot that fulfil the conditions.

        Args:
            is_postponed: whether to return the ``bucket-postpone`` buckets instead of the others.
        """
        all_buckets: set[BucketId] = set()
        newest_file_times_ms: dict[bytes, int] = defaultdict(int)
        for entry in FileStoreScan(table).live(snapshot):
            if (entry.bucket == POSTPONED) != is_postponed:
                continue
            all_buckets.add(entry.bucket_id)
            newest_file_times_ms[entry.partition] = max(
                entry.file.creation_time_ms or 0, newest_file_times_ms[entry.partition]
            )
        now_ms = local_wall_clock_ms(table.clock)
        partitions = {
            partition
            for partition, newest_file_time_ms in newest_file_times_ms.items()
            if (self.idle_ms is None or now_ms - newest_file_time_ms >= self.idle_ms)
            and self.is_named(table, partition)
            and self._passes_condition(table, partition)
        }
        return {bucket_id for bucket_id in all_buckets if bucket_id.partition in partitions}

    def is_named(self, table: FileStoreTable, partition: bytes) -> bool:
        """Return whether `partitions` selects this partition."""
        if not self.partitions:
            return True
        row_type = table.schema.partition_type
        values = deserialize_row(partition, row_type.types)
        components: set[str] = set()
        # Paimon's folder names may have a DATE as a number, but users write a date.
        for uses_legacy_names in (True, False):
            path = partition_path(
                values,
                row_type,
                default_name=table.paths.default_name,
                uses_legacy_names=uses_legacy_names,
            )
            components.update(path.split("/"))
        return any(
            all(partition_component(name, text) in components for name, text in texts.items())
            for texts in self.partitions
        )

    def _passes_condition(self, table: FileStoreTable, partition: bytes) -> bool:
        if self.condition is None:
            return True
        row_type = table.schema.partition_type
        values = deserialize_row(partition, row_type.types)
        row = pa.table(
            {
                field.name: pa.array([arrow_scalar(value, field.data_type)])
                for field, value in zip(row_type, values, strict=True)
            }
        )
        return bool(row.filter(to_expression(self.condition)).num_rows)
