"""Caches the index manifests that this process has read or written, and the key hashes that they
name.

An index manifest never changes, and its name is unique. A job's committer reads the one that it has
just written, and each task of an epoch the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from stream_app.errors import CorruptFileError
from stream_app.fileio.recent_files import RecentFiles
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True)
class BucketBasis:
    """The version by which an epoch's rows got their buckets: of an index, or of partitions.

    Only kinds of tables with an index of keys look at the manifests, which are None without one.

    Attributes:
        routed_on: the index manifest by whose hashes the rows got their buckets.
        written_on: the index manifest to whose hashes the epoch adds those of new keys.
        snapshot_id: the version in which keys find their rows, where these may be in any partition;
            0: it is empty. None: no older row counts.
        bucket_counts: partition → its number of buckets, where that is not the table's.
    """

    routed_on: str | None = None
    written_on: str | None = None
    snapshot_id: int | None = None
    bucket_counts: Mapping[bytes, int] = field(default_factory=dict)


NO_BASIS = BucketBasis()

_ENTRIES_MAX = 200_000
"""Entries that are kept, of all manifests; one has some hundred bytes."""


@dataclass(frozen=True)
class IndexManifest:
    """The index files of a snapshot."""

    path: str
    entries: tuple[IndexManifestEntry, ...]

    @cached_property
    def hashes(self) -> Mapping[bytes, Mapping[int, IndexManifestEntry]]:
        """Partition → bucket → the file with the hashes of its keys.

        Raises:
            CorruptFileError: a bucket has two.
        """
        by_partition: dict[bytes, dict[int, IndexManifestEntry]] = {}
        for entry in self.entries:
            if not entry.holds_hashes:
                continue
            buckets = by_partition.setdefault(entry.partition, {})
            if entry.bucket in buckets:
                files = (
                    f"{buckets[entry.bucket].index_file.file_name}, {entry.index_file.file_name}"
                )
                raise CorruptFileError(
                    f"bucket {entry.bucket} has two index files of hashes: {files}",
                    where=self.path,
                    fix="roll the table back to a tag",
                )
            buckets[entry.bucket] = entry
        return by_partition

    def counts(self, partition: bytes) -> dict[int, int]:
        """The number of hashes in the index of each bucket, for one partition."""
        buckets = self.hashes.get(partition, {})
        return {bucket: entry.index_file.row_count for bucket, entry in buckets.items()}

    @cached_property
    def hash_files(self) -> Mapping[BucketId, str]:
        """Bucket → name of the file with the hashes of its keys."""
        return {
            (partition, bucket): entry.index_file.file_name
            for partition, buckets in self.hashes.items()
            for bucket, entry in buckets.items()
        }


RECENT_MANIFESTS: RecentFiles[IndexManifest] = RecentFiles(
    _ENTRIES_MAX, lambda manifest: len(manifest.entries)
)
_NONE = IndexManifest("", ())


def index_manifest(table: FileStoreTable, name: str | None) -> IndexManifest:
    """The index files of a snapshot that names this index manifest; none without one.

    Raises:
        CorruptFileError: it is missing or unreadable.
    """
    if name is None:
        return _NONE
    path = table.paths.manifest(name)
    return RECENT_MANIFESTS.get(
        path, lambda: IndexManifest(path, tuple(table.manifests.read_index_manifest(name)))
    )


def write_index_manifest(table: FileStoreTable, entries: Sequence[IndexManifestEntry]) -> str:
    """Write a snapshot's index manifest, and return its name."""
    name = table.manifests.write_index_manifest(entries)
    path = table.paths.manifest(name)
    RECENT_MANIFESTS.put(path, IndexManifest(path, tuple(entries)))
    return name
