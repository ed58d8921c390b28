"""Finds orphans in Iceberg's metadata folder: files of crashes that no live version names.

Live versions are the latest one, the older ones that it keeps, and the one that a catalog names. If
a catalog does not answer, all metadata files are kept, because it may name any of them. A REST
catalog registers a metadata file under a separate name. The search ignores files whose names
stream_app does not give.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from stream_app.errors import StreamAppError
from stream_app.filestore.iceberg_files import IcebergFiles, is_metadata_file
from stream_app.model.iceberg_metadata import IcebergMetadata
from stream_app.model.options.iceberg_options import DISABLED, METADATA_ICEBERG_STORAGE
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.published_catalog import PublishedCatalog
from stream_app.table.iceberg.version_history import manifests_of

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IcebergMetadataFiles:
    """The files of one table's metadata for Iceberg, and which of them are in use."""

    table: FileStoreTable
    iceberg_files: IcebergFiles

    @classmethod
    def of_table(cls, table: FileStoreTable) -> IcebergMetadataFiles | None:
        """Return the files of a table; None if the table is not published.

        Raises:
            UnsupportedTableError: the table's location has no folder for Iceberg's metadata.
        """
        if table.options[METADATA_ICEBERG_STORAGE] == DISABLED:
            return None
        return cls(table, IcebergFiles.of_table(table.file_io, table.location, table.options))

    def used_names(self, names: Collection[str]) -> set[str]:
        """Return the names of the files that must stay, which may include names not in `names`.

        Raises:
            CorruptFileError: a version cannot be read, so its files cannot be determined.
        """
        version = self.iceberg_files.latest_version()
        latest_metadata = None if version is None else self.iceberg_files.read_version(version)
        if latest_metadata is None:
            return set(names)  # the next commit reads the folder
        used_names = {_name(path) for path in self._used_paths(latest_metadata)}
        index_file_names = self.table.file_io.list_names(self.table.paths.index_folder)
        used_names |= {
            _name(self.iceberg_files.puffin_path(index_file_name))
            for index_file_name in index_file_names
        }
        return used_names | self._names_in_catalog(names)

    def _used_paths(self, latest_metadata: IcebergMetadata) -> Iterator[str]:
        """Yield the paths of the live versions' files, and of the files that they name."""
        older_paths = [path for path, _ in latest_metadata.older_files]
        yield from (self.iceberg_files.version_path(latest_metadata.version), *older_paths)
        version_numbers = [self.iceberg_files.version_at(path) for path in older_paths]
        older_versions = [
            self.iceberg_files.read_version(version_number)
            for version_number in version_numbers
            if version_number is not None
        ]
        versions = [
            latest_metadata,
            *(version for version in older_versions if version is not None),
        ]
        lists = {snapshot.manifest_list for version in versions for snapshot in version.snapshots}
        for path in lists:
            yield path
            yield from (manifest.path for manifest in manifests_of(self.iceberg_files, path))

    def _names_in_catalog(self, names: Collection[str]) -> set[str]:
        try:
            state = PublishedCatalog(self.table, self.iceberg_files).state()
        except (StreamAppError, OSError) as error:
            _LOG.warning(
                "metadata files of Iceberg stay, because a catalog may name them: %s", error
            )
            return set(filter(is_metadata_file, names))
        return set() if state is None else set(map(_name, state.metadata_paths))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
