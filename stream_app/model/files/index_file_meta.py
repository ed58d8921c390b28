"""Describes an index file as index manifests do: deletion vectors, hashes, or a global index.

stream_app reads and writes deletion vectors, hashes and, by its own format, hidden changes of a
history. Each index manifest copies all other entries, because a missing entry loses its file.

Source: Paimon `index/IndexFileMeta.java`, `index/DeletionVectorMeta.java`,
`index/GlobalIndexMeta.java`, `manifest/IndexManifestEntry.java`. Bytes on disk:
`format.avro.index_manifest_avro`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.manifest_entry import FileKind

DELETION_VECTORS = "DELETION_VECTORS"
"""The index type of files that hold deletion vectors."""
HASH_INDEX = "HASH"
"""The index type of files that hold the hashes of a bucket's keys."""
HIDDEN_CHANGES = "HIDDEN_CHANGES"
"""The index type of files with changes that no version of a row shows.

Paimon does not have this type. Its engines keep such a file with the snapshot, and do not read it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorMeta:
    """The place of a data file's deletion vector in its index file.

    Attributes:
        offset: the offset of the first byte of its entry.
        length: the bytes of magic number and bitmap for 32-bit bitmaps, of the whole entry for
            64-bit.
        cardinality: the number of deleted rows; None if an old writer did not record it.
    """

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndexMeta:
    """The range of a global index, which stream_app only copies."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None
    index_meta: bytes | None
    source_meta: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileMeta:
    """One index file.

    Attributes:
        row_count: the number of deletion vectors or hashes in it; other types define their own
            count.
        deletion_vectors: the entries of a file of deletion vectors, in order; None for other types.
        unknown_fields: unknown fields of its entry, which a copy would lose.
    """

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors: tuple[DeletionVectorMeta, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndexMeta | None = None
    unknown_fields: tuple[str, ...] = ()

    @property
    def data_file_names(self) -> tuple[str, ...]:
        """The data files whose deletion vectors the file contains."""
        return tuple(meta.data_file_name for meta in self.deletion_vectors or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexManifestEntry:
    """An index file of a bucket; in a change, whether the file is added (ADD) or deleted (DELETE).

    Attributes:
        partition: serialized BinaryRow of the partition columns.
    """

    kind: FileKind
    partition: bytes
    bucket: int
    index_file: IndexFileMeta

    @property
    def bucket_id(self) -> BucketId:
        """The bucket of the file."""
        return BucketId(self.partition, self.bucket)

    @property
    def holds_deletion_vectors(self) -> bool:
        """Whether the file contains deletion vectors."""
        return self.index_file.index_type == DELETION_VECTORS

    @property
    def holds_hashes(self) -> bool:
        """Whether the file is the index of a bucket's keys."""
        return self.index_file.index_type == HASH_INDEX

    @property
    def holds_hidden_changes(self) -> bool:
        """Whether the file contains hidden changes of a bucket's history."""
        return self.index_file.index_type == HIDDEN_CHANGES

    def as_delete(self) -> IndexManifestEntry:
        """Return the change that deletes this file."""
        return replace(self, kind=FileKind.DELETE)
