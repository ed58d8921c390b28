"""Paimon 2 and stream_app let the later snapshot win with ``sequence.snapshot-ordering``.

No engine that can be had reads such tables so: Java 2 has no published jar, and PyPaimon 2.1 and
paimon-rust 0.4 take the rows' own numbers. So the files' numbers are held against the rule of
Paimon's source, and the rows against a model. What we compact has the numbers in its rows, and is
read by Java 1.4.2, PyPaimon and paimon-rust.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.model.files.data_file_meta import FileSource
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.simulation.model.merging import Record, merge_of, merged
from tests.support.interop.followed_rows import our_changes
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, by_content, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import Change, small_table, write_changes
from tests.support.tables.sound_table import sound_report

pytestmark = pytest.mark.usefixtures("unsynced")
ORDERED = {"sequence.snapshot-ordering": "true", "write-only": "true", "bucket": "2"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "input": {"changelog-producer": "input"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation"},
    "first-row": {"merge-engine": "first-row"},
}


def table_of(path: Path, **options: str) -> FileStoreTable:
    all_options = {**ORDERED, **options}
    return small_table(path, "k INT, v BIGINT, p STRING, t STRING", ["k"], **all_options).table


def compact(table: FileStoreTable, *, whole: bool) -> None:
    """Compact as `stream-app compact` does beside write-only jobs."""
    compacting = table.with_options(
        {"write-only": "false", "num-sorted-run.compaction-trigger": "2"}
    )
    executor = CompactInCaller(compacting)
    commit = StreamTableCommit(compacting, "compactor", executor, BATCH_COMMIT_IDENTIFIER)
    commit.state.follow_and_load(None)
    commit.compact_fully() if whole else commit.compact_due()


class Job:
    """A writer that takes its own sequence numbers, whatever others have written."""

    def __init__(self, table: FileStoreTable, user: str, first: int) -> None:
        self.commit = StreamTableCommit(table, user, CompactInCaller(table))
        self.first, self.epoch = first, 0

    def write(self, changes: Sequence[Change]) -> None:
        self.commit.follow_and_wait()
        files = write_changes(self.commit.table, changes, self.first)
        self.commit.commit_epoch(self.epoch, files)
        self.epoch += 1


@pytest.mark.java
@pytest.mark.parametrize("engine", ENGINES)
def test_the_row_of_the_later_snapshot_wins(
    tmp_path: Path, paimon_java: PaimonJava, pypaimon: PyPaimonReader, engine: str
) -> None:
    table = table_of(tmp_path / "db.db" / "t", **ENGINES[engine])
    jobs = [Job(table, "one", 1_000_000), Job(table, "two", 0)]
    rng, rows = random.Random(engine), dict[int, Record]()
    merge = merge_of(table.schema.options)
    for epoch in range(8):
        changes: list[Change] = []
        for k in rng.sample(range(12), 8):
            row = {"k": k, "v": rng.randrange(99), "p": rng.choice(["x", None]), "t": None}
            changes.append(("+I", row))
            if (new := merged(merge, rows.get(k), [("+I", row)])) is not None:
                rows[k] = new
        jobs[epoch % 2].write(changes)
        if epoch in (2, 5, 7):
            compact(table, whole=epoch == 5)
        if not table.skips_level0 or epoch in (2, 5, 7):
            assert by_content(read_rows(table)) == by_content(rows.values()), epoch
    assert sound_report(table).file_count
    compact(table, whole=True)
    assert by_content(paimon_java.read(table.location)) == by_content(rows.values())
    assert by_content(normal_rows(pypaimon.read(table.location))) == by_content(rows.values())
    rust = normal_rows(pypaimon.read_by_rust(table.location))
    assert by_content(rust) == by_content(rows.values())


def test_appended_files_have_the_number_of_their_snapshot_and_compacted_ones_their_rows(
    tmp_path: Path,
) -> None:
    table = table_of(tmp_path / "db.db" / "t", bucket="1")
    job = Job(table, "one", 500)
    for v in range(2):
        job.write([("+I", {"k": k, "v": v, "p": None, "t": None}) for k in range(v, 3)])
    assert bounds(table) == {(1, 1, FileSource.APPEND), (2, 2, FileSource.APPEND)}
    compact(table, whole=True)
    assert bounds(table) == {(1, 2, FileSource.COMPACT)}
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.COMPACT


def bounds(table: FileStoreTable) -> set[tuple[int, int, FileSource | None]]:
    files = [entry.file for entry in FileStoreScan(table).live(table.snapshots.latest())]
    return {(f.min_sequence_number, f.max_sequence_number, f.file_source) for f in files}


def test_a_commit_that_loses_a_race_takes_the_number_that_it_gets(tmp_path: Path) -> None:
    table = table_of(tmp_path / "db.db" / "t", bucket="1")
    row = {"k": 1, "p": None, "t": None}
    first, second = Job(table, "one", 9), Job(table, "two", 9)
    first.write([("+I", {**row, "v": 1})])
    first.commit.follow_and_wait()
    files = write_changes(table, [("+I", {**row, "v": 3})], 0)
    second.write([("+I", {**row, "v": 2})])
    first.commit.commit_epoch(1, files)
    assert read_rows(table) == [{**row, "v": 3}]
    assert bounds(table) == {(n, n, FileSource.APPEND) for n in (1, 2, 3)}


def test_other_readers_see_the_later_row_once_it_is_compacted(
    tmp_path: Path, pypaimon: PyPaimonReader
) -> None:
    table, row = table_of(tmp_path / "db.db" / "t", bucket="1"), {"k": 1, "p": None, "t": None}
    Job(table, "one", 1_000).write([("+I", {**row, "v": 1})])
    Job(table, "two", 0).write([("+I", {**row, "v": 2})])
    assert read_rows(table) == [{**row, "v": 2}]
    for read in (pypaimon.read, pypaimon.read_by_rust):
        assert normal_rows(read(table.location)) == [{**row, "v": 1}], "they know the option now"
    compact(table, whole=True)
    for read in (pypaimon.read, pypaimon.read_by_rust):
        assert normal_rows(read(table.location)) == [{**row, "v": 2}]


def test_followers_get_changes_in_the_order_of_snapshots(tmp_path: Path) -> None:
    table = table_of(tmp_path / "db.db" / "t", **{"changelog-producer": "lookup"})
    jobs = [Job(table, "one", 1_000), Job(table, "two", 0)]
    for v in range(3):
        jobs[v % 2].write([("+I", {"k": 1, "v": v, "p": None, "t": None})])
        compact(table, whole=False)
    by_snapshot = our_changes(stream_app.PaimonTable(table).changelog(snapshot=1))
    changes = [change for changes in by_snapshot.values() for change in changes]
    assert [change[:2] for change in changes] == ["+I", "+U", "-U", "+U", "-U"]


def test_contradictions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "db.db" / "t"
    for options, problem in (
        ({"write-only": "false"}, "needs write-only = true"),
        ({"sequence.field": "v"}, "does not go with sequence.field"),
    ):
        with pytest.raises(UsageError, match=problem):
            table_of(path, **options)
    with pytest.raises(UsageError, match="snapshot-ordering needs primary-keys"):
        small_table(path, "k INT", **{"sequence.snapshot-ordering": "true"})
    table = table_of(path)
    assert main(["alter", table.location, "--set", "write-only=false"]) == 2


def test_files_without_a_source_cannot_be_ordered(tmp_path: Path) -> None:
    table = table_of(tmp_path / "db.db" / "t", bucket="1")
    writer = TableWriter(table)
    writer.write([("+I", {"k": 1, "v": 1, "p": None, "t": None})])
    [entry] = FileStoreScan(table).live(table.snapshots.latest())
    files = table.bucket_files(entry.partition, entry.bucket)
    with pytest.raises(UnsupportedTableError, match="cannot order its rows"):
        list(files.read(replace(entry.file, file_source=None)))
