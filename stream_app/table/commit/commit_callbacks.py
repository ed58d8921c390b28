"""Updates the catalog's partitions and Iceberg's metadata after each published snapshot.

A callback never fails the commit, because the snapshot is already published. Its problem stays
recorded until a later call repairs it. So a catalog that does not answer delays its list of
partitions (``metastore.partitioned-table``) to the next commit, and a warning says so.

Source: Paimon `table/sink/CommitCallback.java`, whose errors fail the commit;
`metastore/AddPartitionCommitCallback.java`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_app.catalog.catalog_environment import CatalogPartition
from stream_app.errors import StorageError
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.options.write_options import METASTORE_PARTITIONED_TABLE
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.publisher import IcebergPublisher

_LOG = logging.getLogger(__name__)
_IDLE_WAIT_S, _IDLE_WAIT_MAX_S = 10.0, 600.0
"""Waits of an idle job between two attempts to catch up: the first, which doubles, and the longest.
"""
_CATCH_UP_FIX = "remove the cause, which the log names; the job then catches up"


@dataclass(slots=True)
class ListedPartitions:
    """A table's partitions in the catalog, with those that are still to be listed."""

    _listed_partitions: set[bytes] = field(init=False, default_factory=set)
    _due_partitions: set[bytes] = field(init=False, default_factory=set)

    @property
    def are_due(self) -> bool:
        """Whether the catalog refused partitions, which are still to be listed."""
        return bool(self._due_partitions)

    def add(self, table: FileStoreTable, changes: Sequence[BucketChange]) -> None:
        """List the partitions to which a commit has added files."""
        is_listed = bool(table.schema.partition_keys) and table.options[METASTORE_PARTITIONED_TABLE]
        if table.branch or not is_listed:
            return
        self._due_partitions |= {
            change.partition for change in changes if change.added_files
        } - self._listed_partitions
        if not self._due_partitions:
            return
        partitions = [
            _describe_partition(table, partition) for partition in sorted(self._due_partitions)
        ]
        try:
            table.catalog_environment.add_partitions(partitions)
        except StorageError as error:
            _LOG.warning(
                "the catalog's list of %s lacks %d partitions until the next commit: %s",
                table.label,
                len(self._due_partitions),
                error,
            )
            return
        self._listed_partitions |= self._due_partitions
        self._due_partitions.clear()


def _describe_partition(table: FileStoreTable, partition: bytes) -> CatalogPartition:
    folder = table.paths.partition_folder(partition).removeprefix(f"{table.location}/")
    return CatalogPartition(tuple(table.paths.partition_spec(partition).values()), folder)


@dataclass(frozen=True, slots=True)
class CallbackProblem:
    """A problem that hides the table's latest snapshot from external readers.

    Its text stays the same while the problem lasts.
    """

    problem: str
    fix: str


@dataclass(slots=True)
class CommitCallbacks:
    """The callbacks of one committer."""

    table: FileStoreTable
    _iceberg: IcebergPublisher = field(init=False)
    _partitions: ListedPartitions = field(init=False)
    _caught_up_at_s: float = field(init=False, default=-math.inf)
    _wait_s: float = field(init=False, default=_IDLE_WAIT_S)

    def __post_init__(self) -> None:
        self._iceberg = IcebergPublisher(self.table)
        self._partitions = ListedPartitions()

    def call(self, snapshot: Snapshot, changes: Sequence[BucketChange]) -> None:
        """Run the callbacks after a published snapshot. Never raises."""
        self._partitions.add(self.table, changes)
        if not self.table.branch:  # Iceberg's metadata shows the main branch
            self._iceberg.publish(snapshot)
        self._wait_s = _IDLE_WAIT_S

    def catch_up(self) -> None:
        """Update catalogs that lag behind after a crash or another writer. Never raises."""
        self._caught_up_at_s = self.table.clock.steady_seconds()
        if not self.table.branch:
            self._iceberg.catch_up()

    def while_idle(self) -> None:
        """Catch up at intervals, however often it is called."""
        if self.table.clock.steady_seconds() - self._caught_up_at_s >= self._wait_s:
            self._wait_s = min(2 * self._wait_s, _IDLE_WAIT_MAX_S)
            self.catch_up()

    @property
    def problems(self) -> tuple[CallbackProblem, ...]:
        """The external views that lag behind this committer's latest snapshot."""
        problems = []
        if self._partitions.are_due:
            problems.append("the catalog's list lacks partitions of the table")
        if self._iceberg.problem is not None:
            problems.append("Iceberg's readers do not see the table's latest snapshot")
        return tuple(CallbackProblem(problem, _CATCH_UP_FIX) for problem in problems)
