"""`stream-app check` finds errors in the index of a table's hashes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.finding import FindingKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.index_manifests import index_manifest
from tests.support.tables.small_table import small_table
from tests.support.tables.sound_table import findings_of, kinds_in, sound_report

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path) -> FileStoreTable:
    """Two buckets of four keys."""
    small = small_table(
        folder / "t", "k BIGINT, v STRING", ("k",), bucket=-1, dynamic_bucket__target_row_num=4
    )
    for first in (0, 4):
        small.commit(*(("+I", {"k": k, "v": "x"}) for k in range(first, first + 4)))
    return small.table


def files_of(table: FileStoreTable) -> list[IndexManifestEntry]:
    latest = table.snapshots.latest()
    assert latest is not None
    [buckets] = index_manifest(table, latest.index_manifest).hash_entries.values()
    return [buckets[bucket] for bucket in sorted(buckets)]


def path_of(table: FileStoreTable, entry: IndexManifestEntry) -> Path:
    return Path(table.paths.index_file(entry.partition, entry.bucket, entry.index_file))


def test_a_sound_index(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    assert [entry.index_file.row_count for entry in files_of(table)] == [4, 4]
    sound_report(table)


def test_a_hash_in_two_buckets(tmp_path: Path) -> None:
    """The second bucket's file begins with a hash of the first one's."""
    table = a_table(tmp_path)
    first, second = (path_of(table, entry) for entry in files_of(table))
    hashes = np.frombuffer(first.read_bytes(), ">i4")
    second.write_bytes(first.read_bytes()[:4] + second.read_bytes()[4:])
    [repeated_finding, lacking] = findings_of(table)
    assert repeated_finding.kind is lacking.kind is FindingKind.HASH_INDEX
    assert repeated_finding.problem == (
        f"the index has 1 hashes of keys twice, such as {hashes[0]} of bucket 0 and 1"
    )
    assert lacking.problem == "1 rows have keys that the bucket's index lacks"
    assert lacking.where == table.paths.bucket_folder(b"\0" * 12, 1)


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_damaged_file_of_the_index(tmp_path: Path, damage: str) -> None:
    table = a_table(tmp_path)
    file = path_of(table, files_of(table)[0])
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-2])
    assert FindingKind.FILE_UNREADABLE in kinds_in(table)
    assert kinds_in(table, quick=True) == {
        FindingKind.FILE_MISSING if damage == "missing" else FindingKind.FILE_SIZE
    }


def test_a_table_that_lost_its_index(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    latest = table.snapshots.latest()
    assert latest is not None
    without = replace(latest, snapshot_id=latest.snapshot_id + 1, index_manifest=None)
    assert table.snapshots.publish(without)
    findings = [finding for finding in findings_of(table) if finding.kind is FindingKind.HASH_INDEX]
    assert [finding.problem[:6] for finding in findings] == ["4 rows", "4 rows"]
