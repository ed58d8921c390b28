"""Caches the index manifests that this process has read or written, and their key hashes.

An index manifest never changes, and its name is unique. A job's committer reads the index manifest
that it has just written, and all tasks of an epoch read the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from stream_app.errors import CorruptFileError
from stream_app.fileio.recent_files import RecentFiles
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.table.file_store_table import FileStoreTable

_ENTRIES_MAX = 200_000
"""Entries that the cache keeps, of all manifests; an entry has a few hundred bytes."""
RECENT_MANIFESTS: RecentFiles[IndexManifest] = RecentFiles(
    _ENTRIES_MAX, lambda manifest: len(manifest.entries)
)


@dataclass(frozen=True)
class IndexManifest:
    """The index files of a snapshot."""

    path: str
    entries: tuple[IndexManifestEntry, ...]

    @cached_property
    def hash_entries(self) -> Mapping[bytes, Mapping[int, IndexManifestEntry]]:
        """Partition → bucket → the file with the hashes of its keys.

        Raises:
            CorruptFileError: a bucket has two such files.
        """
        by_partition: dict[bytes, dict[int, IndexManifestEntry]] = {}
        for entry in self.entries:
            if not entry.holds_hashes:
                continue
            buckets = by_partition.setdefault(entry.partition, {})
            if entry.bucket in buckets:
                other_name = buckets[entry.bucket].index_file.file_name
                raise CorruptFileError(
                    f"bucket {entry.bucket} has two index files of hashes: {other_name}, "
                    f"{entry.index_file.file_name}",
                    where=self.path,
                    fix="roll the table back to a tag",
                )
            buckets[entry.bucket] = entry
        return by_partition

    def hash_counts(self, partition: bytes) -> dict[int, int]:
        """Return the number of hashes in the index of each bucket of a partition."""
        buckets = self.hash_entries.get(partition, {})
        return {bucket: entry.index_file.row_count for bucket, entry in buckets.items()}

    @cached_property
    def hash_file_names(self) -> Mapping[BucketId, str]:
        """Bucket → the name of the file with the hashes of its keys."""
        return {
            BucketId(partition, bucket): entry.index_file.file_name
            for partition, buckets in self.hash_entries.items()
            for bucket, entry in buckets.items()
        }


_NO_FILES = IndexManifest("", ())


def index_manifest(table: FileStoreTable, name: str | None) -> IndexManifest:
    """Read an index manifest, perhaps from the cache; empty without a name.

    Raises:
        CorruptFileError: the index manifest is missing or unreadable.
    """
    if name is None:
        return _NO_FILES
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
