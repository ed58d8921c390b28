"""The port to a catalog, which knows databases, tables and the folders of tables.

`catalog_registry` makes a catalog from its options. `table.opening` opens and creates tables in
one.

Source: Paimon `catalog/Catalog.java`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.catalog.catalog_environment import CatalogEnvironment
from stream_app.catalog.identifier import Identifier
from stream_app.fileio.store import OptionSource
from stream_app.model.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """The location of a table in its catalog, and the access to its files.

    Attributes:
        location: the table's folder.
        file_io_options: options of the file system, such as ``s3.endpoint``.
        option_source: renews options that expire; None if they do not expire.
    """

    location: str
    catalog_environment: CatalogEnvironment
    file_io_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    option_source: OptionSource | None = None


class Catalog(ABC):
    """Databases and tables by their names.

    Each method may raise StorageError if the catalog does not answer, and NoAccessError if it
    refuses this user.
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """The catalog's name for messages, without secrets."""

    @property
    def owner(self) -> str:
        """The owner of new tables; empty if tables may also be opened by their paths."""
        return self.label

    @property
    @abstractmethod
    def table_defaults(self) -> Mapping[str, str]:
        """The default options of new tables."""

    @abstractmethod
    def list_databases(self) -> list[str]:
        """Return the names of all databases, ascending."""

    @abstractmethod
    def list_tables(self, database: str) -> list[str]:
        """Return the names of a database's tables, ascending; empty without the database."""

    @abstractmethod
    def create_database(self, database: str) -> None:
        """Create a database if it does not exist."""

    @abstractmethod
    def table(self, identifier: Identifier) -> CatalogTable | None:
        """Return the location of a table; None if the catalog has no table of this name.

        A file system catalog derives the location without a check. Only opening the table shows
        whether it exists.
        """

    @abstractmethod
    def create_table(self, identifier: Identifier, schema: TableSchema) -> bool:
        """Create a table and its database; False if the table exists.

        Raises:
            UsageError: something else has this name or this folder.
            StorageError: the table's file system cannot publish versions safely.
        """
