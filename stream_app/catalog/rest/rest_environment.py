"""Publishes a table's snapshots and schemas through the server of its REST catalog.

The server writes the files of both. So old versions are at their usual paths, and only the latest
snapshot is requested from the server.

Source: Paimon `catalog/CatalogSnapshotCommit.java`, `tag/SnapshotLoaderImpl.java`,
`rest/RESTCatalog.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from stream_app.catalog.catalog_environment import CatalogPartition, PartitionStatisticsReader
from stream_app.catalog.identifier import Identifier
from stream_app.catalog.rest.rest_api import (
    EXISTS_STATUS,
    MISSING_STATUS,
    RestApi,
    RestResponse,
    table_path,
)
from stream_app.catalog.rest.schema_change_json import json_of_change
from stream_app.errors import TableNotFoundError, UsageError
from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.filestore.versions.snapshot_manager import SnapshotLoader, SnapshotManager
from stream_app.format.snapshot_json import decode_snapshot, snapshot_object
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.partition_statistics import PartitionStatistics
from stream_app.planning.schema.schema_changes import SchemaChange


@dataclass(frozen=True, slots=True)
class RestEnvironment:
    """The environment of a table of a REST catalog.

    Attributes:
        table_id: distinguishes the table from a later one of the same name.
        is_external: whether the server has only the table's schema, and creating a snapshot's file
            publishes the snapshot.
    """

    api: RestApi
    identifier: Identifier
    table_id: str
    is_external: bool

    @property
    def snapshot_loader(self) -> SnapshotLoader | None:
        """See `CatalogEnvironment.snapshot_loader`."""
        return None if self.is_external else self

    def latest(self) -> Snapshot | None:
        """See `SnapshotLoader.latest`."""
        response = self.api.get(*table_path(self.identifier, "snapshot"))
        if response.is_missing("SNAPSHOT"):
            return None
        self._check_table_exists(response)
        if response.value.get("snapshot") is None:
            return None
        snapshot_with_totals = response.field("snapshot", dict)
        return decode_snapshot(orjson.dumps(snapshot_with_totals.get("snapshot")))

    def roll_back(self, target_id: int, latest_id: int) -> None:
        """See `SnapshotLoader.roll_back`."""
        body = {
            "instant": {"type": "snapshot", "snapshotId": target_id},
            "fromSnapshot": latest_id,
        }
        response = self.api.post(*table_path(self.identifier, "rollback"), body=body)
        if response.is_missing("SNAPSHOT"):
            raise UsageError(
                f"the catalog has no snapshot {target_id}",
                where=response.where,
                fix="roll back to a snapshot that has not expired",
            )
        self._check_table_exists(response)

    def publish_snapshot(
        self,
        snapshots: SnapshotManager,
        snapshot: Snapshot,
        read_partition_statistics: PartitionStatisticsReader,
    ) -> bool:
        """Let the server publish the snapshot; of an external table, create its file."""
        if self.is_external:
            return snapshots.publish(snapshot)
        fields = snapshot_object(snapshot).items()
        body = {
            "tableId": self.table_id,
            "snapshot": {key: value for key, value in fields if value is not None},
            "statistics": [
                _statistics_object(partition) for partition in read_partition_statistics()
            ],
        }
        response = self.api.post(*table_path(self.identifier, "commit"), body=body)
        self._check_table_exists(response)
        return bool(response.field("success", bool))

    def add_partitions(self, _partitions: Sequence[CatalogPartition]) -> None:
        """See `CatalogEnvironment.add_partitions`; the server reads them in commits' statistics."""

    def publish_schema(
        self, schemas: SchemaManager, schema: TableSchema, changes: Sequence[SchemaChange]
    ) -> TableSchema | None:
        """Let the server change the schema; None if another writer has just altered the table."""
        body = {"changes": [json_of_change(change) for change in changes]}
        response = self.api.post(*table_path(self.identifier), body=body)
        latest_schema = schemas.latest()
        if response.is_success:
            return latest_schema
        if latest_schema is not None and latest_schema.schema_id >= schema.schema_id:
            return None  # another writer has just altered the table
        if response.status == EXISTS_STATUS or response.is_missing("COLUMN"):
            raise UsageError(
                f"the catalog refuses the change: {response.value.get('message') or 'no reason'}",
                where=response.where,
                fix="compare the table's columns in the catalog with the change",
            )
        self._check_table_exists(response)
        return None

    def _check_table_exists(self, response: RestResponse) -> None:
        if response.status == MISSING_STATUS:
            raise TableNotFoundError(
                f"the table {self.identifier} is not in the catalog any more, or was replaced",
                where=response.where,
                fix="create the table again, or give another name",
            )


def _statistics_object(partition: PartitionStatistics) -> dict[str, object]:
    return {
        "spec": dict(partition.spec),
        "recordCount": partition.record_count,
        "fileSizeInBytes": partition.file_size,
        "fileCount": partition.file_count,
        "lastFileCreationTime": partition.newest_file_time_ms,
        "totalBuckets": partition.total_buckets,
    }
