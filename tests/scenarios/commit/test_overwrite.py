"""OVERWRITE snapshots drop or replace partitions or a whole table, also beside other writers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import CommitError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.format.binary_row import serialize_row
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.files.manifest_entry import FileKind
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from stream_app.planning.commit.live_entries import live_entries
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import TableWriter, assert_table_is, by_content, read_rows
from tests.support.tables.deleted_rows import delete_some
from tests.support.tables.small_table import Change, small_table, write_changes
from tests.support.tables.snapshot_chain import check_chain, files_on_disk

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path, **options: Any) -> FileStoreTable:
    columns = "dt STRING, k INT, v STRING"
    return small_table(folder / "db.db" / "t", columns, ("dt", "k"), ("dt",), **options).table


def days(*names: str, value: str = "a", keys: int = 3) -> list[Change]:
    return [("+I", {"dt": name, "k": k, "v": value}) for name in names for k in range(keys)]


def partition(table: FileStoreTable, name: str | None) -> bytes:
    return serialize_row([name], table.schema.partition_type.types)


def committer(table: FileStoreTable, user: str = "batch") -> FileStoreCommit:
    return FileStoreCommit(table, CommitHistory(table, user, table.snapshots.latest()))


def rows(changes: Sequence[Change]) -> list[str]:
    return by_content([dict(row) for _, row in changes])


@dataclass(frozen=True)
class RivalFileIO(LocalFileIO):
    """Lets another writer go first, just before a snapshot is created, `times` times."""

    rival: TableWriter
    changes: Sequence[Change]
    rival_turns: list[None]

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if self.rival_turns and Path(path).name.startswith("snapshot-"):
            self.rival_turns.pop()
            self.rival.write(self.changes)
        return LocalFileIO.create_if_absent(self, path, data)


def with_rival(table: FileStoreTable, changes: Sequence[Change], times: int) -> FileStoreTable:
    rival = TableWriter(table, user="rival")
    return replace(table, file_io=RivalFileIO(rival, changes, [None] * times))


def test_dropped_partitions_are_gone_and_the_others_stay(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=2, changelog_producer="input")
    writer = TableWriter(table)
    for value in "ab":
        writer.write(days("mon", "tue", "wed", value=value))
    before = table.snapshots.latest()
    assert before is not None
    dropped_partitions = [partition(table, "mon"), partition(table, "wed"), partition(table, "sun")]
    snapshot = committer(table).drop_partitions(dropped_partitions, BATCH_COMMIT_IDENTIFIER)
    assert snapshot == table.snapshots.latest()
    assert (snapshot.commit_user, snapshot.commit_kind) == ("batch", CommitKind.OVERWRITE)
    assert snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER
    assert (snapshot.delta_record_count, snapshot.total_record_count) == (-12, 6)
    assert snapshot.changelog_manifest_list is None
    assert by_content(read_rows(table)) == rows(days("tue", value="b"))
    delta = FileStoreScan(table).delta(snapshot)
    assert {entry.kind for entry in delta} == {FileKind.DELETE}
    assert {entry.partition for entry in delta} == set(dropped_partitions[:2])
    check_chain(table)


def test_a_truncated_table_is_empty_and_is_written_again(tmp_path: Path) -> None:
    table = a_table(tmp_path, num_sorted_run__compaction_trigger=2)
    writer = TableWriter(table)
    writer.write(days("mon", "tue"))
    writer.write(days("mon", "tue", value="b"))
    snapshot = committer(table).truncate(BATCH_COMMIT_IDENTIFIER)
    assert snapshot.total_record_count == 0
    assert FileStoreScan(table).live(snapshot) == []
    assert read_rows(table) == []
    # The job believes the table, not what it knew: its levels are empty, what it compacted is gone.
    writer.write(days("tue", value="c"))
    assert by_content(read_rows(table)) == rows(days("tue", value="c"))
    writer.commit.compact_due()
    check_chain(table)


def test_a_table_without_snapshots_is_truncated(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    assert committer(table).truncate(BATCH_COMMIT_IDENTIFIER).snapshot_id == 1
    assert [snapshot.total_record_count for snapshot in check_chain(table)] == [0]


def test_new_files_replace_a_partition(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=2)
    TableWriter(table).write(days("mon", "tue"))
    new = days("mon", value="new", keys=5)
    snapshot = committer(table).overwrite(
        ManifestCommittable(
            identifier=BATCH_COMMIT_IDENTIFIER,
            changes=tuple(write_changes(table, new, 0)),
            watermark=17,
            properties={"why": "test"},
        ),
        [partition(table, "mon")],
    )
    assert by_content(read_rows(table)) == rows([*days("tue"), *new])
    assert (snapshot.delta_record_count, snapshot.total_record_count) == (2, 8)
    assert snapshot.watermark == 17
    assert snapshot.properties is not None
    assert snapshot.properties["why"] == "test"
    kinds = [entry.kind for entry in FileStoreScan(table).delta(snapshot)]
    assert kinds == sorted(kinds, reverse=True)
    check_chain(table)


def test_a_partition_of_null_is_dropped(tmp_path: Path) -> None:
    table = small_table(tmp_path / "db.db" / "t", "dt STRING, v INT", (), ("dt",)).table
    writer = TableWriter(table)
    writer.write([("+I", {"dt": name, "v": 1}) for name in ("mon", None, "tue")])
    committer(table).drop_partitions([partition(table, None)], BATCH_COMMIT_IDENTIFIER)
    assert by_content(read_rows(table)) == by_content(
        [{"dt": name, "v": 1} for name in ("mon", "tue")]
    )


def test_partitions_with_more_buckets_than_the_table_are_dropped_whole(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=4)
    TableWriter(table).write(days("mon", keys=40))
    fewer = replace(table, schema=replace(table.schema, options={"bucket": "1"}))
    committer(fewer).drop_partitions([partition(table, "mon")], BATCH_COMMIT_IDENTIFIER)
    assert read_rows(table) == []


@pytest.mark.parametrize("whole", [False, True], ids=["partition", "table"])
def test_an_overwrite_replaces_what_others_commit_meanwhile(tmp_path: Path, whole: bool) -> None:
    table = a_table(tmp_path)
    TableWriter(table).write(days("mon", "tue"))
    late = days("mon", "wed", value="late")
    commit = committer(with_rival(table, late, times=2))
    if whole:
        snapshot = commit.truncate(BATCH_COMMIT_IDENTIFIER)
        expected: list[Change] = []
    else:
        snapshot = commit.drop_partitions([partition(table, "mon")], BATCH_COMMIT_IDENTIFIER)
        expected = [*days("tue"), *days("wed", value="late")]
    assert snapshot.snapshot_id == 4
    assert by_content(read_rows(table)) == rows(expected)
    check_chain(table)
    list_names = {
        name
        for snapshot in check_chain(table)
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    }
    assert files_on_disk(table, "manifest-list-") == list_names, "lost attempts leave nothing"


def test_an_overwrite_that_loses_every_race_changes_nothing(tmp_path: Path) -> None:
    table = a_table(tmp_path, commit__max_retries=2)
    TableWriter(table).write(days("mon"))
    commit = committer(with_rival(table, days("tue", value="late"), times=3))
    with pytest.raises(CommitError, match="lost the race"):
        commit.truncate(BATCH_COMMIT_IDENTIFIER)
    kinds = {snapshot.commit_kind for snapshot in check_chain(table)}
    assert kinds == {CommitKind.APPEND}


def test_a_stream_that_drops_partitions_itself_goes_on(tmp_path: Path) -> None:
    """Partition expiry also commits with the stream's user and the identifier of its last epoch."""
    table = a_table(tmp_path, num_sorted_run__compaction_trigger=3)
    writer = TableWriter(table)
    for value in "abc":
        writer.write(days("mon", "tue", value=value))
    commit = FileStoreCommit(table, writer.commit.state.commit_history)
    commit.drop_partitions([partition(table, "mon")], writer.epoch - 1)
    writer.write(days("mon", "tue", value="d", keys=1))
    writer.commit.compact_due()
    assert by_content(read_rows(table)) == rows(
        [
            *days("mon", value="d", keys=1),
            *days("tue", value="d", keys=1),
            *days("tue", value="c")[1:],
        ]
    )
    check_chain(table)
    writer.restart()
    assert writer.commit.state.is_committed(writer.epoch - 1)
    assert not writer.commit.state.is_committed(writer.epoch)


def test_a_compaction_of_a_dropped_partition_is_dropped_too(tmp_path: Path) -> None:
    table = a_table(tmp_path, num_sorted_run__compaction_trigger=2)
    writer = TableWriter(table)
    writer.write(days("mon", "tue"))
    writer.write(days("mon", "tue", value="b"))  # its compactions wait to be published
    committer(table).drop_partitions([partition(table, "mon")], BATCH_COMMIT_IDENTIFIER)
    writer.write([])
    writer.commit.compact_due()
    assert by_content(read_rows(table)) == rows(days("tue", value="b"))
    latest = table.snapshots.latest()
    levels = {(entry.partition, entry.file.level) for entry in FileStoreScan(table).live(latest)}
    assert levels == {(partition(table, "tue"), table.options.num_levels - 1)}
    check_chain(table)


def test_index_files_go_with_their_partition(tmp_path: Path, seed: int) -> None:
    table = small_table(
        tmp_path / "db.db" / "t", "dt STRING, k INT", (), ("dt",), deletion_vectors__enabled="true"
    ).table
    writer = TableWriter(table)
    writer.write([("+I", {"dt": day, "k": k}) for day in ("mon", "tue") for k in range(5)])
    rng = random.Random(seed)
    deleted_rows: set[int] = set()
    while len({entry.partition for entry in _index(table)}) < 2:
        deleted_rows |= delete_some(table, rng)
    before = _index(table)
    snapshot = committer(table).drop_partitions([partition(table, "mon")], BATCH_COMMIT_IDENTIFIER)
    remaining = [entry for entry in before if entry.partition == partition(table, "tue")]
    assert _index(table) == remaining
    assert snapshot.index_manifest is not None
    assert {row["dt"] for row in read_rows(table)} == {"tue"}
    # An append carries the index on.
    TableWriter(table, user="next").write([("+I", {"dt": "mon", "k": 9})])
    assert _index(table) == remaining


def _index(table: FileStoreTable) -> list[Any]:
    latest = table.snapshots.latest()
    return table.manifests.read_index_manifest(latest.index_manifest if latest else None)


def test_a_merge_of_manifests_removes_dropped_entries(tmp_path: Path) -> None:
    table = a_table(tmp_path, manifest__merge_min_count=2)
    writer = TableWriter(table)
    for value in "ab":
        writer.write(days("mon", "tue", value=value))
    committer(table).truncate(BATCH_COMMIT_IDENTIFIER)
    writer.write([])
    latest = table.snapshots.latest()
    assert latest is not None
    metas = FileStoreScan(table).manifests(latest)
    entries = [e for meta in metas for e in table.manifests.read_manifest(meta.file_name)]
    assert live_entries(entries) == []
    writer.write(days("tue", value="c"))
    writer.model.changes[:-1] = [[] for _ in writer.model.changes[:-1]]
    assert_table_is(writer)
