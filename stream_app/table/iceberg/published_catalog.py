"""The catalog of Iceberg that a table's options name, if any. Its client is loaded at need.

Source: Paimon `iceberg/IcebergMetadataCommitterFactory.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Protocol

from stream_app.errors import StreamAppError, UnsupportedTableError
from stream_app.model.iceberg.metadata import IcebergMetadata
from stream_app.model.options.iceberg_options import METADATA_ICEBERG_STORAGE, REST_CATALOG
from stream_app.table.file_store_table import FileStoreTable

_CLIENTS = {REST_CATALOG: "stream_app.table.iceberg.rest_catalog"}
"""By ``metadata.iceberg.storage``: the module whose `open_catalog_table` talks to the catalog."""


@dataclass(frozen=True, slots=True)
class LeastNumbers:
    """The least numbers that a catalog takes of a new version.

    Attributes:
        sequence_number: of its snapshot.
        row_id: of the first row that it adds.
    """

    sequence_number: int = 0
    row_id: int = 0


ANY_NUMBERS = LeastNumbers()
"""Of a table that no catalog knows."""


class CatalogAheadError(StreamAppError):
    """A catalog has greater numbers than a version: another program has written, or files are lost.

    Attributes:
        least: what the version's numbers must be.
    """

    def __init__(self, least: LeastNumbers, *, where: str) -> None:
        super().__init__(
            f"the Iceberg catalog takes sequence numbers from {least.sequence_number} on, and rows "
            f"from {least.row_id} on",
            where=where,
            fix="nothing has to be done, unless this lasts: then keep other programs from writing",
        )
        self.least = least


class CatalogClient(Protocol):
    """A table in a catalog of Iceberg."""

    def bring_up_to(self, metadata: IcebergMetadata) -> None:
        """Make it the published version."""


@dataclass
class PublishedCatalog:
    """What a catalog of Iceberg knows of one table.

    Attributes:
        folder: of Iceberg's metadata.
    """

    table: FileStoreTable
    folder: str
    _newest: IcebergMetadata | None = None

    def bring_up_to(self, metadata: IcebergMetadata | None) -> None:
        """Give the catalog a version that it lacks; nothing where no catalog is asked for.

        Args:
            metadata: None: another writer has published meanwhile, and does it.

        Raises:
            UnsupportedTableError: PyIceberg is not installed, or a setting is missing.
            CatalogAheadError: the version needs greater numbers.
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
        opened: CatalogClient = client.open_catalog_table(self.table, self.folder)
        return opened
