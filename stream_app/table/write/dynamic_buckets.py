"""Assigns buckets by an index of hashes, for ``bucket = -1`` and a key with all partition columns.

Stage 1 of an epoch assigns buckets (`DynamicBucketAssigner`), and stage 2 adds new keys to the
index (`HashIndexWriter`). One shuffle between the stages suffices, because a task can choose a new
key's bucket on its own (`planning.buckets.open_buckets`).

Source: Paimon `index/HashBucketAssigner.java`, `index/DynamicBucketIndexMaintainer.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.fileio.recent_files import RecentFiles
from stream_app.format.bucket_hash import hash_columns
from stream_app.format.hash_index import Hashes
from stream_app.mergetree.write.row_kinds import accepted_mask, ignored_kinds, with_kinds_of
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.options.merge_options import ROWKIND_FIELD
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.buckets.open_buckets import DynamicBucketRules, open_buckets
from stream_app.process.local_disk import scratch_file
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.index_manifests import IndexManifest, index_manifest
from stream_app.table.write.bucket_assigner import BucketRows, indices_by_partition, rows_by_bucket

_HASHES_MAX = 4 << 20
"""The number of hashes that a bucket's index collects before it drops repeated ones."""
_MAPPED_BYTES_MAX = 1 << 20
"""The size in bytes from which an array is mapped from disk."""
_CACHED_BYTES_MAX = 2 << 30
"""Bytes of arrays that a worker caches: 250 full buckets of two million keys."""


class HashCache:
    """A cache of the last used files' sorted hashes, by path. Thread safe.

    A file of hashes never changes. Large ones are mapped into memory from temporary files on local
    disk, so that the operating system may drop their pages.
    """

    def __init__(
        self, cached_bytes_max: int = _CACHED_BYTES_MAX, mapped_bytes_max: int = _MAPPED_BYTES_MAX
    ) -> None:
        self._recent: RecentFiles[Hashes] = RecentFiles(
            cached_bytes_max, lambda hashes: hashes.nbytes
        )
        self._mapped_bytes_max = mapped_bytes_max

    def read(self, table: FileStoreTable, entry: IndexManifestEntry) -> Hashes:
        """Return the hashes of a file in ascending order: int32 [n].

        Raises:
            CorruptFileError: the file is missing or has another size.
        """
        path = table.paths.index_file(entry.partition, entry.bucket, entry.index_file)
        return self._recent.get(path, lambda: self._map_to_disk(table.hash_index_files.read(entry)))

    def clear(self) -> None:
        """Empty the cache."""
        self._recent.clear()

    def _map_to_disk(self, hashes: Hashes) -> Hashes:
        if hashes.nbytes < self._mapped_bytes_max:
            return hashes
        with scratch_file("hashes") as file:
            hashes.tofile(file)
            file.flush()
            return np.memmap(file, np.int32, "r")  # the mapping outlives the file's name


HASH_CACHE = HashCache()


def known_buckets(
    table: FileStoreTable,
    index_entries: Mapping[int, IndexManifestEntry],
    hashes: Hashes,
    cache: HashCache = HASH_CACHE,
) -> npt.NDArray[np.int64]:
    """Return the bucket of each hash: int64 [n], -1 for an unknown hash.

    Args:
        index_entries: bucket → the file with the hashes of its keys, of one partition.
        hashes: int32 [n], distinct and ascending.
    """
    buckets = np.full(len(hashes), -1, np.int64)
    unknown_indices = np.arange(len(hashes))
    for bucket, entry in sorted(index_entries.items()):
        if not len(unknown_indices):
            break
        is_known = _is_in(hashes[unknown_indices], cache.read(table, entry))
        buckets[unknown_indices[is_known]] = bucket
        unknown_indices = unknown_indices[~is_known]
    return buckets


def added_hashes(
    table: FileStoreTable,
    old_entry: IndexManifestEntry | None,
    hashes: Hashes,
    cache: HashCache = HASH_CACHE,
) -> Hashes | None:
    """Return a bucket's old and new hashes, ascending: int32 [m]; None if all are old.

    Args:
        old_entry: the bucket's file; None without one.
        hashes: int32 [n], distinct and ascending.
    """
    if old_entry is None:
        return hashes if len(hashes) else None
    old_hashes = cache.read(table, old_entry)
    new_hashes = hashes[~_is_in(hashes, old_hashes)]
    if not len(new_hashes):
        return None
    all_hashes = np.concatenate((old_hashes, new_hashes))
    all_hashes.sort(kind="stable")  # the stable sort merges two ascending runs
    return all_hashes


def _is_in(hashes: Hashes, other_hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Return whether each hash is in the other array; both arrays are ascending."""
    indices = np.searchsorted(other_hashes, hashes)
    indices[indices == len(other_hashes)] = 0
    if not len(other_hashes):
        return np.zeros(len(hashes), np.bool_)
    is_known: npt.NDArray[np.bool_] = other_hashes[indices] == hashes
    return is_known


@dataclass(frozen=True, slots=True)
class DynamicBucketAssigner:
    """The assigner for a hash index: a key's indexed bucket, or an open one for a new key.

    Implements `BucketAssigner`.

    Attributes:
        index_manifest_name: the index manifest with the known hashes; None if no key has a bucket
            yet.
    """

    table: FileStoreTable
    index_manifest_name: str | None

    @property
    def bucket_count(self) -> int:
        """See `BucketAssigner.bucket_count`; that of the partition with the most buckets."""
        partitions = self._manifest().hash_entries.values()
        return max((len(buckets) for buckets in partitions), default=self._rules().width)

    @property
    def keeps_order(self) -> bool:
        """Always True, because one writer numbers the rows of a bucket."""
        return True

    def assign(self, rows: pa.RecordBatch) -> Iterator[BucketRows]:
        """See `BucketAssigner.assign`.

        Raises:
            CorruptFileError: the index manifest or one of its files cannot be read.
        """
        schema = self.table.schema
        hashes = key_hashes(rows, schema)
        buckets = np.empty(rows.num_rows, np.int64)
        for partition, indices in indices_by_partition(rows, schema):
            buckets[indices] = self._buckets_in(partition, hashes[indices])
        return rows_by_bucket(rows, schema, buckets, int(buckets.max()) + 1)

    def _buckets_in(self, partition: bytes, hashes: Hashes) -> npt.NDArray[np.int64]:
        manifest = self._manifest()
        distinct_hashes, indices = np.unique(hashes, return_inverse=True)
        buckets = known_buckets(
            self.table, manifest.hash_entries.get(partition, {}), distinct_hashes
        )
        is_new = buckets < 0
        if is_new.any():
            open_numbers = np.array(open_buckets(manifest.hash_counts(partition), self._rules()))
            buckets[is_new] = open_numbers[distinct_hashes[is_new] % len(open_numbers)]
        bucket_of_row: npt.NDArray[np.int64] = buckets[indices]
        return bucket_of_row

    def _manifest(self) -> IndexManifest:
        return index_manifest(self.table, self.index_manifest_name)

    def _rules(self) -> DynamicBucketRules:
        return DynamicBucketRules.of_options(self.table.options)


@dataclass(slots=True)
class HashIndexWriter:
    """A writer that adds the hashes of a bucket's new rows to the hash index.

    Implements `table_write.BucketIndex`.

    Attributes:
        index_manifest_name: the index manifest with the bucket's known hashes; None without one.
    """

    table: FileStoreTable
    partition: bytes
    bucket: int
    index_manifest_name: str | None
    _hashes: list[Hashes] = field(init=False, default_factory=list)
    _hash_count: int = field(init=False, default=0)

    def add(self, rows: pa.RecordBatch) -> None:
        """Gather the hashes of keys of accepted kinds; beyond a limit, drop repeated hashes."""
        options = self.table.options
        if kind_column := options[ROWKIND_FIELD]:
            rows = with_kinds_of(rows, kind_column)
        hashes = key_hashes(rows, self.table.schema)
        if kinds := ignored_kinds(options):
            hashes = hashes[accepted_mask(rows, kinds)]
        self._hashes.append(hashes)
        self._hash_count += len(hashes)
        if self._hash_count > _HASHES_MAX:
            self._hashes = [self._distinct_hashes()]
            self._hash_count = len(self._hashes[0]) // 2  # so that few passes read many hashes

    def finish(self) -> tuple[IndexManifestEntry, ...]:
        """Write an index file of old and new hashes; without a new hash, write nothing."""
        manifest = index_manifest(self.table, self.index_manifest_name)
        old_entry = manifest.hash_entries.get(self.partition, {}).get(self.bucket)
        hashes = added_hashes(self.table, old_entry, self._distinct_hashes())
        if hashes is None:
            return ()
        new_entry = self.table.hash_index_files.write(self.partition, self.bucket, hashes)
        return (new_entry,) if old_entry is None else (old_entry.as_delete(), new_entry)

    def _distinct_hashes(self) -> Hashes:
        if not self._hashes:
            return np.empty(0, np.int32)
        return np.unique(np.concatenate(self._hashes))


def key_hashes(rows: pa.RecordBatch, schema: TableSchema) -> Hashes:
    """Return the hash of each row's key without the partition columns: int32 [n]."""
    keys = schema.key_type
    return hash_columns([rows.column(name) for name in keys.names], keys.types)
