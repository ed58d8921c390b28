"""The port to a table's catalog, which takes the last step of each commit.

A table at a path has `NO_CATALOG`, and creating a version's file publishes the version. A catalog
with locks adds its lock, because other engines check and then rename under the lock. A catalog that
keeps the versions itself publishes them. An environment belongs to its table and can be pickled.

Source: Paimon `table/CatalogEnvironment.java`, `catalog/RenamingSnapshotCommit.java`,
`catalog/CatalogSnapshotCommit.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from stream_app.catalog.catalog_lock import CatalogLock
from stream_app.catalog.identifier import Identifier
from stream_app.errors import UsageError
from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.filestore.versions.snapshot_manager import SnapshotLoader, SnapshotManager
from stream_app.model.options.bucket_options import BUCKET_KEY
from stream_app.model.options.write_options import CATALOG
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.partition_statistics import PartitionStatistics
from stream_app.planning.schema.schema_changes import SchemaChange

PartitionStatisticsReader = Callable[[], Sequence[PartitionStatistics]]
"""Returns a commit's changes to the statistics of each partition."""


@dataclass(frozen=True, slots=True)
class CatalogPartition:
    """A partition in a catalog's list.

    Attributes:
        values: the values of its columns as texts.
        folder: the folder below the table's.
    """

    values: tuple[str, ...]
    folder: str


class CatalogEnvironment(Protocol):
    """The part of a catalog that concerns one table."""

    @property
    def identifier(self) -> Identifier | None:
        """The table's name in the catalog; None without a catalog."""
        ...

    @property
    def snapshot_loader(self) -> SnapshotLoader | None:
        """The catalog if it decides which snapshot is the latest; None if the files decide."""
        ...

    def publish_snapshot(
        self,
        snapshots: SnapshotManager,
        snapshot: Snapshot,
        read_partition_statistics: PartitionStatisticsReader,
    ) -> bool:
        """Publish a snapshot whose files are all written; False if its number is taken.

        Args:
            read_partition_statistics: returns the snapshot's changes to the statistics of each
                partition.

        Raises:
            UnsyncedError: the snapshot exists, but may vanish in a crash of the machine.
            CommitError: the catalog does not let this writer commit; nothing is published.
            StorageError: the catalog does not answer; the snapshot may be published.
            NoAccessError: the catalog refuses this user.
            TableNotFoundError: the table was dropped from the catalog.
        """
        ...

    def publish_schema(
        self, schemas: SchemaManager, schema: TableSchema, changes: Sequence[SchemaChange]
    ) -> TableSchema | None:
        """Publish a new version of the schema, and return it; None if its number is taken.

        Args:
            changes: the changes of `schema` to the previous version.
        """
        ...

    def add_partitions(self, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions to the catalog's list, if it keeps one; known partitions stay unchanged.

        Raises:
            StorageError: the catalog does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoCatalog:
    """The environment of a table at a path: the first process to create a file owns its number."""

    identifier: Identifier | None = field(init=False, default=None)
    snapshot_loader: SnapshotLoader | None = field(init=False, default=None)

    def publish_snapshot(
        self,
        snapshots: SnapshotManager,
        snapshot: Snapshot,
        _read_partition_statistics: PartitionStatisticsReader,
    ) -> bool:
        """Create the snapshot's file, which fails if another process has created it."""
        return snapshots.publish(snapshot)

    def publish_schema(
        self, schemas: SchemaManager, schema: TableSchema, _changes: Sequence[SchemaChange]
    ) -> TableSchema | None:
        """Create the schema's file; None if another process has created it."""
        return schema if schemas.create(schema) else None

    def add_partitions(self, _partitions: Sequence[CatalogPartition]) -> None:
        """Do nothing, because no catalog lists partitions."""


NO_CATALOG = NoCatalog()


class TableRegister(Protocol):
    """The catalog's record of a table, which follows the table's schema."""

    def update(
        self, identifier: Identifier, schema: TableSchema, changes: Sequence[SchemaChange]
    ) -> None:
        """Replace the catalog's record of a table's schema."""
        ...


class PartitionRegister(Protocol):
    """The catalog's own list of a table's partitions."""

    def add_partitions(
        self, identifier: Identifier, partitions: Sequence[CatalogPartition]
    ) -> None:
        """Add partitions to the catalog's list; partitions in the list stay unchanged."""
        ...


@dataclass(frozen=True, slots=True)
class LockedEnvironment:
    """The environment of a catalog that keeps names and locks, while versions are files.

    Attributes:
        lock: the catalog's lock; None if commits rely on the file system, as on a local disk.
        partition_register: the catalog's list of partitions; None without one.
    """

    identifier: Identifier
    register: TableRegister
    lock: CatalogLock | None
    partition_register: PartitionRegister | None = None
    snapshot_loader: SnapshotLoader | None = field(init=False, default=None)

    def publish_snapshot(
        self,
        snapshots: SnapshotManager,
        snapshot: Snapshot,
        _read_partition_statistics: PartitionStatisticsReader,
    ) -> bool:
        """Create the snapshot's file while holding the catalog's lock, if there is one."""
        with nullcontext() if self.lock is None else self.lock.hold(self.identifier):
            return snapshots.publish(snapshot)

    def publish_schema(
        self, schemas: SchemaManager, schema: TableSchema, changes: Sequence[SchemaChange]
    ) -> TableSchema | None:
        """Create the schema's file and update the catalog's entry, under the lock."""
        with nullcontext() if self.lock is None else self.lock.hold(self.identifier):
            if not schemas.create(schema):
                return None
            self.register.update(self.identifier, schema, changes)
            return schema

    def create_schema(self, schemas: SchemaManager, schema: TableSchema) -> bool:
        """Create the schema's file under the lock; False if its number is taken."""
        if self.lock is None:
            return schemas.create(schema)
        with self.lock.hold(self.identifier):
            return schemas.create(schema)

    def add_partitions(self, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions, if the catalog lists partitions."""
        if self.partition_register is not None:
            self.partition_register.add_partitions(self.identifier, partitions)


def is_unfinished(schemas: SchemaManager, owner: str) -> bool:
    """Return whether a process that created a table crashed before it registered the table."""
    schema = schemas.latest()
    return schema is not None and schema.options.get(CATALOG.key) == owner


def unknown_table_error(path: str, catalog: str) -> UsageError:
    """Return the error for a table that exists in a folder, but not in the catalog."""
    return UsageError(
        "the table's folder has a table that is not in the catalog",
        where=f"{path}, {catalog}",
        fix="register it (Flink: CALL sys.repair('DATABASE.TABLE')), or give another name",
    )


def properties_of(schema: TableSchema) -> Mapping[str, str]:
    """Return a table's options as a catalog stores them, with the keys of its definition."""
    keys = {
        "primary-key": schema.primary_keys,
        "partition": schema.partition_keys,
        BUCKET_KEY.key: schema.bucket_keys,
    }
    return {**schema.options, **{key: ",".join(names) for key, names in keys.items() if names}}
