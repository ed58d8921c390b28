"""The hashes of keys that a table has, as tasks look them up and add to them.

A file of hashes never changes, so a Python worker keeps those that it has met, sorted. Large ones
lie in temporary files on local disk and are mapped into memory: the system may drop their pages.

Source: Paimon `index/PartitionIndex.java`, which keeps a hash table of the partition in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stream_app.fileio.recent_files import RecentFiles
from stream_app.format.hash_index import Hashes
from stream_app.local_disk import scratch_file
from stream_app.model.index_file_meta import IndexManifestEntry
from stream_app.table.file_store_table import FileStoreTable

_MAPPED_BYTES = 1 << 20
"""Arrays of this size are mapped from disk."""
_KEPT_BYTES = 2 << 30
"""Bytes of arrays that a worker keeps; 250 full buckets of two million keys."""


class KeptHashes:
    """Sorted hashes by the path of their file, the ones that were used last. Thread safe."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES, mapped_bytes: int = _MAPPED_BYTES) -> None:
        self._recent: RecentFiles[Hashes] = RecentFiles(kept_bytes, lambda hashes: hashes.nbytes)
        self._mapped_bytes = mapped_bytes

    def read(self, table: FileStoreTable, entry: IndexManifestEntry) -> Hashes:
        """The hashes of a file, int32 [n] in ascending order.

        Raises:
            CorruptFileError: the file is missing or has another size.
        """
        path = table.paths.index_file(entry.partition, entry.bucket, entry.index_file)
        return self._recent.get(path, lambda: self._placed(table.hash_index_files.read(entry)))

    def clear(self) -> None:
        """Keep none."""
        self._recent.clear()

    def _placed(self, hashes: Hashes) -> Hashes:
        if hashes.nbytes < self._mapped_bytes:
            return hashes
        with scratch_file("hashes") as file:
            hashes.tofile(file)
            file.flush()
            return np.memmap(file, np.int32, "r")  # the map outlives the file's name


KEPT_HASHES = KeptHashes()


def known_buckets(
    table: FileStoreTable,
    files: Mapping[int, IndexManifestEntry],
    hashes: Hashes,
    kept: KeptHashes = KEPT_HASHES,
) -> npt.NDArray[np.int64]:
    """The bucket of each hash, int64 [n]; -1 where no bucket has it.

    Args:
        files: bucket → the file with the hashes of its keys, of one partition.
        hashes: int32 [n], ascending, each once.
    """
    buckets = np.full(len(hashes), -1, np.int64)
    missing = np.arange(len(hashes))
    for bucket, entry in sorted(files.items()):
        if not len(missing):
            break
        there = _are_in(hashes[missing], kept.read(table, entry))
        buckets[missing[there]] = bucket
        missing = missing[~there]
    return buckets


def added_hashes(
    table: FileStoreTable,
    before: IndexManifestEntry | None,
    hashes: Hashes,
    kept: KeptHashes = KEPT_HASHES,
) -> Hashes | None:
    """The hashes of a bucket with further ones, int32 [m] ascending; None: it has all of them.

    Args:
        before: the bucket's file; None: it has none.
        hashes: int32 [n], ascending, each once.
    """
    if before is None:
        return hashes if len(hashes) else None
    there = kept.read(table, before)
    new = hashes[~_are_in(hashes, there)]
    if not len(new):
        return None
    both = np.concatenate((there, new))
    both.sort(kind="stable")  # two ascending runs: they are merged
    return both


def _are_in(hashes: Hashes, there: Hashes) -> npt.NDArray[np.bool_]:
    """Which hashes are there; both ascending."""
    places = np.searchsorted(there, hashes)
    places[places == len(there)] = 0
    if not len(there):
        return np.zeros(len(hashes), np.bool_)
    is_known: npt.NDArray[np.bool_] = there[places] == hashes
    return is_known
