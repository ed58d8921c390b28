"""The last step of a commit, which the table's catalog does.

A table at a path has `NO_CATALOG`: a version is published by creating its file. A catalog with
locks adds its lock, because other engines look and then rename while they hold it. A catalog that
keeps the versions itself decides alone. An environment goes with its table and can be pickled.

Source: Paimon `table/CatalogEnvironment.java`, `catalog/RenamingSnapshotCommit.java`,
`catalog/CatalogSnapshotCommit.java`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stream_app.catalog.catalog_lock import CatalogLock
from stream_app.catalog.identifier import Identifier
from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.filestore.versions.snapshot_manager import SnapshotManager
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import Snapshot
from stream_app.planning.schema.schema_changes import SchemaChange


class CatalogEnvironment(Protocol):
    """The catalog of one table."""

    def publish_snapshot(self, snapshots: SnapshotManager, snapshot: Snapshot) -> bool:
        """Publish a snapshot whose files are all written; False: its number is taken.

        Raises:
            UnsyncedError: it exists, and may be gone again after a crash of the machine.
            CommitError: the catalog does not let this writer commit.
        """
        ...

    def publish_schema(
        self, schemas: SchemaManager, schema: TableSchema, changes: Sequence[SchemaChange]
    ) -> bool:
        """Publish a new version of the schema; False: its number is taken.

        Args:
            changes: what `schema` does to the version before it.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoCatalog:
    """The environment of a table at a path: the first to create a file has its number."""

    def publish_snapshot(self, snapshots: SnapshotManager, snapshot: Snapshot) -> bool:
        """See `CatalogEnvironment.publish_snapshot`."""
        return snapshots.publish(snapshot)

    def publish_schema(
        self, schemas: SchemaManager, schema: TableSchema, _changes: Sequence[SchemaChange]
    ) -> bool:
        """See `CatalogEnvironment.publish_schema`."""
        return schemas.create(schema)


NO_CATALOG = NoCatalog()


class TableRegister(Protocol):
    """The catalog's own record of a table, which follows the table's schema."""

    def update(self, identifier: Identifier, schema: TableSchema) -> None:
        """Replace what the catalog says of a table's schema."""
        ...


@dataclass(frozen=True, slots=True)
class LockedEnvironment:
    """The environment of a catalog that has names and locks, while versions are files.

    Attributes:
        lock: None: commits rely on the file system alone, as on a local disk.
    """

    identifier: Identifier
    register: TableRegister
    lock: CatalogLock | None

    def publish_snapshot(self, snapshots: SnapshotManager, snapshot: Snapshot) -> bool:
        """See `CatalogEnvironment.publish_snapshot`."""
        if self.lock is None:
            return snapshots.publish(snapshot)
        with self.lock.held(self.identifier):
            return snapshots.publish(snapshot)

    def publish_schema(
        self, schemas: SchemaManager, schema: TableSchema, _changes: Sequence[SchemaChange]
    ) -> bool:
        """See `CatalogEnvironment.publish_schema`."""
        if self.lock is None:
            is_ours = schemas.create(schema)
        else:
            with self.lock.held(self.identifier):
                is_ours = schemas.create(schema)
        if is_ours:
            self.register.update(self.identifier, schema)
        return is_ours


def properties_of(schema: TableSchema) -> Mapping[str, str]:
    """A table's options as a catalog keeps them: with the keys that its definition has."""
    keys = {
        "primary-key": schema.primary_keys,
        "partition": schema.partition_keys,
        "bucket-key": schema.bucket_keys,
    }
    return {**schema.options, **{key: ",".join(names) for key, names in keys.items() if names}}
