"""Implements the catalog that consists of folders: ``WAREHOUSE/DATABASE.db/TABLE``.

Source: Paimon `catalog/FileSystemCatalog.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.catalog.catalog import Catalog, CatalogTable
from stream_app.catalog.catalog_environment import NO_CATALOG
from stream_app.catalog.identifier import Identifier
from stream_app.fileio.store_registry import file_io_of
from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.model.schema.table_schema import TableSchema

_SUFFIX = ".db"


def table_folder(warehouse: str, identifier: Identifier) -> str:
    """Return the folder of a table in a warehouse."""
    return f"{warehouse.rstrip('/')}/{identifier.database}{_SUFFIX}/{identifier.table}"


@dataclass(frozen=True, slots=True)
class FileSystemCatalog(Catalog):
    """A catalog whose tables are folders; only the file system decides races."""

    warehouse: str
    file_io_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    table_defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The path of the warehouse."""
        return self.warehouse

    @property
    def owner(self) -> str:
        """Always empty, because tables can also be opened by their paths."""
        return ""

    def list_databases(self) -> list[str]:
        """Return the names of the folders that end in ``.db``, without this suffix."""
        warehouse, file_io = file_io_of(self.warehouse, self.file_io_options)
        return sorted(
            status.name.removesuffix(_SUFFIX)
            for status in file_io.list_status(warehouse)
            if status.is_folder and status.name.endswith(_SUFFIX)
        )

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the database's folders that have a schema."""
        warehouse, file_io = file_io_of(self.warehouse, self.file_io_options)
        folder = f"{warehouse}/{database}{_SUFFIX}"
        return sorted(
            status.name
            for status in file_io.list_status(folder)
            if status.is_folder and SchemaManager(file_io, f"{folder}/{status.name}").ids()
        )

    def create_database(self, database: str) -> None:
        """Do nothing, because the folder appears with its first table."""

    def table(self, identifier: Identifier) -> CatalogTable:
        """Return the path of a table, without a check that the table exists."""
        return CatalogTable(
            location=table_folder(self.warehouse, identifier),
            catalog_environment=NO_CATALOG,
            file_io_options=self.file_io_options,
        )

    def create_table(self, identifier: Identifier, schema: TableSchema) -> bool:
        """Create the first schema, if the file system can create a file atomically."""
        path, file_io = file_io_of(table_folder(self.warehouse, identifier), self.file_io_options)
        file_io.check_atomic_create(path)
        return SchemaManager(file_io, path).create(schema)
