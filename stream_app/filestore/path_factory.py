"""Builds the paths of a table's data, manifests, statistics and indexes.

The modules of `filestore.versions` build the paths of snapshots, schemas, tags, branches and
consumers. `filestore.iceberg_files` builds those of Iceberg's metadata.

Source: Paimon `utils/FileStorePathFactory.java`, `io/DataFilePathFactory.java`.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from stream_app.errors import UnsupportedTableError
from stream_app.fileio.store_registry import path_beside
from stream_app.format.binary_row import deserialize_row
from stream_app.format.partition_path import partition_spec, spec_path
from stream_app.model.bucket_id import POSTPONED
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.index_file_meta import IndexFileMeta
from stream_app.model.options.file_options import (
    DATA_FILE_PATH_DIRECTORY,
    INDEX_FILE_IN_DATA_FILE_DIR,
    PARTITION_DEFAULT_NAME,
    PARTITION_LEGACY_NAME,
)
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class FileStorePathFactory:
    """The paths of one table's files.

    Attributes:
        root: the table's folder.
        default_name, uses_legacy_names: the options ``partition.default-name``, ``.legacy-name``.
        has_index_in_bucket: ``index-file-in-data-file-dir``; stream_app reads such tables, but does
            not write them.
        data_folder: the folder of partitions below the root (``data-file.path-directory``).
    """

    root: str
    partition_type: RowType
    default_name: str
    uses_legacy_names: bool
    has_index_in_bucket: bool = False
    data_folder: str = ""

    @classmethod
    def of_schema(cls, root: str, schema: TableSchema) -> FileStorePathFactory:
        """Return the factory of the paths that a schema's options define.

        Raises:
            UnsupportedTableError: ``data-file.path-directory`` begins with a slash.
        """
        options = schema.core_options
        data_folder = options[DATA_FILE_PATH_DIRECTORY].rstrip("/")
        if data_folder.startswith("/"):  # Paimon treats it as a path of the whole file system
            raise UnsupportedTableError(
                f"data-file.path-directory = {data_folder} is outside of the table's folder",
                where=root,
                fix="use the engine that made the table",
            )
        return cls(
            root,
            schema.partition_type,
            options[PARTITION_DEFAULT_NAME],
            options[PARTITION_LEGACY_NAME],
            options[INDEX_FILE_IN_DATA_FILE_DIR],
            data_folder,
        )

    @property
    def data_root(self) -> str:
        """The folder of partitions, or of buckets in an unpartitioned table."""
        return f"{self.root}/{self.data_folder}".rstrip("/")

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, a manifest list or an index manifest."""
        return f"{self.root}/manifest/{name}"

    def statistics(self, name: str) -> str:
        """Return the path of a statistics file."""
        return f"{self.root}/statistics/{name}"

    def partition_path(self, partition: bytes) -> str:
        """Return a partition's relative path, ``dt=2024-01-01/hour=3``; empty if unpartitioned."""
        return spec_path(self.partition_spec(partition))

    def partition_spec(self, partition: bytes) -> dict[str, str]:
        """Return column → value as text of a partition."""
        values = deserialize_row(partition, self.partition_type.types)
        return partition_spec(
            values,
            self.partition_type,
            default_name=self.default_name,
            uses_legacy_names=self.uses_legacy_names,
        )

    def partition_folder(self, partition: bytes) -> str:
        """Return a partition's folder; `data_root` if unpartitioned."""
        return f"{self.data_root}/{self.partition_path(partition)}".rstrip("/")

    def bucket_folder(self, partition: bytes, bucket: int) -> str:
        """Return the folder of a bucket."""
        name = "postpone" if bucket == POSTPONED else str(bucket)
        return f"{self.partition_folder(partition)}/bucket-{name}"

    def data_file(self, partition: bytes, bucket: int, file: DataFileMeta) -> str:
        """Return the path of a data or changelog file.

        Raises:
            UnsupportedTableError: the file is on another file system than the table.
        """
        if file.external_path is not None:
            return path_beside(self.root, file.external_path)
        return f"{self.bucket_folder(partition, bucket)}/{file.file_name}"

    def extra_files(self, partition: bytes, bucket: int, file: DataFileMeta) -> tuple[str, ...]:
        """Return the paths of files that belong to a data file, such as its index.

        Raises:
            UnsupportedTableError: as `data_file`.
        """
        folder = self.data_file(partition, bucket, file).rpartition("/")[0]
        return tuple(f"{folder}/{name}" for name in file.extra_files)

    def files_of(self, partition: bytes, bucket: int, file: DataFileMeta) -> tuple[str, ...]:
        """Return the paths of files that belong to a data file, then its own.

        Raises:
            UnsupportedTableError: as `data_file`.
        """
        extra_files = self.extra_files(partition, bucket, file)
        return (*extra_files, self.data_file(partition, bucket, file))

    @property
    def index_folder(self) -> str:
        """The folder of index files, unless they are in the buckets."""
        return f"{self.root}/index"

    def index_file(self, partition: bytes, bucket: int, file: IndexFileMeta) -> str:
        """Return the path of a file of deletion vectors or of another index.

        Raises:
            UnsupportedTableError: the file is on another file system than the table.
        """
        if file.external_path is not None:
            return path_beside(self.root, file.external_path)
        return f"{self.index_folder_of(partition, bucket)}/{file.file_name}"

    def index_folder_of(self, partition: bytes, bucket: int) -> str:
        """Return the folder of a bucket's new index files."""
        return (
            self.bucket_folder(partition, bucket) if self.has_index_in_bucket else self.index_folder
        )


def new_name(kind: str) -> str:
    """Return a fresh name of a manifest, manifest-list, index-manifest or index."""
    return f"{kind}-{uuid.uuid4()}-0"
