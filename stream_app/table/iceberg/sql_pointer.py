"""The pointer to Iceberg's metadata in a database: a row of ``iceberg_tables``.

Iceberg's JDBC catalog and PyIceberg's SQL catalog share this table and that of namespaces.

Source: Iceberg `jdbc/JdbcUtil.java`; PyIceberg `catalog/sql.py`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from stream_app.catalog.jdbc.connection_pool import ConnectionPool, TakenError
from stream_app.errors import StorageError
from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.model.options.iceberg_options import (
    METADATA_ICEBERG_SQL_CATALOG_NAME,
    METADATA_ICEBERG_SQL_URI,
)
from stream_app.network.jdbc import MARIADB, MYSQL, POSTGRESQL, SQLITE, parse_jdbc_url
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.metadata_pointer import PointedTable, PointedVersion, name_in_catalog

_TABLES = (
    """CREATE TABLE IF NOT EXISTS iceberg_tables (
        catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,
        table_name VARCHAR(255) NOT NULL,
        metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
        iceberg_type VARCHAR(5),
        PRIMARY KEY (catalog_name, table_namespace, table_name))""",
    """CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
        catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,
        property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000),
        PRIMARY KEY (catalog_name, namespace, property_key))""",
)
_CATALOG_TABLE_QUERY = (
    "SELECT 1 FROM information_schema.tables WHERE table_name = 'iceberg_tables' AND "
)
_CATALOG_TABLE_QUERIES = {
    SQLITE.name: "SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'",
    POSTGRESQL.name: _CATALOG_TABLE_QUERY + "table_schema = ANY(current_schemas(false))",
    MYSQL.name: _CATALOG_TABLE_QUERY + "table_schema = DATABASE()",
    MARIADB.name: _CATALOG_TABLE_QUERY + "table_schema = DATABASE()",
}
"""The query for a catalog's table; a server also lists tables of its other databases or schemas."""
_OF_TABLE = "catalog_name = ? AND table_namespace = ? AND table_name = ?"


@dataclass(frozen=True, slots=True)
class SqlPointer:
    """One table of a JDBC catalog; see `PointerStore`."""

    connection_pool: ConnectionPool
    catalog: str
    database: str
    name: str

    @property
    def _key(self) -> tuple[str, str, str]:
        return self.catalog, self.database, self.name

    def pointer(self) -> str | None:
        """Return the pointer; None also if the database has no tables of an Iceberg catalog."""
        query = f"SELECT metadata_location FROM iceberg_tables WHERE {_OF_TABLE}"
        try:
            rows = self.connection_pool.rows(query, self._key)
        except StorageError:
            if self._has_catalog_tables():
                raise
            return None
        return (rows[0][0] or "") if rows else None

    def create(self, version: PointedVersion) -> bool:
        """Create the catalog's tables and the namespace if they are missing, then the row."""
        for statement in _TABLES:
            self.connection_pool.create_table(statement)
        with suppress(TakenError):  # the namespace exists
            self.connection_pool.change(
                "INSERT INTO iceberg_namespace_properties "
                "(catalog_name, namespace, property_key, property_value) VALUES (?, ?, ?, ?)",
                (self.catalog, self.database, "exists", "true"),
            )
        try:
            self.connection_pool.change(
                "INSERT INTO iceberg_tables "
                "(catalog_name, table_namespace, table_name, metadata_location) "
                "VALUES (?, ?, ?, ?)",
                (*self._key, version.path),
            )
        except TakenError:
            return False
        return True

    def _has_catalog_tables(self) -> bool:
        """Return whether the database already has a catalog's tables."""
        return bool(
            self.connection_pool.rows(_CATALOG_TABLE_QUERIES[self.connection_pool.url.driver.name])
        )

    def move(self, current_pointer: str, version: PointedVersion) -> bool:
        """Update the table's row on condition that it still has `current_pointer`."""
        changed_count = self.connection_pool.change(
            "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? "
            f"WHERE {_OF_TABLE} AND metadata_location = ?",
            (version.path, current_pointer, *self._key, current_pointer),
        )
        return changed_count == 1


def open_catalog_table(table: FileStoreTable, iceberg_files: IcebergFiles) -> PointedTable:
    """Open the table in the database that the table's options name.

    Raises:
        UsageError: the URL is wrong, or the driver is not installed.
    """
    options, (database, name) = table.options, name_in_catalog(table)
    url = parse_jdbc_url(options[METADATA_ICEBERG_SQL_URI], METADATA_ICEBERG_SQL_URI.key)
    catalog = options[METADATA_ICEBERG_SQL_CATALOG_NAME]
    pointer = SqlPointer(ConnectionPool(url, 1), catalog, database, name)
    return PointedTable(table, iceberg_files, pointer, f"{catalog}.{database}.{name} of {url}")
