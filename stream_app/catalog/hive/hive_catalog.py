"""Implements the catalog in a Hive metastore, which has names and folders; versions are files.

Source: Paimon `hive/HiveCatalog.java`.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.catalog.catalog import Catalog, CatalogTable
from stream_app.catalog.catalog_environment import (
    CatalogPartition,
    LockedEnvironment,
    is_unfinished,
    unknown_table_error,
)
from stream_app.catalog.file_system_catalog import table_folder
from stream_app.catalog.hive.hive_lock import HiveLock
from stream_app.catalog.hive.hive_table import (
    COMMENT,
    HiveLayout,
    TableCreation,
    TableField,
    database_location,
    follow_schema,
    hive_table_location,
    is_paimon_table,
    new_database,
    new_partitions,
    new_table_entry,
)
from stream_app.catalog.hive.metastore_client import MetastoreClient, MetastoreMethod
from stream_app.catalog.hive.metastore_entries import (
    EXISTS,
    INVALID,
    META,
    alter_table_entry,
    create_database_entry,
    create_table_entry,
    database_entry,
    table_entry,
)
from stream_app.catalog.hive.thrift_struct import (
    Struct,
    flag,
    inner_struct,
    struct_list,
    text,
    text_list,
)
from stream_app.catalog.identifier import Identifier
from stream_app.clock import Clock
from stream_app.errors import UsageError
from stream_app.fileio.store_registry import file_io_of
from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.schema.schema_changes import SchemaChange, SetTableComment, UnsetOption

_GET_ALL_DATABASES = MetastoreMethod("get_all_databases")
_GET_ALL_TABLES = MetastoreMethod("get_all_tables")
_GET_TABLES = MetastoreMethod(
    "get_table_objects_by_name_req", (META, "InvalidOperationException", "UnknownDBException")
)
_ADD_PARTITIONS = MetastoreMethod("add_partitions_req", (INVALID, EXISTS, META))
_TABLES_PER_CALL = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveCatalog(Catalog):
    """The Paimon tables of a metastore. It hides other tables, but their names are taken.

    Attributes:
        lock: the metastore's lock; None if ``lock.enabled`` is off.
    """

    client: MetastoreClient
    warehouse: str
    lock: HiveLock | None
    layout: HiveLayout
    clock: Clock
    file_io_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    table_defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """See `Catalog.label`."""
        return self.client.label

    def list_databases(self) -> list[str]:
        """See `Catalog.list_databases`."""
        return sorted(self.client.ask(_GET_ALL_DATABASES).texts(0))

    def list_tables(self, database: str) -> list[str]:
        """See `Catalog.list_tables`; tables that are not Paimon's are left out."""
        names = self.client.ask(_GET_ALL_TABLES, text(database)).texts(0)
        tables: list[Struct] = []
        for start in range(0, len(names), _TABLES_PER_CALL):
            batch = text_list(names[start : start + _TABLES_PER_CALL])
            request = inner_struct(Struct({1: text(database), 2: batch}))
            tables += self.client.ask(_GET_TABLES, request).struct(0).structs(1)
        return sorted(table.text(TableField.NAME) for table in tables if is_paimon_table(table))

    def create_database(self, database: str) -> None:
        """See `Catalog.create_database`."""
        _check_name(database)
        if database_entry(self.client, database) is not None:
            return
        folder = table_folder(self.warehouse, Identifier(database, "")).rstrip("/")
        entry = new_database(database, folder, self.layout)
        create_database_entry(self.client, database, entry)

    def table(self, identifier: Identifier) -> CatalogTable | None:
        """See `Catalog.table`; None for a table that is not Paimon's."""
        _check_name(str(identifier))
        table = table_entry(self.client, identifier)
        if table is None or not is_paimon_table(table):
            return None
        return self._catalog_table(identifier, hive_table_location(table, self.layout))

    def _new_catalog_table(self, identifier: Identifier) -> CatalogTable:
        database = database_entry(self.client, identifier.database)
        folder = "" if database is None else database_location(database, self.layout)
        location = f"{folder.rstrip('/')}/{identifier.table}" if folder else ""
        return self._catalog_table(identifier, location or table_folder(self.warehouse, identifier))

    def create_table(self, identifier: Identifier, schema: TableSchema) -> bool:
        """Create the table's first schema on the file system, then its entry in the metastore."""
        _check_name(str(identifier))
        if self._has_table(identifier):
            return False
        self.create_database(identifier.database)
        catalog_table = self._new_catalog_table(identifier)
        path, file_io = file_io_of(catalog_table.location, self.file_io_options)
        file_io.check_atomic_create(path)
        schemas = SchemaManager(file_io, path)
        is_new = self._environment(identifier).create_schema(schemas, schema)
        if not is_new and not is_unfinished(schemas, self.owner):
            if self._has_table(identifier):
                return False
            raise unknown_table_error(path, self.label)
        creation = TableCreation(getpass.getuser(), self.clock.now_ms() // 1000)
        table = new_table_entry(identifier, schema, catalog_table.location, self.layout, creation)
        return create_table_entry(self.client, identifier, table)

    def update(
        self, identifier: Identifier, schema: TableSchema, changes: Sequence[SchemaChange]
    ) -> None:
        """Alter the metastore's entry; do nothing if the table was dropped meanwhile."""
        table = table_entry(self.client, identifier)
        if table is None:
            return  # the table was dropped meanwhile
        unset_keys = {change.key for change in changes if isinstance(change, UnsetOption)}
        if SetTableComment(None) in changes:
            unset_keys.add(COMMENT)
        new_entry = follow_schema(table, schema, self.layout, unset_keys)
        alter_table_entry(self.client, identifier, new_entry, {"DO_NOT_UPDATE_STATS": "true"})

    def add_partitions(
        self, identifier: Identifier, partitions: Sequence[CatalogPartition]
    ) -> None:
        """Add the missing partitions; do nothing if the table was dropped meanwhile."""
        table = table_entry(self.client, identifier)
        if table is None:
            return  # the table was dropped meanwhile
        entries = new_partitions(table, partitions, self.layout, self.clock.now_ms() // 1000)
        request = Struct(
            {
                1: text(identifier.database),
                2: text(identifier.table),
                3: struct_list(entries),
                4: flag(True),  # existing partitions stay unchanged
                5: flag(False),  # and are not returned
            }
        )
        self.client.ask(_ADD_PARTITIONS, inner_struct(request))

    def _catalog_table(self, identifier: Identifier, location: str) -> CatalogTable:
        return CatalogTable(
            location=location,
            catalog_environment=self._environment(identifier),
            file_io_options=self.file_io_options,
        )

    def _environment(self, identifier: Identifier) -> LockedEnvironment:
        return LockedEnvironment(identifier, self, self.lock, partition_register=self)

    def _has_table(self, identifier: Identifier) -> bool:
        table = table_entry(self.client, identifier)
        if table is not None and not is_paimon_table(table):
            raise UsageError(
                f"{identifier} of the metastore is not a Paimon table",
                where=self.label,
                fix="give another name, or drop that table with the engine that created it",
            )
        return table is not None


def _check_name(name: str) -> None:
    if name != name.lower():
        raise UsageError(
            f"{name!r} has upper-case letters, which a Hive metastore does not keep",
            where="[catalog] metastore = hive",
            fix="name the database and the table in lower case",
        )
