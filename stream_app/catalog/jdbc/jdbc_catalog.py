"""Implements the catalog in a database, with a row for each table; names determine folders.

Four tables of the database are Paimon's, which its engines and stream_app share: ``paimon_tables``,
``paimon_database_properties``, ``paimon_table_properties`` and ``paimon_distributed_locks``
(`jdbc_lock`).

Source: Paimon `jdbc/JdbcCatalog.java`, `jdbc/JdbcUtils.java`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.catalog.catalog import Catalog, CatalogTable
from stream_app.catalog.catalog_environment import (
    LockedEnvironment,
    is_unfinished,
    properties_of,
    unknown_table_error,
)
from stream_app.catalog.file_system_catalog import table_folder
from stream_app.catalog.identifier import Identifier
from stream_app.catalog.jdbc.connection_pool import ConnectionPool, TakenError
from stream_app.catalog.jdbc.jdbc_lock import JdbcLock
from stream_app.fileio.store_registry import file_io_of
from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.schema.schema_changes import SchemaChange

_CREATE_TABLES = (
    """CREATE TABLE IF NOT EXISTS paimon_tables (
        catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL,
        table_name VARCHAR(255) NOT NULL,
        PRIMARY KEY (catalog_key, database_name, table_name))""",
    """CREATE TABLE IF NOT EXISTS paimon_database_properties (
        catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL,
        property_key VARCHAR(255), property_value VARCHAR(1000),
        PRIMARY KEY (catalog_key, database_name, property_key))""",
    """CREATE TABLE IF NOT EXISTS paimon_table_properties (
        catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL,
        table_name VARCHAR(255) NOT NULL,
        property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000),
        PRIMARY KEY (catalog_key, database_name, table_name, property_key))""",
)
_VALUE_LENGTH_MAX = 1000
"""The maximum length of an option's value in the database's copy, which omits longer ones.

Engines read options from the table's schema, which has all of them; the copy serves queries of the
database.
"""
_TABLE_CONDITION = "catalog_key = ? AND database_name = ? AND table_name = ?"
_DATABASE_CONDITION = "catalog_key = ? AND database_name = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcCatalog(Catalog):
    """The tables with one ``catalog-key`` in a database.

    Attributes:
        lock: the catalog's lock; None if ``lock.enabled`` is off.
        has_properties: whether the database has a copy of each table's options.
    """

    connection_pool: ConnectionPool
    catalog_key: str
    warehouse: str
    lock: JdbcLock | None
    has_properties: bool
    file_io_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    table_defaults: Mapping[str, str] = field(default_factory=dict)

    def create_tables(self, lock_key_max_length: int) -> None:
        """Create the catalog's missing tables in the database.

        Raises:
            StorageError, NoAccessError: as `Catalog`.
        """
        for statement in _CREATE_TABLES:
            self.connection_pool.create_table(statement)
        if self.lock is not None:
            self.lock.create_table(lock_key_max_length)

    @property
    def label(self) -> str:
        """See `Catalog.label`; the URL of the database, and the catalog's key there."""
        return f"{self.connection_pool.url}#{self.catalog_key}"

    def list_databases(self) -> list[str]:
        """See `Catalog.list_databases`; also those without tables."""
        rows = self.connection_pool.rows(
            "SELECT database_name FROM paimon_tables WHERE catalog_key = ?"
            " UNION SELECT database_name FROM paimon_database_properties WHERE catalog_key = ?",
            (self.catalog_key, self.catalog_key),
        )
        return sorted(name for (name,) in rows)

    def list_tables(self, database: str) -> list[str]:
        """See `Catalog.list_tables`."""
        rows = self.connection_pool.rows(
            f"SELECT table_name FROM paimon_tables WHERE {_DATABASE_CONDITION}",
            (self.catalog_key, database),
        )
        return sorted(name for (name,) in rows)

    def create_database(self, database: str) -> None:
        """Insert the database's properties, unless it exists or another process is faster."""
        if database in self.list_databases():
            return
        folder = table_folder(self.warehouse, Identifier(database, "")).rstrip("/")
        insert = "INSERT INTO paimon_database_properties VALUES (?, ?, ?, ?)"
        database_key = (self.catalog_key, database)
        try:
            self.connection_pool.change_all(
                [
                    (insert, (*database_key, "exists", "true")),
                    (insert, (*database_key, "location", folder)),
                ]
            )
        except TakenError:
            return  # another process has just created the database

    def table(self, identifier: Identifier) -> CatalogTable | None:
        """See `Catalog.table`."""
        return self._catalog_table(identifier) if self._has_table(identifier) else None

    def _catalog_table(self, identifier: Identifier) -> CatalogTable:
        return CatalogTable(
            location=table_folder(self.warehouse, identifier),
            catalog_environment=LockedEnvironment(identifier, self, self.lock),
            file_io_options=self.file_io_options,
        )

    def create_table(self, identifier: Identifier, schema: TableSchema) -> bool:
        """Create the table's first schema on the file system, then insert its row."""
        if self._has_table(identifier):
            return False
        self.create_database(identifier.database)
        catalog_table = self._catalog_table(identifier)
        path, file_io = file_io_of(catalog_table.location, self.file_io_options)
        file_io.check_atomic_create(path)
        schemas = SchemaManager(file_io, path)
        is_new = catalog_table.catalog_environment.publish_schema(schemas, schema, ()) is not None
        if not is_new and not is_unfinished(schemas, self.owner):
            if self._has_table(identifier):
                return False
            raise unknown_table_error(path, self.label)
        try:
            self.connection_pool.change(
                "INSERT INTO paimon_tables VALUES (?, ?, ?)", self._key(identifier)
            )
        except TakenError:
            return False
        return is_new

    def update(
        self, identifier: Identifier, schema: TableSchema, _changes: Sequence[SchemaChange]
    ) -> None:
        """Replace the table's properties in the database; they leave out long values."""
        if not self.has_properties:
            return
        key = self._key(identifier)
        insert = "INSERT INTO paimon_table_properties VALUES (?, ?, ?, ?, ?)"
        self.connection_pool.change_all(
            [
                (f"DELETE FROM paimon_table_properties WHERE {_TABLE_CONDITION}", key),
                *(
                    (insert, (*key, name, value))
                    for name, value in sorted(properties_of(schema).items())
                    if len(value) <= _VALUE_LENGTH_MAX
                ),
            ]
        )

    def _has_table(self, identifier: Identifier) -> bool:
        statement = f"SELECT 1 FROM paimon_tables WHERE {_TABLE_CONDITION}"
        return bool(self.connection_pool.rows(statement, self._key(identifier)))

    def _key(self, identifier: Identifier) -> tuple[str, str, str]:
        return self.catalog_key, identifier.database, identifier.table
