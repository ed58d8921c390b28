"""A table in an Iceberg catalog that stores a pointer: the path of the latest metadata file.

Hive's metastore, Glue and databases are such catalogs (`PointerStore`). The pointer names the
version file that `publisher` has written, so one mechanism serves commits, tags, expiry and
rollbacks. A pointer moves by compare-and-set, only forward, and only within the table's own
metadata folder. A pointer elsewhere means that another program has made the table.

Source: Paimon `iceberg/IcebergHiveMetadataCommitter.java`; Iceberg
`BaseMetastoreTableOperations.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stream_app.errors import StreamAppError
from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.model.iceberg_metadata import IcebergMetadata
from stream_app.model.options.iceberg_options import (
    METADATA_ICEBERG_DATABASE,
    METADATA_ICEBERG_TABLE,
)
from stream_app.model.schema.table_schema import TableSchema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.published_catalog import CatalogState

_ATTEMPTS_MAX = 3
"""The number of tries to move a pointer; each starts from the pointer of another writer."""
LOCATION, PREVIOUS_LOCATION = "metadata_location", "previous_metadata_location"
"""The parameters in which all such catalogs store the pointer and the previous one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointedVersion:
    """The facts about a version that a catalog stores.

    Attributes:
        path: the path of the version's file.
        home: the parent of the metadata folder.
        schema: the schema of its latest snapshot.
    """

    path: str
    home: str
    schema: TableSchema
    table_uuid: str

    def parameters(self, current_pointer: str | None) -> dict[str, str]:
        """Return the table's parameters for Hive and Glue.

        Args:
            current_pointer: the current pointer; None if there is none.
        """
        previous_parameters = (
            {} if current_pointer is None else {PREVIOUS_LOCATION: current_pointer}
        )
        return {
            "EXTERNAL": "TRUE",
            "table_type": "ICEBERG",
            "uuid": self.table_uuid,
            LOCATION: self.path,
            **previous_parameters,
        }


class PointerStore(Protocol):
    """One table's pointer in a catalog. Each method raises StreamAppError or OSError."""

    def pointer(self) -> str | None:
        """Return the pointer; None without a table, empty if the table is not an Iceberg table."""

    def create(self, version: PointedVersion) -> bool:
        """Create the table and its database; False if another process created it first."""

    def move(self, current_pointer: str, version: PointedVersion) -> bool:
        """Point to a version; False if the pointer no longer equals `current_pointer`."""


@dataclass(frozen=True, slots=True)
class PointedTable:
    """The table of one pointer, which it moves.

    Attributes:
        name: the table's name in the catalog, for messages.
    """

    table: FileStoreTable
    iceberg_files: IcebergFiles
    store: PointerStore
    name: str

    def state(self) -> CatalogState | None:
        """See `CatalogClient.state`.

        Raises:
            StreamAppError, OSError: as `bring_up_to`.
        """
        pointed_path = self.store.pointer()
        if pointed_path is None:
            return None
        metadata = self.iceberg_files.read_version(self._pointed_version(pointed_path))
        previous_paths = () if metadata is None else tuple(path for path, _ in metadata.older_files)
        snapshot_id = None if metadata is None else metadata.current_snapshot.snapshot_id
        return CatalogState((pointed_path, *reversed(previous_paths)), snapshot_id)

    def bring_up_to(self, metadata: IcebergMetadata) -> None:
        """Move the catalog's pointer to a version, unless it points to a later one.

        Raises:
            StreamAppError, OSError: the catalog refuses the version, has another table of this
                name, or does not answer. Or other writers win every race.
        """
        version = self.version(metadata)
        for _ in range(_ATTEMPTS_MAX):
            pointed_path = self.store.pointer()
            if pointed_path is None:
                has_moved = self.store.create(version)
            elif pointed_path == version.path or self._is_ahead(pointed_path, metadata.version):
                return
            else:
                has_moved = self.store.move(pointed_path, version)
            if has_moved:
                return
        raise StreamAppError(
            f"other writers have moved the catalog's pointer {_ATTEMPTS_MAX} times meanwhile",
            where=self.name,
            fix="do nothing; if this lasts, keep other programs from writing",
        )

    def version(self, metadata: IcebergMetadata) -> PointedVersion:
        """Return the version as the catalog stores it."""
        return PointedVersion(
            path=self.iceberg_files.version_path(metadata.version),
            home=self.iceberg_files.folder.rpartition("/")[0],
            schema=self.table.known_schemas()(metadata.current_snapshot.schema_id),
            table_uuid=metadata.table_uuid,
        )

    def _pointed_version(self, pointed_path: str) -> int:
        """Return the number of the version to which the catalog points.

        Raises:
            StreamAppError: the catalog points to another table's metadata.
        """
        pointed_version = self.iceberg_files.version_at(pointed_path)
        if pointed_version is None:
            raise another_table_error(self.name)
        return pointed_version

    def _is_ahead(self, pointed_path: str, version: int) -> bool:
        """Return whether another writer has published a later version in the meantime."""
        pointed_version = self._pointed_version(pointed_path)
        # A recreated table counts its versions from the start.
        return (
            pointed_version > version
            and self.iceberg_files.read_version(pointed_version) is not None
        )


def another_table_error(name: str) -> StreamAppError:
    """Return the error for a name that another program's table has taken."""
    return StreamAppError(
        "the Iceberg catalog has another table of this name",
        where=name,
        fix="drop it there, or choose another name by "
        f"{METADATA_ICEBERG_DATABASE.key} and {METADATA_ICEBERG_TABLE.key}",
    )


def name_in_catalog(table: FileStoreTable) -> tuple[str, str]:
    """Return the table's database and name in the Iceberg catalog."""
    options, (database, _, name) = table.options, table.label.rpartition(".")
    return options[METADATA_ICEBERG_DATABASE] or database, options[METADATA_ICEBERG_TABLE] or name
