"""The files and deletion vectors of a snapshot, as Iceberg's."""

from __future__ import annotations

from collections.abc import Iterator

from stream_app.errors import UnsupportedTableError
from stream_app.format.binary_row import deserialize_row
from stream_app.format.iceberg.data_files import iceberg_file
from stream_app.model.iceberg import IcebergFile, VectorPlace
from stream_app.model.index_file_meta import IndexManifestEntry
from stream_app.model.snapshot import Snapshot
from stream_app.planning.iceberg.visible_files import VisibleChanges
from stream_app.table.file_store_table import FileStoreTable

_COMPACT = "compact the table whole (stream-app compact --full)"


def iceberg_files(
    table: FileStoreTable, changes: VisibleChanges, first_row_id: int | None
) -> dict[str, IcebergFile]:
    """The added data files by their path.

    Args:
        first_row_id: of the first file; None: the format has no such numbers.

    Raises:
        UnsupportedTableError: a file has rows that delete others.
    """
    schema_of, files = table.known_schemas(), dict[str, IcebergFile]()
    for path, entry in changes.added.items():
        if entry.file.delete_row_count:
            raise UnsupportedTableError(
                f"a file above level 0 has {entry.file.delete_row_count} rows that delete others, "
                "which Iceberg's readers would take for rows",
                where=path,
                fix=_COMPACT,
            )
        files[path] = iceberg_file(entry, path, schema_of(entry.file.schema_id), first_row_id)
        if first_row_id is not None:
            first_row_id += entry.file.row_count
    return files


def iceberg_vectors(table: FileStoreTable, snapshot: Snapshot) -> Iterator[IcebergFile]:
    """All deletion vectors of a snapshot.

    Raises:
        UnsupportedTableError: an older writer left out how many rows one deletes.
    """
    for entry in table.manifests.read_index_manifest(snapshot.index_manifest):
        if entry.holds_deletion_vectors:
            yield from _vectors_of(table, entry)


def _vectors_of(table: FileStoreTable, entry: IndexManifestEntry) -> Iterator[IcebergFile]:
    paths = table.paths
    folder = paths.bucket(entry.partition, entry.bucket)
    path = paths.index_file(entry.partition, entry.bucket, entry.index_file)
    partition = deserialize_row(entry.partition, table.schema.partition_type.types)
    for meta in entry.index_file.deletion_vectors or ():
        if meta.cardinality is None:
            raise UnsupportedTableError(
                "a deletion vector of an older writer lacks its number of rows, which Iceberg's "
                "readers compare",
                where=path,
                fix=_COMPACT,
            )
        data_file = f"{folder}/{meta.data_file_name}"
        yield IcebergFile(
            path=path,
            size=entry.index_file.file_size,
            partition=partition,
            row_count=meta.cardinality,
            vector=VectorPlace(data_file=data_file, offset=meta.offset, length=meta.length),
        )
