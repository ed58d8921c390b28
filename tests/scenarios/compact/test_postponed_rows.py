"""Rows of ``bucket = -2`` wait unread in bucket-postpone until a compaction gives them buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_app.model.bucket_id import POSTPONED
from stream_app.model.snapshot import CommitKind
from stream_app.planning.read.stream_start import stream_start
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.follow.stream_scan import StreamScan
from stream_app.table.overwrite.postponed_move import move_postponed
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.engines.epoch_in_caller import EpochHere
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.jobs.two_table_job import TwoTables
from tests.support.tables.small_table import Change, SmallTable, small_table
from tests.support.tables.snapshot_chain import files_on_disk, files_that_snapshots_name
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path, **options: Any) -> FileStoreTable:
    columns = "dt STRING, k INT, v STRING"
    small: SmallTable = small_table(
        folder / "db.db" / "t", columns, ("dt", "k"), ("dt",), bucket=-2, **options
    )
    return small.table


def rows(epoch: int) -> list[Change]:
    changes: list[Change] = [
        ("+I", {"dt": f"d{k % 2}", "k": k, "v": f"{epoch}"}) for k in range(epoch, 30)
    ]
    return [*changes, ("-D", {"dt": f"d{epoch % 2}", "k": epoch, "v": None})]


def totals(table: FileStoreTable) -> set[tuple[str, int]]:
    return {
        (table.paths.partition_path(entry.partition), entry.total_buckets)
        for entry in FileStoreScan(table).live(table.snapshots.latest())
    }


def moved_rows(table: FileStoreTable) -> int:
    moved_counts = move_postponed(table)
    assert moved_counts is not None
    assert moved_counts.outcome.conflict is None
    return moved_counts.row_count


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_rows_are_read_when_they_have_a_bucket(tmp_path: Path, producer: str) -> None:
    table = a_table(tmp_path, changelog_producer=producer, postpone__target_row_num_per_bucket=20)
    writer = TableWriter(table)
    for epoch in range(3):
        writer.write(rows(epoch))
        assert read_rows(table) == []
    assert totals(table) == {("dt=d0", POSTPONED), ("dt=d1", POSTPONED)}
    assert moved_rows(table) == 90
    latest_snapshot = table.snapshots.latest()
    assert latest_snapshot is not None
    assert latest_snapshot.commit_kind is CommitKind.COMPACT
    assert totals(table) == {("dt=d0", 3), ("dt=d1", 3)}
    for epoch in range(3, 6):
        writer.write(rows(epoch))
    moved_rows(table)
    assert totals(table) == {("dt=d0", 3), ("dt=d1", 3)}
    writer.restart()
    writer.commit.compact_fully()
    assert by_content(read_rows(table)) == by_content(writer.model.rows())
    assert move_postponed(table) is None
    assert findings_of(table) == []
    assert files_on_disk(table, "data-") <= files_that_snapshots_name(table)
    if producer != "none":
        replayed_values = dict[tuple[str, int], str]()
        for changes in PaimonTable(table).changelog(snapshot=1):
            for row in changes.rows.to_pylist():
                if row["rowkind"] in ("+I", "+U"):
                    replayed_values[row["dt"], row["k"]] = row["v"]
                else:
                    replayed_values.pop((row["dt"], row["k"]), None)
        rebuilt = [{"dt": dt, "k": k, "v": v} for (dt, k), v in replayed_values.items()]
        assert by_content(rebuilt) == by_content(writer.model.rows())


def test_a_follower_gets_the_rows_that_wait_when_it_begins(tmp_path: Path) -> None:
    """Without a changelog the move emits no changes, and the follower is past older snapshots."""
    table = a_table(tmp_path)
    writer = TableWriter(table)
    writer.write(rows(0))
    moved_rows(table)
    writer.write(rows(1))
    scan, read = StreamScan(table), StreamRead(table)
    step = scan.step(scan.begin(stream_start("latest-full")))
    moved_rows(table)
    model = dict[tuple[str, int], str]()
    for split in (*step.splits, *scan.step(step.end).splits):
        for row in (row for batch in read.read(split) for row in batch.to_pylist()):
            key = row["dt"], row["k"]
            model.pop(key, None)
            if row["rowkind"] in ("+I", "+U"):
                model[key] = row["v"]
    followed_rows = [{"dt": dt, "k": k, "v": v} for (dt, k), v in model.items()]
    assert by_content(followed_rows) == by_content(writer.model.rows())


@pytest.mark.parametrize(
    ("options", "count"),
    [({"postpone__default_bucket_num": 5}, 5), ({}, 1)],
    ids=["default", "by bytes"],
)
def test_the_first_number_of_buckets(tmp_path: Path, options: dict[str, Any], count: int) -> None:
    table = a_table(tmp_path, **options)
    TableWriter(table).write(rows(0))
    moved_rows(table)
    assert totals(table) == {("dt=d0", count), ("dt=d1", count)}


def test_only_one_of_two_compactors_moves_postponed_rows(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    TableWriter(table).write(rows(0))
    before = table.snapshots.latest()
    assert before is not None
    moved_rows(table)
    files = files_on_disk(table, "data-")
    assert move_postponed(table) is None
    assert files_on_disk(table, "data-") == files


def test_names_of_postponed_files_have_the_share_of_their_keys(tmp_path: Path) -> None:
    """Paimon replays the files of one writer in their order; a key has one writer for good."""
    table = a_table(tmp_path)
    writer = TableWriter(table)
    for epoch in range(2):
        writer.write(rows(epoch))
    shares: dict[int, set[str]] = {}
    for entry in FileStoreScan(table).live(table.snapshots.latest()):
        prefix, _, _ = entry.file.file_name.rpartition("-w-")
        assert prefix.startswith("data--u-stream_app-s-")
        reader = table.bucket_files(entry.partition, POSTPONED)
        for batch in reader.read(entry.file):
            for key in batch.column("k").to_pylist():
                shares.setdefault(key, set()).add(prefix)
    assert {len(prefixes) for prefixes in shares.values()} == {1}


def test_a_job_writes_and_another_moves(tmp_path: Path) -> None:
    tables = TwoTables(tmp_path, orders={"bucket": -2, "postpone__default_bucket_num": 2})
    table = tables.tables[0]
    for epoch in range(6):
        tables.send([{"k": k, "v": f"{epoch}"} for k in range(epoch, 12)], [])
    committer = tables.started(EpochHere(overlaps=True))
    for epoch in range(6):
        committer.process_epoch(tables.messages(epoch).combine_chunks().to_batches(), epoch)
        tables.done(epoch)
        if epoch % 2:
            committer.wait_until_committed()
            moved_rows(table)
    committer.wait_until_committed()
    committer.compact_due()
    assert committer.failure is None
    assert by_content(read_rows(table)) == by_content(tables.expected_rows()[0])
    assert findings_of(table) == []
