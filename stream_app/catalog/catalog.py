"""The port to a catalog, which knows databases, tables and the folders of tables.

`catalog_registry` makes a catalog of its options. `table.opening` opens and creates tables in one.

Source: Paimon `catalog/Catalog.java`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.catalog.environment import CatalogEnvironment
from stream_app.catalog.identifier import Identifier
from stream_app.fileio.store import OptionSource
from stream_app.model.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """The place of a table in its catalog, and the access to its files.

    Attributes:
        location: the table's folder.
        file_io_options: options of the file system, such as ``s3.endpoint``.
        option_source: renews options that expire; None: they do not expire.
    """

    location: str
    environment: CatalogEnvironment
    file_io_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    option_source: OptionSource | None = None


class Catalog(ABC):
    """Databases and tables by their names.

    Errors of every method: StorageError when the catalog does not answer, NoAccessError when it
    refuses this user.
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """The catalog for messages, without secrets."""

    @property
    def owner(self) -> str:
        """The owner that new tables get; empty if tables may also be opened by their paths."""
        return self.label

    @property
    @abstractmethod
    def table_defaults(self) -> Mapping[str, str]:
        """Options that a new table gets where it does not set them."""

    @abstractmethod
    def list_databases(self) -> list[str]:
        """The names of all databases, ascending."""

    @abstractmethod
    def list_tables(self, database: str) -> list[str]:
        """The names of a database's tables, ascending; empty when there is no such database."""

    @abstractmethod
    def create_database(self, database: str) -> None:
        """Create a database if there is none of this name."""

    @abstractmethod
    def table(self, identifier: Identifier) -> CatalogTable | None:
        """The folder of a table; None if the catalog has no table of this name.

        A catalog that is a folder names a table's place without a check. Only opening the table
        shows whether it exists.
        """

    @abstractmethod
    def create_table(self, identifier: Identifier, schema: TableSchema) -> bool:
        """Create a table, and its database; returns False if the table exists.

        Raises:
            UsageError: something else has this name or this folder.
            StorageError: the table's file system cannot publish versions safely.
        """
