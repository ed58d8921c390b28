"""The port to a catalog: databases, tables by name, and where their folders are.

`registry` makes a catalog of its options. `table.opening` opens and creates tables in one.

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
    """Where a table of a catalog is.

    Attributes:
        location: the folder.
        file_io_options: of the file system, such as ``s3.endpoint``.
        option_source: where options that expire are had again; None: they stay.
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
        """The name that tables have as their owner; empty: a path is as good as a name."""
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
        """Where a table is; None: the catalog has no table of this name.

        A catalog that is a folder gives a table's place without looking: its opening tells.
        """

    @abstractmethod
    def create_table(self, identifier: Identifier, schema: TableSchema) -> bool:
        """Create a table, and its database; False: it exists.

        Raises:
            UsageError: something else has this name or this folder.
            StorageError: the table's file system cannot publish versions safely.
        """
