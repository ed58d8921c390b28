"""Reads and writes files of deletion vectors.

The index manifest lists a snapshot's index files (`filestore.manifests.manifest_files`).
`planning.commit.index_changes` decides which are rewritten.

Source: Paimon `deletionvectors/DeletionVectorsIndexFile.java`,
`deletionvectors/DeletionVectorIndexFileWriter.java`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from stream_app.errors import RESTORE_FIX, CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.path_factory import FileStorePathFactory, new_name
from stream_app.format.deletion_vector import (
    DeletionVector,
    decode_deletion_vectors,
    encode_deletion_vector_files,
)
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.index_file_meta import (
    DELETION_VECTORS,
    DeletionVectorMeta,
    IndexFileMeta,
    IndexManifestEntry,
)
from stream_app.model.files.manifest_entry import FileKind

BucketVectors = dict[str, DeletionVector]
"""Deletion vectors by the name of their data file."""


@dataclass(frozen=True, slots=True)
class DeletionVectorFiles:
    """The files of deletion vectors.

    Attributes:
        target_size: the bytes beyond which a new file begins
            (``deletion-vector.index-file.target-size``).
    """

    file_io: FileIO
    paths: FileStorePathFactory
    target_size: int

    def read_buckets(self, entries: Iterable[IndexManifestEntry]) -> dict[BucketId, BucketVectors]:
        """Return all deletion vectors by bucket, without index files of other types.

        Raises:
            CorruptFileError: as `read_bucket`.
        """
        entries_by_bucket: dict[BucketId, list[IndexManifestEntry]] = defaultdict(list)
        for entry in entries:
            if entry.holds_deletion_vectors:
                entries_by_bucket[entry.bucket_id].append(entry)
        return {
            bucket_id: self.read_bucket(bucket_entries)
            for bucket_id, bucket_entries in entries_by_bucket.items()
        }

    def read_bucket(
        self, entries: Iterable[IndexManifestEntry], data_files: Collection[str] | None = None
    ) -> BucketVectors:
        """Return the vectors of one bucket's files of deletion vectors.

        Args:
            data_files: the names of the data files whose vectors are read; None: all.

        Raises:
            CorruptFileError: as `read`, or a data file has two vectors.
        """
        vectors: BucketVectors = {}
        for entry in entries:
            entry_vectors = self.read(entry, data_files)
            if duplicates := sorted(vectors.keys() & entry_vectors.keys()):
                raise CorruptFileError(
                    f"data file {duplicates[0]} has deletion vectors in two index files",
                    where=self._path(entry),
                    fix="roll the table back to a tag",
                )
            vectors |= entry_vectors
        return vectors

    def read(
        self, entry: IndexManifestEntry, data_files: Collection[str] | None = None
    ) -> BucketVectors:
        """Return the vectors of one file, for all of its data files or some.

        Raises:
            CorruptFileError: the file is missing, unreadable, or its size differs from its
                metadata.
        """
        path = self._path(entry)
        try:
            data = self.file_io.read_bytes(path)
        except FileNotFoundError:
            raise CorruptFileError(
                "a file of deletion vectors that an index manifest names is missing",
                where=path,
                fix="if the snapshot has just expired, read a newer one; else restore the file",
            ) from None
        if len(data) != entry.index_file.file_size:
            raise CorruptFileError(
                f"a file of deletion vectors has {len(data)} bytes, "
                f"its index manifest says {entry.index_file.file_size}",
                where=path,
                fix=RESTORE_FIX,
            )
        try:
            return decode_deletion_vectors(data, list(_choose_vectors(entry, data_files)))
        except CorruptFileError as error:
            raise CorruptFileError(error.problem, where=path, fix=error.fix) from error

    def write(
        self,
        partition: bytes,
        bucket: int,
        vectors: Mapping[str, DeletionVector],
        *,
        shares_file: bool,
    ) -> list[IndexManifestEntry]:
        """Write the vectors of one bucket, and return the ADD entries of the new files.

        Args:
            shares_file: whether to write one file of any size. A real bucket has only one file, but
                a partition of an append table with ``bucket = -1`` may have several.
        """
        target_size = None if shares_file else self.target_size
        entries = []
        for data, metas in encode_deletion_vector_files(vectors, target_size=target_size):
            index_file = IndexFileMeta(
                index_type=DELETION_VECTORS,
                file_name=new_name("index"),
                file_size=len(data),
                row_count=len(metas),
                deletion_vectors=metas,
            )
            entry = IndexManifestEntry(
                kind=FileKind.ADD, partition=partition, bucket=bucket, index_file=index_file
            )
            self.file_io.write_bytes(self._path(entry), data)
            entries.append(entry)
        return entries

    def delete(self, entry: IndexManifestEntry) -> None:
        """Delete a file that no snapshot names."""
        self.file_io.delete(self._path(entry))

    def _path(self, entry: IndexManifestEntry) -> str:
        return self.paths.index_file(*entry.bucket_id, entry.index_file)


def _choose_vectors(
    entry: IndexManifestEntry, data_files: Collection[str] | None
) -> Iterator[DeletionVectorMeta]:
    for meta in entry.index_file.deletion_vectors or ():
        if data_files is None or meta.data_file_name in data_files:
            yield meta
