"""The catalog of Iceberg that a table's options name, if any. Its client is loaded at need.

Source: Paimon `iceberg/IcebergMetadataCommitterFactory.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Protocol

from stream_app.errors import UnsupportedTableError
from stream_app.filestore.iceberg.iceberg_files import IcebergFiles
from stream_app.model.iceberg.metadata import IcebergMetadata
from stream_app.model.options.iceberg_options import (
    HIVE_CATALOG,
    METADATA_ICEBERG_STORAGE,
    REST_CATALOG,
)
from stream_app.table.file_store_table import FileStoreTable

_CLIENTS = {
    HIVE_CATALOG: "stream_app.table.iceberg.hive_pointer",
    REST_CATALOG: "stream_app.table.iceberg.rest_catalog",
}
"""By ``metadata.iceberg.storage``: the module whose `open_catalog_table` talks to the catalog."""

_POINTERS = (HIVE_CATALOG,)
"""Those that name a version's file; the others get its content."""


class CatalogClient(Protocol):
    """A table in a catalog of Iceberg."""

    def bring_up_to(self, metadata: IcebergMetadata) -> None:
        """Make it the published version."""


@dataclass
class PublishedCatalog:
    """What a catalog of Iceberg knows of one table."""

    table: FileStoreTable
    files: IcebergFiles
    _newest: IcebergMetadata | None = None

    def stays_from(self, paths: Sequence[str]) -> int:
        """From where on versions' files stay, oldest first: readers open the one that it names.

        Before the first success nobody knows which one that is, so all of them stay.
        """
        if self.table.options[METADATA_ICEBERG_STORAGE] not in _POINTERS:
            return len(paths)
        newest = self._newest and self.files.version_path(self._newest.version)
        return paths.index(newest) if newest in paths else 0

    def bring_up_to(self, metadata: IcebergMetadata | None) -> None:
        """Give the catalog a version that it lacks; nothing where no catalog is asked for.

        Args:
            metadata: None: another writer has published meanwhile, and does it.

        Raises:
            UnsupportedTableError: PyIceberg is not installed, or a setting is missing.
            StreamAppError, OSError: the catalog refuses it, or does not answer.
        """
        if metadata is None or metadata == self._newest or self._client is None:
            return
        self._client.bring_up_to(metadata)
        self._newest = metadata

    @cached_property
    def _client(self) -> CatalogClient | None:
        module = _CLIENTS.get(self.table.options[METADATA_ICEBERG_STORAGE])
        if module is None:
            return None
        try:
            client = import_module(module)
        except ImportError as error:
            raise UnsupportedTableError(
                f"PyIceberg, which talks to Iceberg's catalogs, is not installed ({error})",
                where=self.table.location,
                fix="pip install 'stream_app[iceberg]'",
            ) from error
        opened: CatalogClient = client.open_catalog_table(self.table, self.files)
        return opened
