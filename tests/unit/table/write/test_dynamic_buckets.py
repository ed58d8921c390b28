"""Hashes of keys are found in many files, added to one, and kept in little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stream_app.errors import CorruptFileError
from stream_app.format.hash_index import Hashes
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.write.dynamic_buckets import HashCache, added_hashes, known_buckets
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path) -> FileStoreTable:
    return small_table(folder / "t", "k BIGINT, v STRING", ("k",), bucket=-1).table


def files(
    table: FileStoreTable, noise: np.random.Generator, *counts: int
) -> dict[int, IndexManifestEntry]:
    """Files of buckets 0, 2, 4 …; hashes are distinct."""
    hashes = noise.permutation(np.arange(sum(counts), dtype=np.int32) * 3 - 1000)
    cuts = np.split(hashes, np.cumsum(counts)[:-1])
    return {
        2 * number: table.hash_index_files.write(b"", 2 * number, cut)
        for number, cut in enumerate(cuts)
    }


def read(table: FileStoreTable, entry: IndexManifestEntry) -> Hashes:
    return table.hash_index_files.read(entry)


@pytest.mark.parametrize("mapped_bytes_max", [1, 1 << 30], ids=["mapped from disk", "in memory"])
def test_each_hash_is_found_in_its_bucket(tmp_path: Path, seed: int, mapped_bytes_max: int) -> None:
    table, noise = a_table(tmp_path), np.random.default_rng(seed)
    entries = files(table, noise, 500, 0, 1, 300)
    hashes = np.arange(-1010, 1500, dtype=np.int32)
    buckets = known_buckets(table, entries, hashes, HashCache(mapped_bytes_max=mapped_bytes_max))
    expected = np.full(len(hashes), -1)
    for bucket, entry in entries.items():
        expected[np.isin(hashes, read(table, entry))] = bucket
    assert buckets.tolist() == expected.tolist()
    assert sorted(set(expected.tolist())) == [-1, 0, 4, 6]


def test_new_hashes_join_those_of_the_bucket(tmp_path: Path, seed: int) -> None:
    table, noise = a_table(tmp_path), np.random.default_rng(seed)
    entry = files(table, noise, 400)[0]
    stored_hashes = read(table, entry)
    new = np.array([-5000, int(stored_hashes[7]), int(stored_hashes[7]) + 1, 2**31 - 1], np.int32)
    after = added_hashes(table, entry, new)
    assert after is not None
    assert after.tolist() == sorted({*stored_hashes.tolist(), *new.tolist()})
    assert added_hashes(table, entry, stored_hashes[5:9]) is None
    assert added_hashes(table, None, stored_hashes[:0]) is None
    first = added_hashes(table, None, stored_hashes[:3])
    assert first is not None
    assert first.tolist() == stored_hashes[:3].tolist()


def test_the_files_that_were_used_last_are_kept(tmp_path: Path, seed: int) -> None:
    table, noise = a_table(tmp_path), np.random.default_rng(seed)
    entries = files(table, noise, 100, 100, 100)
    cache = HashCache(cached_bytes_max=900)
    first = cache.read(table, entries[0])
    cache.read(table, entries[2])
    assert cache.read(table, entries[0]) is first
    cache.read(table, entries[4])
    assert cache.read(table, entries[0]) is first
    Path(table.paths.index_file(b"", 2, entries[2].index_file)).unlink()
    with pytest.raises(CorruptFileError, match="is missing"):
        cache.read(table, entries[2])
