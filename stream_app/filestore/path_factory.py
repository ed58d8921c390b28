"""Where every file of a table lies and what it is called.

All other modules ask here; nobody else puts a path together.

Source: Paimon `utils/FileStorePathFactory.java`, `io/DataFilePathFactory.java`.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from stream_app.format.binary_row import deserialize_row
from stream_app.format.partition_path import partition_path
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.data_type import RowType
from stream_app.model.index_file_meta import IndexFileMeta
from stream_app.model.table_schema import TableSchema

_POSTPONED = -2
"""The bucket of rows that another engine's compaction will give one; we only delete its files."""


@dataclass(frozen=True, slots=True)
class FileStorePathFactory:
    """Paths of one table.

    Attributes:
        root: the table's folder.
        default_name, legacy_name: the options ``partition.default-name``, ``.legacy-name``.
        index_in_bucket: ``index-file-in-data-file-dir``; we read such tables, but write none.
    """

    root: str
    partition_type: RowType
    default_name: str
    legacy_name: bool
    index_in_bucket: bool = False

    @classmethod
    def of(cls, root: str, schema: TableSchema) -> FileStorePathFactory:
        """The paths that a schema's options ask for."""
        options = schema.core_options
        return cls(
            root,
            schema.partition_type,
            options.text("partition.default-name"),
            options.boolean("partition.legacy-name"),
            schema.options.get("index-file-in-data-file-dir", "").lower() == "true",
        )

    def manifest(self, name: str) -> str:
        """A manifest, a manifest list or an index manifest."""
        return f"{self.root}/manifest/{name}"

    def statistics(self, name: str) -> str:
        """A file of statistics, which other engines write."""
        return f"{self.root}/statistics/{name}"

    def partition(self, partition: bytes) -> str:
        """A partition's folder name, ``dt=2024-01-01/hour=3``; empty when unpartitioned."""
        values = deserialize_row(partition, self.partition_type.types)
        return partition_path(
            values,
            self.partition_type,
            default_name=self.default_name,
            legacy_name=self.legacy_name,
        )

    def bucket(self, partition: bytes, bucket: int) -> str:
        """A bucket's folder."""
        middle = self.partition(partition)
        name = "postpone" if bucket == _POSTPONED else str(bucket)
        return f"{self.root}/{middle}{'/' if middle else ''}bucket-{name}"

    def data_file(self, partition: bytes, bucket: int, file: DataFileMeta) -> str:
        """A data or changelog file."""
        return file.external_path or f"{self.bucket(partition, bucket)}/{file.file_name}"

    def index_file(self, partition: bytes, bucket: int, file: IndexFileMeta) -> str:
        """A file of deletion vectors or another index."""
        folder = self.bucket(partition, bucket) if self.index_in_bucket else f"{self.root}/index"
        return file.external_path or f"{folder}/{file.file_name}"


def new_manifest_name() -> str:
    """A name that nobody used before."""
    return f"manifest-{uuid.uuid4()}-0"


def new_manifest_list_name() -> str:
    """A name that nobody used before."""
    return f"manifest-list-{uuid.uuid4()}-0"


def new_index_manifest_name() -> str:
    """A name that nobody used before."""
    return f"index-manifest-{uuid.uuid4()}-0"


def new_index_file_name() -> str:
    """A name that nobody used before."""
    return f"index-{uuid.uuid4()}-0"
