"""Bucket changes add and replace index files together with the data files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.errors import CommitConflictError
from stream_app.format.deletion_vector import DeletionVector
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.snapshot import Snapshot
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.deletion_vectors import deletion_vectors
from tests.support.jobs.table_writer import read_rows
from tests.support.tables.small_table import small_table, write_changes


def a_table(path: Path) -> FileStoreTable:
    return small_table(
        path / "t", "k INT, v STRING", bucket=1, bucket_key="k", deletion_vectors__enabled=True
    ).table


def write_rows(table: FileStoreTable, first: int) -> BucketChange:
    """Three rows from a number on."""
    rows = [("+I", {"k": k, "v": f"v{k}"}) for k in range(first, first + 3)]
    [change] = write_changes(table, rows, first)
    return change


def index_file_of_deletions(
    table: FileStoreTable, change: BucketChange, *rows: int
) -> list[IndexManifestEntry]:
    """A new index file by which rows of the change's data file are deleted."""
    vectors = {change.added_files[0].file_name: DeletionVector.of_positions(rows)}
    return table.deletion_vector_files.write(*change.bucket_id, vectors, shares_file=True)


def committer(table: FileStoreTable, user: str = "one") -> FileStoreCommit:
    return FileStoreCommit(table, CommitHistory(table, user, table.snapshots.latest()))


def commit_change(
    commit: FileStoreCommit,
    identifier: int,
    change: BucketChange,
    index: Sequence[IndexManifestEntry],
) -> Snapshot:
    change = replace(change, index_entries=tuple(index))
    return commit.commit_appends(ManifestCommittable(identifier=identifier, changes=(change,)))


def keys(table: FileStoreTable) -> list[int]:
    return sorted(row["k"] for row in read_rows(table))


def index_files(table: FileStoreTable) -> set[str]:
    return {path.name for path in Path(table.location).rglob("index-*") if path.is_file()}


def test_an_append_brings_an_index_file(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    change = write_rows(table, 0)
    snapshot = commit_change(committer(table), 0, change, index_file_of_deletions(table, change, 1))
    assert keys(table) == [0, 2]
    [vectors] = deletion_vectors(table, snapshot).values()
    assert vectors[change.added_files[0].file_name].cardinality == 1


def test_an_index_file_is_replaced(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    commit, first = committer(table), write_rows(table, 0)
    old = index_file_of_deletions(table, first, 1)
    commit_change(commit, 0, first, old)
    new = index_file_of_deletions(table, first, 1, 2)
    commit_change(commit, 1, write_rows(table, 3), [*(entry.as_delete() for entry in old), *new])
    assert keys(table) == [0, 3, 4, 5]


def test_a_commit_that_replaces_a_removed_index_file_is_refused(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    first = write_rows(table, 0)
    old = index_file_of_deletions(table, first, 1)
    commit_change(committer(table), 0, first, old)
    late = committer(table, "late")
    removals = [entry.as_delete() for entry in old]
    commit_change(
        committer(table),
        1,
        write_rows(table, 3),
        [*removals, *index_file_of_deletions(table, first, 0, 1)],
    )
    before = index_files(table)
    change = write_rows(table, 6)
    change = replace(
        change, index_entries=(*removals, *index_file_of_deletions(table, first, 1, 2))
    )
    with pytest.raises(CommitConflictError, match="is gone") as error:
        late.commit_appends(ManifestCommittable(identifier=0, changes=(change,)))
    assert error.value.files == {change.added_files[0].file_name}
    table.discard([change])
    assert index_files(table) == before
    assert keys(table) == [2, 3, 4, 5]


def test_a_lost_race_keeps_the_index_files_that_a_change_names(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    late = committer(table, "late")
    commit_change(committer(table), 0, write_rows(table, 0), [])
    change = write_rows(table, 3)
    commit_change(late, 0, change, index_file_of_deletions(table, change, 0))
    assert keys(table) == [0, 1, 2, 4, 5]
    commit_change(committer(table), 1, write_rows(table, 6), [])
    assert keys(table) == [0, 1, 2, 4, 5, 6, 7, 8], "later snapshots carry the index file"
