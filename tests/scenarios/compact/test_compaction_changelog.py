"""Compactions write the changes of epochs as changelogs; a dropped one leaves none."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.model.snapshot import CommitKind
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.jobs.table_writer import CompactLater, by_content, read_rows
from tests.support.tables.small_table import Change, CompactHere, small_table, write_changes
from tests.support.tables.sound_table import sound_report

FIRST: list[Change] = [("+I", {"k": 1, "v": "a"}), ("+I", {"k": 2, "v": "b"})]
SECOND: list[Change] = [("+U", {"k": 1, "v": "c"}), ("-D", {"k": 2, "v": None})]
TOLD = [("+I", 1, "a"), ("+I", 2, "b")], [("-U", 1, "a"), ("+U", 1, "c"), ("-D", 2, "b")]


def a_table(folder: Path, producer: str, **options: Any) -> FileStoreTable:
    small = small_table(
        folder / "t", "k INT NOT NULL, v STRING", ("k",), changelog_producer=producer, **options
    )
    return small.table


def changes_by_snapshot(table: FileStoreTable) -> dict[int, list[tuple[str, int, str]]]:
    by_snapshot: dict[int, list[tuple[str, int, str]]] = {}
    for changes in PaimonTable(table).changelog(snapshot=1):
        rows = [(row["rowkind"], row["k"], row["v"]) for row in changes.rows.to_pylist()]
        by_snapshot.setdefault(changes.snapshot_id, []).extend(rows)
    return by_snapshot


def files(table: FileStoreTable) -> set[str]:
    return {path.name for path in Path(table.location).glob("bucket-0/*")}


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_an_epoch_ends_when_its_changes_are_in_the_changelog(tmp_path: Path, producer: str) -> None:
    table = a_table(tmp_path, producer)
    commit = StreamTableCommit(table, "job", CompactHere(table))
    for epoch, changes in enumerate((FIRST, SECOND)):
        done = commit.commit_epoch(epoch, write_changes(table, changes, commit.follow_and_wait()))
        append, compact = done.snapshots
        assert append.commit_kind is CommitKind.APPEND
        assert append.changelog_manifest_list is None
        assert compact.commit_kind is CommitKind.COMPACT
        assert compact.changelog_record_count == len(TOLD[epoch])
        assert changes_by_snapshot(table)[compact.snapshot_id] == TOLD[epoch]
        entries = FileStoreScan(table).changelog(compact)
        assert {entry.file.file_name for entry in entries} < files(table)
    assert read_rows(table) == [{"k": 1, "v": "c"}]
    assert sound_report(table).replayed_changes == ["snapshots 1 to 4"]


def test_without_waiting_changes_appear_when_a_compaction_ends(tmp_path: Path) -> None:
    table = a_table(tmp_path, "lookup", lookup_wait=False)
    later = CompactLater(table)
    commit = StreamTableCommit(table, "job", later)
    for epoch, changes in enumerate((FIRST, SECOND)):
        commit.commit_epoch(epoch, write_changes(table, changes, commit.follow_and_wait()))
    assert changes_by_snapshot(table) == {}
    later.run()
    assert commit.commit_idle() is not None
    assert list(changes_by_snapshot(table).values()) == [TOLD[0]]
    commit.coordinator.trigger()
    later.run()
    assert commit.commit_idle() is not None
    assert list(changes_by_snapshot(table).values()) == list(TOLD)


def test_full_compactions_give_the_changes_of_several_epochs(tmp_path: Path) -> None:
    table = a_table(tmp_path, "full-compaction", full_compaction__delta_commits=2)
    commit = StreamTableCommit(table, "job", CompactHere(table))
    for epoch, changes in enumerate((FIRST, SECOND)):
        commit.commit_epoch(epoch, write_changes(table, changes, commit.follow_and_wait()))
    assert list(changes_by_snapshot(table).values()) == [[("+I", 1, "c")]]


def test_a_table_without_a_changelog_begins_one(tmp_path: Path) -> None:
    """The changelog has earlier rows of level 0 too, because no changelog had them."""
    quiet = a_table(tmp_path, "none")
    StreamTableCommit(quiet, "job", CompactHere(quiet)).commit_epoch(
        0, write_changes(quiet, FIRST, 0)
    )
    options = {**quiet.schema.options, "changelog-producer": "lookup"}
    table = replace(quiet, schema=replace(quiet.schema, options=options))
    commit = StreamTableCommit(table, "job", CompactHere(table))
    commit.commit_epoch(1, write_changes(table, SECOND, commit.follow_and_wait()))
    [changes] = changes_by_snapshot(table).values()
    assert changes == [("+I", 1, "c")]


def test_a_dropped_compaction_leaves_no_changelog(tmp_path: Path) -> None:
    """Another writer was first: its result stays, and none of our files remains."""
    table = a_table(tmp_path, "lookup", lookup_wait=False)
    late = CompactLater(table)
    job = StreamTableCommit(table, "job", late)
    job.commit_epoch(0, write_changes(table, FIRST, job.follow_and_wait()))
    other_commit = StreamTableCommit(table, "other", CompactHere(table), last_identifier=0)
    assert len(other_commit.compact_fully()) == 1
    before = files(table)
    late.run()
    assert len(files(table) - before) == 1, "its changelog file; the data file only moves"
    assert job.commit_idle() is None
    assert job.coordinator.dropped_compactions.dropped_count == 1
    assert files(table) == before
    assert list(changes_by_snapshot(table).values()) == [TOLD[0]]


@pytest.mark.parametrize(
    "options",
    [
        {"changelog_producer": "lookup"},
        {"changelog_producer": "lookup", "deletion_vectors__enabled": True},
        {"changelog_producer": "none", "deletion_vectors__enabled": True},
    ],
)
def test_few_new_keys_read_few_row_groups(tmp_path: Path, options: dict[str, Any]) -> None:
    texts = [hashlib.sha512(bytes([key % 256, key // 256])).hexdigest() for key in range(4000)]
    table = small_table(
        tmp_path / "t", "k INT NOT NULL, v STRING", ("k",), write_buffer_size="64 kb", **options
    ).table
    first: list[Change] = [("+I", {"k": key, "v": text}) for key, text in enumerate(texts)]
    commit = StreamTableCommit(table, "job", CompactHere(table))
    commit.commit_epoch(0, write_changes(table, first, commit.follow_and_wait()))
    commit.compact_fully()
    files_now = FileStoreScan(table).live(table.snapshots.latest())
    [big] = [entry.file for entry in files_now if entry.file.level > 0]
    for epoch, key in enumerate((1234, 1235, 3999, 0), 1):
        files = CountingFileIO()
        watched_table = replace(table, file_io=files)
        commit = StreamTableCommit(
            watched_table, "job", CompactHere(watched_table), last_identifier=epoch - 1
        )
        change: Change = ("+U", {"k": key, "v": "new"})
        commit.commit_epoch(epoch, write_changes(watched_table, [change], commit.follow_and_wait()))
        assert 0 < files.read[big.file_name] < big.file_size // 2
        first[key] = change
        assert by_content(read_rows(table)) == by_content(row for _, row in first)
    assert sound_report(table).replayed_changes or options["changelog_producer"] == "none"
