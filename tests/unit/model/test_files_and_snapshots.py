"""The values of metadata (files, entries, row kinds, commits) keep their rules."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.data_file_meta import EMPTY_STATS, DataFileMeta, FileSource
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.row_kind import RowKind
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind

FILE = DataFileMeta(
    file_name="data-1-0.parquet",
    file_size=900,
    row_count=10,
    min_key=b"a",
    max_key=b"b",
    key_stats=EMPTY_STATS,
    value_stats=EMPTY_STATS,
    min_sequence_number=3,
    max_sequence_number=12,
    schema_id=0,
    level=0,
    delete_row_count=0,
    file_source=FileSource.APPEND,
)
ENTRY = ManifestEntry(
    kind=FileKind.ADD, partition=b"p", bucket=1, total_buckets=4, file=FILE
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("level", -1, id="level-below-0"),
        pytest.param("row_count", 0, id="empty-file"),
        pytest.param("min_sequence_number", 13, id="sequence-numbers-crossed"),
    ],
)
def test_a_file_refuses_nonsense(field: str, value: Any) -> None:
    with pytest.raises(AssertionError):
        replace(FILE, **{field: value})


def test_an_upgraded_file_is_the_same_bytes_at_another_level() -> None:
    upgraded_file = FILE.at_level(5)
    assert upgraded_file.level == 5
    assert upgraded_file.at_level(0) == FILE


@pytest.mark.parametrize(
    ("deletes", "expected"),
    [
        pytest.param(None, True, id="old-writer-did-not-say"),
        pytest.param(0, False, id="none"),
        pytest.param(1, True, id="one"),
    ],
)
def test_deletes_are_ruled_out_only_by_a_count_of_zero(deletes: int | None, expected: bool) -> None:
    assert replace(FILE, delete_row_count=deletes).may_have_deletes is expected


def test_a_delete_finds_its_add_and_nothing_else() -> None:
    assert ENTRY.as_delete().kind is FileKind.DELETE
    assert ENTRY.as_delete().identity == ENTRY.identity
    others = [
        replace(ENTRY, partition=b"q"),
        replace(ENTRY, bucket=2),
        replace(ENTRY, file=FILE.at_level(1)),
        replace(ENTRY, file=replace(FILE, file_name="data-2-0.parquet")),
        replace(ENTRY, file=replace(FILE, extra_files=("index",))),
        replace(ENTRY, file=replace(FILE, embedded_index=b"i")),
        replace(ENTRY, file=replace(FILE, external_path="s3://elsewhere/f")),
    ]
    assert ENTRY.identity not in {other.identity for other in others}
    # The number of buckets and what a file is made of are not part of it.
    assert replace(ENTRY, total_buckets=8, file=replace(FILE, row_count=9)).identity == (
        ENTRY.identity
    )


def test_values_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        FILE.level = 1  # type: ignore[misc]


def test_changes_travel_between_processes() -> None:
    change = BucketChange(partition=b"p", bucket=1, added_files=(FILE,))
    committable = ManifestCommittable(identifier=7, changes=(change,))
    assert pickle.loads(pickle.dumps(committable)) == committable
    assert committable.changes[0].bucket_id == (b"p", 1)


def test_an_upgraded_file_does_not_count_as_written() -> None:
    """A file that only moves to another level is on disk already."""
    moved_file, merged_file, changelog_file = (
        replace(FILE, file_name=name) for name in ("moved", "merged", "log")
    )
    change = BucketChange(
        partition=b"p",
        bucket=1,
        removed_files=(FILE, moved_file),
        added_files=(moved_file.at_level(5), merged_file),
        changelog_files=(changelog_file,),
    )
    assert change.written_files == (merged_file, changelog_file)


def test_a_change_is_small_on_its_way() -> None:
    """Each task sends one change for each bucket that it writes."""
    assert len(pickle.dumps(BucketChange(partition=b"p", bucket=1))) < 300


def test_the_bytes_of_row_kinds_are_fixed() -> None:
    # Paimon's RowKind.java: these numbers are on disk.
    assert [(kind.value, kind.short, kind.is_add) for kind in RowKind] == [
        (0, "+I", True),
        (1, "-U", False),
        (2, "+U", True),
        (3, "-D", False),
    ]


def test_names_and_numbers_of_commits_are_paimons() -> None:
    assert [kind.value for kind in CommitKind] == ["APPEND", "COMPACT", "OVERWRITE", "ANALYZE"]
    assert BATCH_COMMIT_IDENTIFIER == 2**63 - 1
    assert [source.value for source in FileSource] == [0, 1]
    assert [kind.value for kind in FileKind] == [0, 1]
