"""Adds the partitions of commits to the catalog's list, where ``metastore.partitioned-table`` asks.

The snapshot is published by then. So a catalog that does not answer delays its list to the next
commit, and a warning says so.

Source: Paimon `metastore/AddPartitionCommitCallback.java`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_app.catalog.environment import CatalogPartition
from stream_app.errors import StorageError
from stream_app.model.bucket_change import BucketChange
from stream_app.model.options.table_options import METASTORE_PARTITIONED_TABLE
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class ListedPartitions:
    """The partitions of one committer that are in the catalog's list, and those that must be."""

    _listed: set[bytes] = field(default_factory=set)
    _due: set[bytes] = field(default_factory=set)

    @property
    def are_due(self) -> bool:
        """Whether the catalog did not take partitions."""
        return bool(self._due)

    def add(self, table: FileStoreTable, changes: Sequence[BucketChange]) -> None:
        """Add the partitions that a commit has given files."""
        is_listed = bool(table.schema.partition_keys) and table.options[METASTORE_PARTITIONED_TABLE]
        if table.branch or not is_listed:
            return
        self._due |= {change.partition for change in changes if change.added} - self._listed
        if not self._due:
            return
        try:
            table.environment.add_partitions([_described(table, one) for one in sorted(self._due)])
        except StorageError as error:
            _LOG.warning(
                "the catalog's list of %s lacks %d partitions until the next commit: %s",
                table.label,
                len(self._due),
                error,
            )
            return
        self._listed |= self._due
        self._due.clear()


def _described(table: FileStoreTable, partition: bytes) -> CatalogPartition:
    folder = table.paths.partition_folder(partition).removeprefix(f"{table.location}/")
    return CatalogPartition(tuple(table.paths.partition_spec(partition).values()), folder)
