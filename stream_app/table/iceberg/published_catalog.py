"""Finds the Iceberg catalog that a table's options name, and loads its client on first use.

Source: Paimon `iceberg/IcebergMetadataCommitterFactory.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Protocol

from stream_app.errors import UnsupportedTableError
from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.model.iceberg_metadata import IcebergMetadata
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.iceberg_options import (
    DISABLED,
    GLUE_CLIENT,
    HIVE_CATALOG,
    METADATA_ICEBERG_HIVE_CLIENT_CLASS,
    METADATA_ICEBERG_SQL_URI,
    METADATA_ICEBERG_STORAGE,
    REST_CATALOG,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.version import install_command


@dataclass(frozen=True, slots=True)
class CatalogKind:
    """A kind of catalog.

    Attributes:
        module: the module whose `open_catalog_table` opens a table of the catalog.
        extra: the extra of stream_app that installs the module's libraries.
        names_files: whether the catalog stores the path of a version's file. Other catalogs receive
            its content.
    """

    module: str
    extra: str
    names_files: bool = True


_REST = CatalogKind("stream_app.table.iceberg.rest_publication", "iceberg", names_files=False)
_HIVE = CatalogKind("stream_app.table.iceberg.hive_pointer", "hive")
_GLUE = CatalogKind("stream_app.table.iceberg.glue_pointer", "aws")
_SQL = CatalogKind("stream_app.table.iceberg.sql_pointer", "jdbc")


def catalog_kind(options: CoreOptions) -> CatalogKind | None:
    """Return the kind of catalog that receives the versions; None if only files are written."""
    storage = options[METADATA_ICEBERG_STORAGE]
    if storage == REST_CATALOG:
        return _REST
    if storage == HIVE_CATALOG:
        is_glue = options[METADATA_ICEBERG_HIVE_CLIENT_CLASS] == GLUE_CLIENT
        return _GLUE if is_glue else _HIVE
    return _SQL if options[METADATA_ICEBERG_SQL_URI] and storage != DISABLED else None


@dataclass(frozen=True, slots=True)
class CatalogState:
    """The state of a table in a catalog.

    Attributes:
        metadata_paths: the paths of the metadata files that the catalog names, the newest first.
        snapshot_id: the number of the latest snapshot there; None if the newest file is missing.
    """

    metadata_paths: tuple[str, ...]
    snapshot_id: int | None


class CatalogClient(Protocol):
    """A table in an Iceberg catalog."""

    def state(self) -> CatalogState | None:
        """Return the table's state in the catalog; None if the catalog lacks the table."""

    def bring_up_to(self, metadata: IcebergMetadata) -> None:
        """Make a version the catalog's current one."""


@dataclass
class PublishedCatalog:
    """A table's entry in the Iceberg catalog that its options name, if any."""

    table: FileStoreTable
    iceberg_files: IcebergFiles
    _latest_metadata: IcebergMetadata | None = field(init=False, default=None)

    def state(self) -> CatalogState | None:
        """Return the table's state in the catalog; None without a catalog or an entry.

        Raises:
            StreamAppError, OSError: as `bring_up_to`.
        """
        return None if self._client is None else self._client.state()

    def first_needed_index(self, paths: Sequence[str]) -> int:
        """Return the index of the first of `paths`, oldest first, that must stay.

        Readers open the version file that the catalog names. Until the first success it is unknown,
        so all files stay.
        """
        if self._kind is None or not self._kind.names_files:
            return len(paths)
        latest_path = self._latest_metadata and self.iceberg_files.version_path(
            self._latest_metadata.version
        )
        return paths.index(latest_path) if latest_path in paths else 0

    def bring_up_to(self, metadata: IcebergMetadata | None) -> None:
        """Publish a version to the catalog unless it has it; does nothing without a catalog.

        Args:
            metadata: the version; None if another writer has published, and updates the catalog.

        Raises:
            UnsupportedTableError: a library is not installed, or a setting is missing.
            StreamAppError, OSError: the catalog refuses the version, or does not answer.
        """
        if metadata is None or metadata == self._latest_metadata or self._client is None:
            return
        self._client.bring_up_to(metadata)
        self._latest_metadata = metadata

    @property
    def _kind(self) -> CatalogKind | None:
        return catalog_kind(self.table.options)

    @cached_property
    def _client(self) -> CatalogClient | None:
        """Open the catalog that the options name, and return its client; None without a catalog."""
        kind, options = self._kind, self.table.options
        if kind is None:
            return None
        if kind is not _SQL and options[METADATA_ICEBERG_SQL_URI]:
            raise UnsupportedTableError(
                f"{METADATA_ICEBERG_STORAGE.key} = {options[METADATA_ICEBERG_STORAGE]} and "
                f"{METADATA_ICEBERG_SQL_URI.key} name two Iceberg catalogs",
                where=self.table.location,
                fix=f"take one out, or set {METADATA_ICEBERG_STORAGE.key} = hadoop-catalog",
            )
        try:
            module = import_module(kind.module)
        except ImportError as error:
            raise UnsupportedTableError(
                f"a library that talks to the Iceberg catalog is not installed ({error})",
                where=self.table.location,
                fix=install_command(kind.extra),
            ) from error
        client: CatalogClient = module.open_catalog_table(self.table, self.iceberg_files)
        return client
