"""Snapshots name deletion vectors as files of a table, and commits replace them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.errors import CorruptFileError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.format.binary_row import serialize_row
from stream_app.format.deletion_vector import DeletionVector
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.index_file_meta import IndexFileMeta, IndexManifestEntry
from stream_app.model.files.manifest_entry import FileKind
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.deletion_vectors import (
    deletion_vectors,
    index_changes,
    new_index_manifest,
)
from tests.support.tables.small_table import TIME_MS, SteppingClock

pytestmark = pytest.mark.usefixtures("unsynced")
COLUMNS = parse_columns("k INT NOT NULL, dt STRING NOT NULL")
IN_A = BucketId(serialize_row(["a"], COLUMNS.types[1:]), 0)
IN_B = BucketId(serialize_row(["b"], COLUMNS.types[1:]), 0)
ROWS = DeletionVector.of_positions([0, 5])
OTHER_ROWS = DeletionVector.of_positions([7])
FAR_ROWS = DeletionVector.of_positions([2**33], has_64_bits=True)


def an_append_table(folder: Path, **options: str) -> FileStoreTable:
    """Make a table without a primary key; it has buckets only if `bucket` says so."""
    keyed_schema = new_table_schema(
        columns=COLUMNS,
        primary_keys=("k", "dt"),
        partition_keys=("dt",),
        options={"bucket": "1"},
        time_ms=TIME_MS,
    )
    schema = replace(keyed_schema, primary_keys=(), options={"bucket": "-1", **options})
    return FileStoreTable(str(folder / "db.db" / "t"), schema, LocalFileIO(), SteppingClock())


def a_snapshot(index_manifest: str | None) -> Snapshot:
    return Snapshot(
        snapshot_id=1, schema_id=0, base_manifest_list="b", base_manifest_list_size=1,
        delta_manifest_list="d", delta_manifest_list_size=1, changelog_manifest_list=None,
        changelog_manifest_list_size=None, index_manifest=index_manifest, commit_user="u",
        commit_identifier=1, commit_kind=CommitKind.OVERWRITE, time_ms=TIME_MS,
        total_record_count=0, delta_record_count=0, changelog_record_count=None, watermark=None,
        statistics=None, properties=None, next_row_id=None,
    )  # fmt: skip


def commit_changes(
    table: FileStoreTable, changes: Sequence[IndexManifestEntry], latest: Snapshot | None = None
) -> Snapshot:
    return a_snapshot(new_index_manifest(table, latest, changes))


def entries_of(table: FileStoreTable, snapshot: Snapshot) -> list[IndexManifestEntry]:
    return table.manifests.read_index_manifest(snapshot.index_manifest)


def change_vectors(
    table: FileStoreTable, snapshot: Snapshot, bucket: BucketId = IN_A, *,
    deleted_names: Sequence[str] = (), deleted_vectors: dict[str, DeletionVector] | None = None,
) -> Snapshot:  # fmt: skip
    live = entries_of(table, snapshot)
    changes = index_changes(
        table, live, bucket, deleted_names=deleted_names, deleted_rows=deleted_vectors
    )
    return commit_changes(table, changes, snapshot)


def with_four_vectors(table: FileStoreTable) -> Snapshot:
    """Two index files in partition a, or one if the table has buckets, and one in partition b."""
    snapshot = change_vectors(
        table, a_snapshot(None), deleted_vectors={"d1": ROWS, "d2": OTHER_ROWS}
    )
    snapshot = change_vectors(table, snapshot, deleted_vectors={"d3": FAR_ROWS})
    return change_vectors(table, snapshot, IN_B, deleted_vectors={"d4": ROWS})


def test_a_snapshot_without_an_index_manifest_has_no_vectors(tmp_path: Path) -> None:
    assert deletion_vectors(an_append_table(tmp_path), a_snapshot(None)) == {}


@pytest.mark.parametrize("bucket", ["-1", "1"])
def test_vectors_are_found_by_bucket_and_data_file(tmp_path: Path, bucket: str) -> None:
    table = an_append_table(tmp_path, bucket=bucket)
    snapshot = with_four_vectors(table)
    in_a = {"d1": ROWS, "d2": OTHER_ROWS, "d3": FAR_ROWS}
    assert deletion_vectors(table, snapshot) == {IN_A: in_a, IN_B: {"d4": ROWS}}
    assert deletion_vectors(table, snapshot, [IN_B]) == {IN_B: {"d4": ROWS}}
    assert deletion_vectors(table, snapshot, [BucketId(IN_B.partition, 1)]) == {}
    assert len(entries_of(table, snapshot)) == (3 if bucket == "-1" else 2)


def test_a_compaction_takes_the_vectors_of_its_files_away(tmp_path: Path) -> None:
    table = an_append_table(tmp_path)
    before = with_four_vectors(table)
    after = change_vectors(table, before, deleted_names=["d1", "d9"])
    assert deletion_vectors(table, after) == {
        IN_A: {"d2": OTHER_ROWS, "d3": FAR_ROWS}, IN_B: {"d4": ROWS},
    }  # fmt: skip
    # The two files that it does not touch are the same ones, and the old snapshot reads as before.
    assert len({*entries_of(table, before)} & {*entries_of(table, after)}) == 2
    assert deletion_vectors(table, before)[IN_A].keys() == {"d1", "d2", "d3"}


@pytest.mark.parametrize("bucket", ["-1", "1"])
def test_without_vectors_nothing_is_left(tmp_path: Path, bucket: str) -> None:
    table = an_append_table(tmp_path, bucket=bucket)
    snapshot = change_vectors(table, with_four_vectors(table), deleted_names=["d1", "d2", "d3"])
    assert deletion_vectors(table, snapshot) == {IN_B: {"d4": ROWS}}
    snapshot = change_vectors(table, snapshot, IN_B, deleted_names=["d4"])
    assert entries_of(table, snapshot) == []


def test_rows_are_deleted_in_addition(tmp_path: Path) -> None:
    table = an_append_table(tmp_path)
    snapshot = change_vectors(table, with_four_vectors(table), deleted_vectors={"d1": OTHER_ROWS})
    vectors = deletion_vectors(table, snapshot)[IN_A]
    assert vectors["d1"].positions().tolist() == [0, 5, 7]
    assert vectors["d2"] == OTHER_ROWS


def test_a_delete_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    table = an_append_table(tmp_path)
    before = with_four_vectors(table)
    names = sorted(path.name for path in Path(table.location).rglob("*"))
    assert change_vectors(table, before, deleted_names=["d9"]) == before
    assert sorted(path.name for path in Path(table.location).rglob("*")) == names


def test_other_index_files_are_carried(tmp_path: Path) -> None:
    table = an_append_table(tmp_path)
    meta = IndexFileMeta(index_type="btree", file_name="index-9", file_size=8, row_count=2)
    other_entry = IndexManifestEntry(
        kind=FileKind.ADD, partition=IN_A[0], bucket=0, index_file=meta
    )
    snapshot = change_vectors(
        table, commit_changes(table, [other_entry]), deleted_vectors={"d1": ROWS}
    )
    assert other_entry in entries_of(table, snapshot)
    assert deletion_vectors(table, snapshot) == {IN_A: {"d1": ROWS}}


@pytest.mark.parametrize(("bucket", "files"), [("-1", 3), ("1", 1)])
def test_large_files_are_split_but_in_buckets(tmp_path: Path, bucket: str, files: int) -> None:
    table = an_append_table(
        tmp_path, bucket=bucket, **{"deletion-vector.index-file.target-size": "50 b"}
    )
    vectors = {f"d{number}": ROWS for number in range(5)}
    snapshot = change_vectors(table, a_snapshot(None), deleted_vectors=vectors)
    assert deletion_vectors(table, snapshot) == {IN_A: vectors}
    assert len(entries_of(table, snapshot)) == files


@pytest.mark.parametrize(
    ("option", "folder"), [("false", "index"), ("true", "dt=a/bucket-0")], ids=["index", "bucket"]
)
def test_index_files_lie_where_the_table_says(tmp_path: Path, option: str, folder: str) -> None:
    table = an_append_table(tmp_path, **{"index-file-in-data-file-dir": option})
    snapshot = change_vectors(table, a_snapshot(None), deleted_vectors={"d1": ROWS})
    assert deletion_vectors(table, snapshot) == {IN_A: {"d1": ROWS}}
    [entry] = entries_of(table, snapshot)
    path = Path(table.location) / folder / entry.index_file.file_name
    assert path.stat().st_size == entry.index_file.file_size

    path.rename(tmp_path / "elsewhere")
    moved_file = replace(entry.index_file, external_path=str(tmp_path / "elsewhere"))
    snapshot = commit_changes(table, [replace(entry, index_file=moved_file)])
    assert deletion_vectors(table, snapshot) == {IN_A: {"d1": ROWS}}


def test_files_that_no_snapshot_names_can_be_deleted(tmp_path: Path) -> None:
    table = an_append_table(tmp_path)
    [entry] = index_changes(table, [], IN_A, deleted_rows={"d1": ROWS})
    table.deletion_vector_files.delete(entry)
    assert list((Path(table.location) / "index").iterdir()) == []


def test_damage_is_an_error_with_the_file(tmp_path: Path) -> None:
    table = an_append_table(tmp_path)
    snapshot = change_vectors(table, a_snapshot(None), deleted_vectors={"d1": ROWS})
    [entry] = entries_of(table, snapshot)
    path = Path(table.location) / "index" / entry.index_file.file_name
    content = path.read_bytes()

    def problem() -> CorruptFileError:
        with pytest.raises(CorruptFileError) as raised:
            deletion_vectors(table, snapshot)
        assert raised.value.where == str(path)
        return raised.value

    path.write_bytes(content[:-1])
    size = len(content)
    assert f"has {size - 1} bytes, its index manifest says {size}" in problem().problem
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "the deletion vector of d1 at offset 1: its CRC is" in problem().problem
    path.unlink()
    assert "is missing" in problem().problem
    assert "snapshot has just expired" in problem().fix


def test_two_vectors_of_one_data_file_are_refused(tmp_path: Path) -> None:
    table = an_append_table(tmp_path)
    twice = [
        index_changes(table, [], IN_A, deleted_rows={"d1": rows})[0] for rows in (ROWS, OTHER_ROWS)
    ]
    with pytest.raises(CorruptFileError, match="data file d1 has deletion vectors in two index"):
        deletion_vectors(table, commit_changes(table, twice))


def test_a_missing_index_manifest_is_reported(tmp_path: Path) -> None:
    table = an_append_table(tmp_path)
    with pytest.raises(CorruptFileError, match="a manifest that a snapshot names is missing"):
        deletion_vectors(table, a_snapshot("index-manifest-gone-0"))
