"""A rescale beside a job, or alone, keeps rows and levels in another number of buckets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.errors import CommitConflictError, OutdatedRowsError, UnsupportedTableError
from stream_app.model.bucket_id import POSTPONED
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from stream_app.planning.buckets.rescale_plan import planned_rescales
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.commit.batch_commit import batch_commit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from stream_app.table.overwrite.postponed_move import move_postponed
from stream_app.table.overwrite.rescale import check_rescalable, rescale_partition
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.engines.epoch_in_caller import EpochHere
from tests.support.files.faulty_file_io import Fault, FaultyFileIO
from tests.support.files.overtaken_file_io import OvertakenFileIO
from tests.support.jobs.table_writer import (
    TableWriter,
    by_content,
    read_rows,
)
from tests.support.jobs.two_table_job import TwoTables
from tests.support.suite.strides import Strides
from tests.support.tables.small_table import Change, small_table, write_changes
from tests.support.tables.snapshot_chain import files_on_disk, files_that_snapshots_name
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")

COLUMNS = "dt STRING, k INT, v STRING"


def a_table(folder: Path, columns: str = COLUMNS, **options: Any) -> FileStoreTable:
    keys = ("dt", "k")
    return small_table(folder / "db.db" / "t", columns, keys, ("dt",), **options).table


def rows(epoch: int, day: str = "mon", keys: int = 40) -> list[Change]:
    changes: list[Change] = [
        ("+I", {"dt": day, "k": k, "v": f"{epoch}"}) for k in range(epoch % 3, keys, epoch + 1)
    ]
    return [*changes, ("-D", {"dt": day, "k": epoch, "v": None})]


def rescaled(table: FileStoreTable, buckets: int | None, day: str = "mon") -> Snapshot | None:
    live = FileStoreScan(table).live(table.snapshots.latest())
    folder = f"dt={day}" if day else ""
    live = [entry for entry in live if table.paths.partition_path(entry.partition) == folder]
    snapshot = None
    for rescale_plan in planned_rescales(live, buckets):
        snapshot = rescale_partition(table, rescale_plan)
    return snapshot


def totals(table: FileStoreTable) -> dict[str, set[int]]:
    counts: dict[str, set[int]] = {}
    for entry in FileStoreScan(table).live(table.snapshots.latest()):
        assert entry.bucket < entry.total_buckets or entry.bucket == POSTPONED
        counts.setdefault(table.paths.partition_path(entry.partition), set()).add(
            entry.total_buckets
        )
    return counts


def check_sound(writer: TableWriter) -> None:
    """All versions are sound, and no file is left that none names."""
    writer.commit.compact_due()
    table = writer.table
    assert findings_of(table) == []
    assert files_on_disk(table, "data-") <= files_that_snapshots_name(table)


def test_a_partition_that_is_dropped_meanwhile_is_left_alone(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=4)
    TableWriter(table).write(rows(0))
    live = FileStoreScan(table).live(table.snapshots.latest())
    [rescale_plan] = planned_rescales(live, 2)
    batch_commit(table).drop_partitions([rescale_plan.partition], BATCH_COMMIT_IDENTIFIER)
    latest_id = table.snapshots.latest_id()
    assert rescale_partition(table, rescale_plan) is None
    assert table.snapshots.latest_id() == latest_id


@pytest.mark.parametrize("after", [1, 6, pytest.param(8, marks=pytest.mark.variant)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"changelog_producer": "input"},
        {"changelog_producer": "lookup"},
        {"changelog_producer": "full-compaction"},
        {"deletion_vectors__enabled": "true"},
        {"merge_engine": "first-row", "ignore_delete": "true"},
        {"merge_engine": "partial-update", "ignore_delete": "true"},
        {"file__format": "orc"},
    ],
    ids=lambda options: "-".join(options.values()) or "deduplicate",
)
def test_a_rescale_changes_no_row(tmp_path: Path, options: dict[str, str], after: int) -> None:
    """Waiting rows go on waiting, and the job continues with the changed number of buckets."""
    table = a_table(tmp_path, bucket=4, num_sorted_run__compaction_trigger=3, **options)
    writer = TableWriter(table)
    for epoch in range(5):
        writer.write([*rows(epoch), *rows(epoch, "tue")])
    before, levels = read_rows(table), levels_of(table)
    snapshot = rescaled(table, after)
    assert snapshot is not None
    assert by_content(read_rows(table)) == by_content(before)
    if not table.merges_by_vectors:  # else rows that are marked are left out
        assert levels_of(table) == levels
    assert totals(table) == {"dt=mon": {after}, "dt=tue": {4}}
    for epoch in range(5, 9):
        writer.write([*rows(epoch), *rows(epoch, "tue")])
    writer.commit.compact_fully()
    assert totals(table) == {"dt=mon": {after}, "dt=tue": {4}}
    if "merge_engine" not in options:
        assert by_content(read_rows(table)) == by_content(writer.model.rows())
    check_sound(writer)


def levels_of(table: FileStoreTable) -> dict[tuple[str, int], int]:
    """The rows of each partition's levels."""
    counts: dict[tuple[str, int], int] = {}
    for entry in FileStoreScan(table).live(table.snapshots.latest()):
        place = table.paths.partition_path(entry.partition), entry.file.level
        counts[place] = counts.get(place, 0) + entry.file.row_count
    return counts


def test_rows_that_deletion_vectors_mark_are_left_out(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=2, deletion_vectors__enabled="true")
    writer = TableWriter(table)
    writer.write([("+I", {"dt": "mon", "k": k, "v": "old"}) for k in range(20)])
    writer.commit.compact_fully()
    writer.write([("+U", {"dt": "mon", "k": 3, "v": "new"})])
    writer.commit.compact_due()
    rescaled(table, 5)
    assert sum(levels_of(table).values()) in (20, 21)
    assert by_content(read_rows(table)) == by_content(writer.model.rows())
    check_sound(writer)


def test_a_rescale_repeats_no_change_in_the_changelog(tmp_path: Path) -> None:
    """The changelog of rows that no compaction has seen comes after the rescale."""
    table = a_table(tmp_path, bucket=2, changelog_producer="lookup", write_only="true")
    writer = TableWriter(table)
    writer.write([("+I", {"dt": "mon", "k": k, "v": "a"}) for k in range(10)])
    rescaled(table, 4)
    writer.table = table.with_options({"write-only": "false"})
    writer.restart()
    writer.commit.compact_fully()
    changelog = [
        (row["rowkind"], row["k"])
        for changes in PaimonTable(table).changelog(snapshot=1)
        for row in changes.rows.to_pylist()
    ]
    assert sorted(changelog) == [("+I", k) for k in range(10)]
    check_sound(writer)


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_job_that_writes_and_compacts_meanwhile(tmp_path: Path, producer: str) -> None:
    table = a_table(tmp_path, bucket=2, changelog_producer=producer)
    writer = TableWriter(table)
    writer.write(rows(0))
    writer.commit.compact_fully()

    def epoch() -> None:
        writer.write(rows(writer.epoch))
        writer.commit.compact_fully()

    rivals: list[Callable[[], object]] = [epoch, epoch, epoch]
    assert rescaled(replace(table, file_io=OvertakenFileIO(before=rivals)), 8) is not None
    assert rivals == []
    writer.write(rows(writer.epoch))
    assert totals(table) == {"dt=mon": {8}}
    assert by_content(read_rows(table)) == by_content(writer.model.rows())
    check_sound(writer)


def test_a_rescale_gives_up_when_a_job_commits_before_each_try(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=2)
    writer = TableWriter(table)
    writer.write(rows(0))

    def epoch() -> None:
        writer.write(rows(1))

    with pytest.raises(CommitConflictError, match="20 times while it was split"):
        rescaled(replace(table, file_io=OvertakenFileIO(before=[epoch] * 40)), 8)
    assert totals(table) == {"dt=mon": {2}}
    check_sound(writer)


@pytest.mark.parametrize("is_first", ["move", "rescale"])
def test_a_rescale_beside_a_move_of_postponed_rows(tmp_path: Path, is_first: str) -> None:
    """No row gets a bucket by the number of before."""
    table = a_table(tmp_path, bucket=-2, postpone__default_bucket_num=2)
    writer = TableWriter(table)
    writer.write(rows(0))
    assert move_postponed(table) is not None
    writer.write(rows(1))
    if is_first == "move":
        overtaken = OvertakenFileIO(before=[lambda: move_postponed(table)])
        assert rescaled(replace(table, file_io=overtaken), 3) is not None
    else:
        overtaken = OvertakenFileIO(before=[lambda: rescaled(table, 3)])
        moved_counts = move_postponed(replace(table, file_io=overtaken))
        assert moved_counts is not None
        assert "has 3 buckets, not 2" in (moved_counts.outcome.conflict or "")
        assert totals(table) == {"dt=mon": {POSTPONED, 3}}
        assert move_postponed(table) is not None
    assert overtaken.before == []
    assert totals(table) == {"dt=mon": {3}}
    assert by_content(read_rows(table)) == by_content(writer.model.rows())
    assert findings_of(table) == []


def test_rows_that_were_routed_before_are_not_committed(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=2)
    writer = TableWriter(table)
    writer.write(rows(0))
    first, basis = writer.commit.follow_and_wait(), writer.commit.bucket_state.basis
    changes = write_changes(table, rows(1), first, basis)
    rescaled(table, 4)
    with pytest.raises(OutdatedRowsError, match="changed the partition to 4 buckets"):
        writer.commit.commit_epoch(1, changes, basis=basis)
    assert not writer.commit.bucket_state.fits(basis)
    writer.write(rows(1))
    assert by_content(read_rows(table)) == by_content(writer.model.rows())
    check_sound(writer)


def test_a_rescale_in_the_middle_of_a_commit(tmp_path: Path) -> None:
    """The commit loses the race to the rescale; then its rows do not fit."""
    table = a_table(tmp_path, bucket=2)
    TableWriter(table).write(rows(0))
    ours = replace(table, file_io=OvertakenFileIO(before=[lambda: rescaled(table, 4)]))
    writer = TableWriter(ours, user="ours")
    writer.table = ours
    writer.commit = type(writer.commit)(ours, "ours", writer.executor)
    with pytest.raises(OutdatedRowsError, match="changed the partition to 4 buckets"):
        writer.write(rows(1))
    writer.attempt(0)
    assert totals(table) == {"dt=mon": {4}}
    check_sound(writer)


@dataclass
class Rival(Fault):
    """Acts before the chosen operation, which does not fail."""

    act: Callable[[], object] = lambda: None

    def strikes(self, operation: str) -> bool:
        if len(self.done) == self.number:
            self.act()
        self.done.append(operation)
        return False


@pytest.mark.parametrize("overlaps", [False, True])
def test_a_running_job_adopts_a_rescale_before_any_operation(
    tmp_path: Path, overlaps: bool, strides: Strides
) -> None:
    """A rescale precedes a file operation of the job."""
    for operation in strides.operations(2):
        tables = TwoTables(tmp_path / str(operation), orders={"bucket": 2})
        table = tables.tables[0]
        for epoch in range(4):
            tables.send([{"k": k, "v": f"{epoch}"} for k in range(epoch, 12)], [])
        rival = Rival(operation, act=partial(rescaled, table, 4, ""))
        runner = EpochHere(overlaps=overlaps)
        committer = tables.started(runner, file_io=(FaultyFileIO(fault=rival), None))
        for epoch in range(4):
            committer.process_epoch(tables.messages(epoch).combine_chunks().to_batches(), epoch)
            tables.done(epoch)
        committer.wait_until_committed()
        committer.compact_due()
        assert committer.failure is None
        assert by_content(read_rows(table)) == by_content(tables.expected_rows()[0])
        assert findings_of(table) == []
        if not rival.has_struck:
            break
    assert operation > 40


def test_an_altered_table_is_rescaled_partition_by_partition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verb alters the option; the job takes it for new partitions, and keeps old numbers."""
    table = a_table(tmp_path, bucket=2)
    writer = TableWriter(table)
    writer.write([*rows(0), *rows(0, "tue")])
    assert main(["rescale", table.location, "--buckets", "3", "--dry-run"]) == 0
    plan = capsys.readouterr().out
    assert plan.startswith("option 'bucket': 2 → 3\ndt=mon: 2 → 3 buckets (")
    assert totals(table) == {"dt=mon": {2}, "dt=tue": {2}}
    assert main(["alter", table.location, "--set", "bucket=3"]) == 0
    assert main(["rescale", table.location, "--partition", "dt=mon"]) == 0
    writer.table = open_file_store_table(table.location, table.clock)
    writer.restart()
    writer.write([*rows(1), *rows(1, "tue"), *rows(1, "wed")])
    assert totals(table) == {"dt=mon": {3}, "dt=tue": {2}, "dt=wed": {3}}
    assert main(["rescale", table.location]) == 0
    writer.write([*rows(2), *rows(2, "tue"), *rows(2, "wed")])
    assert {*map(tuple, totals(table).values())} == {(3,)}
    capsys.readouterr()
    assert main(["rescale", table.location]) == 0
    assert "all partitions have their number of buckets" in capsys.readouterr().out
    assert by_content(read_rows(writer.table)) == by_content(writer.model.rows())
    check_sound(writer)


def test_the_whole_table_gets_a_number_of_its_size(tmp_path: Path) -> None:
    table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",), bucket=4).table
    writer = TableWriter(table)
    writer.write([("+I", {"k": k, "v": "a"}) for k in range(40)])
    assert main(["rescale", table.location, "--buckets", "auto"]) == 0
    now = open_file_store_table(table.location)
    assert (now.options.bucket, totals(now)) == (1, {"": {1}})
    assert now.snapshots.snapshot(2).commit_kind is CommitKind.OVERWRITE
    assert by_content(read_rows(now)) == by_content(writer.model.rows())


@pytest.mark.parametrize(
    ("keys", "options", "complaint"),
    [
        (("dt", "k"), {"bucket": -1}, "find their bucket by an index of the hashes"),
        ((), {"bucket": -1}, "find their bucket by none"),
        (("dt", "k"), {"bucket": 2, "partition_lookup": "true"}, "the same bucket in all"),
    ],
)
def test_tables_without_a_bucket_by_key_are_not_rescaled(
    tmp_path: Path, keys: tuple[str, ...], options: dict[str, Any], complaint: str
) -> None:
    table = small_table(tmp_path / "db.db" / "t", COLUMNS, keys, ("dt",), **options).table
    with pytest.raises(UnsupportedTableError, match=complaint):
        check_rescalable(table)
