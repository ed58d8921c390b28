"""Publishes a snapshot's deletion vectors for Iceberg's readers: a Puffin file for each index file.

Iceberg's readers expect Puffin files, which Paimon's index files are not. So a commit copies its
new index files. A copy lives as long as its index file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from stream_app.errors import UnsupportedTableError
from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.format.binary_row import deserialize_row
from stream_app.format.iceberg.puffin import SHIFT, puffin_of
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.iceberg_metadata import IcebergFile, VectorPlace
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True)
class VectorFiles:
    """The Puffin files of a table, which it writes and deletes."""

    table: FileStoreTable
    iceberg_files: IcebergFiles

    def vectors_by_key(self, snapshot: Snapshot) -> dict[str, IcebergFile]:
        """Return a snapshot's deletion vectors by key; file sizes are 0 until `write` sets them.

        Raises:
            UnsupportedTableError: an older writer did not record how many rows a vector deletes.
        """
        index = self.table.manifests.read_index_manifest(snapshot.index_manifest)
        entries = (entry for entry in index if entry.holds_deletion_vectors)
        return {file.key: file for entry in entries for file in self._vectors(entry)}

    def _vectors(self, entry: IndexManifestEntry) -> Iterator[IcebergFile]:
        """Yield the deletion vectors of an index file as Iceberg's delete files."""
        paths = self.table.paths
        folder = paths.bucket_folder(*entry.bucket_id)
        partition = deserialize_row(entry.partition, self.table.schema.partition_type.types)
        for meta in entry.index_file.deletion_vectors or ():
            if meta.cardinality is None:
                raise UnsupportedTableError(
                    "a deletion vector of an older writer lacks its number of rows, which "
                    "Iceberg's readers compare",
                    where=paths.index_file(*entry.bucket_id, entry.index_file),
                    fix="compact the table fully (stream-app compact --full)",
                )
            data_file = f"{folder}/{meta.data_file_name}"
            offset = meta.offset + SHIFT
            yield IcebergFile(
                path=self.iceberg_files.puffin_path(entry.index_file.file_name),
                size=0,
                partition=partition,
                row_count=meta.cardinality,
                vector=VectorPlace(data_file=data_file, offset=offset, length=meta.length),
            )

    def write(self, vectors: Mapping[str, IcebergFile]) -> dict[str, IcebergFile]:
        """Write the Puffin files of new vectors, and return the vectors with file sizes.

        Raises:
            UnsupportedTableError: a vector has 32 bits.
        """
        files_by_path: dict[str, list[IcebergFile]] = defaultdict(list)
        for file in vectors.values():
            files_by_path[file.path].append(file)
        written_files: dict[str, IcebergFile] = {}
        for path, file_vectors in files_by_path.items():
            name = self.iceberg_files.copied_index_file_name(path)
            index_file = self.table.file_io.read_bytes(f"{self.table.paths.index_folder}/{name}")
            data = puffin_of(index_file, file_vectors)
            self.iceberg_files.write(path, data)
            written_files |= {file.key: replace(file, size=len(data)) for file in file_vectors}
        return written_files

    def delete_unused_copies(self) -> None:
        """Delete the copies of index files that an expiry has deleted."""
        # The copies are listed first, because a copy is younger than its index file.
        copies = self.iceberg_files.puffin_paths()
        index_file_names = set(self.table.file_io.list_names(self.table.paths.index_folder))
        self.iceberg_files.delete(
            path
            for path in copies
            if self.iceberg_files.copied_index_file_name(path) not in index_file_names
        )
