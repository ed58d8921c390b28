"""Each key stays in its bucket with ``bucket = -1``, whatever overlaps, fails or crashes."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.round_commits import DecodedEpoch, SourceEpoch
from stream_app.epochs.rounds.round_runner import RoundRunner
from stream_app.errors import CommitConflictError, CorruptFileError
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.snapshot import Snapshot
from stream_app.table.check.source_check import SourceCheck
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.single_append import SingleAppend
from stream_app.table.versions.bucket_counts import basis_of
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.index_manifests import index_manifest
from stream_app.table.write.dynamic_buckets import key_hashes
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, Mode
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, by_content, read_rows
from tests.support.jobs.two_table_job import TRUNCATE, Row, TwoTables
from tests.support.suite.strides import Strides
from tests.support.tables.small_table import write_changes
from tests.support.tables.snapshot_chain import check_chain, files_on_disk
from tests.support.tables.sound_table import sound_report

pytestmark = pytest.mark.usefixtures("unsynced")
HOURS = 4 * 3600
SMALL = {"bucket": -1, "dynamic_bucket__target_row_num": 5, "dynamic_bucket__initial_buckets": 2}


def orders(*keys: int, v: str = "") -> list[Row]:
    return [{"k": k, "v": v or f"{k}"} for k in keys]


def parts(tables: TwoTables, epoch: int) -> Parts:
    """An epoch's messages for two tasks."""
    [messages] = tables.messages(epoch).combine_chunks().to_batches()
    half = messages.num_rows // 2
    return [messages.slice(0, half), messages.slice(half)]


def index_of(table: FileStoreTable) -> dict[int, set[int]]:
    """Bucket → hashes, in the latest snapshot; each hash is in one bucket."""
    latest = table.snapshots.latest()
    assert latest is not None
    [buckets] = index_manifest(table, latest.index_manifest).hash_entries.values()
    hashes_of = {
        bucket: set(table.hash_index_files.read(entry).tolist())
        for bucket, entry in buckets.items()
    }
    hash_counts = Counter(key_hash for hashes in hashes_of.values() for key_hash in hashes)
    assert max(hash_counts.values()) == 1
    return hashes_of


def assert_right(tables: TwoTables) -> None:
    """Rows are right, and a row lies in the bucket that has its hash."""
    for table, rows in zip(tables.tables, tables.expected_rows(), strict=True):
        check_chain(table)
        assert by_content(read_rows(table)) == by_content(rows)
    table = tables.tables[0]
    index = index_of(table)
    for entry in FileStoreScan(table).live(table.snapshots.latest()):
        files = table.bucket_files(entry.partition, entry.bucket)
        for batch in files.read(entry.file):
            hashes = key_hashes(batch, table.schema).tolist()
            assert set(hashes) <= index[entry.bucket]
    sound_report(table)


def decode_epoch(work: RoundRunner[Parts], tables: TwoTables, epoch: int) -> DecodedEpoch[Parts]:
    source = SourceEpoch(epoch, parts(tables, epoch), f"end of {epoch}")
    return work.decode(source, work.tables.feeds)


def open_committer(tables: TwoTables, runner: EpochHere) -> EpochCommitter[Parts]:
    committer: EpochCommitter[Parts] = tables.started(runner)
    for feed in committer.tables.feeds:
        feed.table_job.open("the job")
    return committer


class CountingRoutes(EpochHere):
    """Counts how often each epoch is routed."""

    def __init__(self) -> None:
        super().__init__(overlaps=True)
        self.routed: Counter[int] = Counter()

    def route(self, epoch: int, messages: Parts, plan: Any) -> Any:
        self.routed[epoch] += 1
        return super().route(epoch, messages, plan)


def three_that_overlap(tables: TwoTables, runner: CountingRoutes) -> None:
    """Each epoch is routed before the one before is written."""
    work = open_committer(tables, runner).round_runner
    first, second = decode_epoch(work, tables, 0), decode_epoch(work, tables, 1)
    work.finish(first, work.tables.feeds)
    third = decode_epoch(work, tables, 2)
    work.finish(second, work.tables.feeds)
    work.finish(third, work.tables.feeds)


def test_an_epoch_that_is_routed_beside_another_gives_its_keys_the_same_buckets(
    tmp_path: Path,
) -> None:
    tables, runner = TwoTables(tmp_path, orders=SMALL), CountingRoutes()
    for epoch in range(3):
        tables.send(orders(1, 2, 3, 10 + epoch), [])
    three_that_overlap(tables, runner)
    assert_right(tables)
    assert runner.routed == {0: 1, 1: 1, 2: 1}


def test_an_epoch_is_routed_again_when_the_one_before_had_other_open_buckets(
    tmp_path: Path,
) -> None:
    """Epoch 0 fills the buckets, and so epoch 2 opens others than epoch 1 did."""
    tables, runner = TwoTables(tmp_path, orders=SMALL), CountingRoutes()
    tables.send(orders(*range(40)), [])
    tables.send(orders(*range(100, 110)), [])
    tables.send(orders(*range(100, 110), v="newer"), [])
    three_that_overlap(tables, runner)
    assert_right(tables)
    assert runner.routed == {0: 1, 1: 1, 2: 2}
    assert sorted(index_of(tables.tables[0])) == [0, 1]


def test_keys_of_another_writer_are_seen_before_the_rows_are_written(tmp_path: Path) -> None:
    tables, runner = TwoTables(tmp_path, orders=SMALL), CountingRoutes()
    tables.send(orders(1, 2), [])
    tables.send(orders(*range(10), v="ours"), [])
    work = open_committer(tables, runner).round_runner
    work.finish(decode_epoch(work, tables, 0), work.tables.feeds)
    routed_blocks = decode_epoch(work, tables, 1)
    other_writer = TableWriter(tables.tables[0], CompactInCaller, user="other")
    other_writer.write([("+I", {"k": k, "v": "theirs"}) for k in range(100, 150)])
    other_writer.write([("+I", {"k": k, "v": "theirs"}) for k in range(5, 9)])
    work.finish(routed_blocks, work.tables.feeds)
    assert runner.routed == {0: 1, 1: 2}
    tables.sent.append({"a": orders(*range(100, 150), v="theirs"), "b": []})
    assert_right(tables)


def test_keys_of_another_writer_are_seen_before_the_rows_are_committed(tmp_path: Path) -> None:
    tables, runner = TwoTables(tmp_path, orders=SMALL), CountingRoutes()
    tables.send(orders(1, 2), [])
    tables.send(orders(*range(10), v="ours"), [])
    work = open_committer(tables, runner).round_runner
    work.finish(decode_epoch(work, tables, 0), work.tables.feeds)
    routed_blocks = decode_epoch(work, tables, 1)
    other_writer = TableWriter(tables.tables[0], CompactInCaller, user="other")
    write = routed_blocks.routed_epoch.write
    writes: list[Any] = []

    def overtaken(plan: Any) -> Any:
        output = write(plan)
        if not writes:
            other_writer.write([("+I", {"k": k, "v": "theirs"}) for k in (3, 200)])
        writes.append(plan)
        return output

    routed_blocks = replace(
        routed_blocks, routed_epoch=replace(routed_blocks.routed_epoch, write=overtaken)
    )
    work.finish(routed_blocks, work.tables.feeds)
    assert runner.routed == {0: 1, 1: 2}
    tables.sent.append({"a": orders(200, v="theirs"), "b": []})
    assert_right(tables)


def test_a_commit_on_another_index_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    tables = TwoTables(tmp_path, orders=SMALL)
    table = tables.tables[0]
    ours = TableWriter(table, CompactInCaller)
    ours.write([("+I", {"k": 1, "v": "x"})])
    taken = ours.commit.bucket_state.basis
    other_writer = TableWriter(table, CompactInCaller, user="other")
    other_writer.write([("+I", {"k": 2, "v": "theirs"})])
    before = files_on_disk(table, "index-") | files_on_disk(table, "data-")
    first = ours.commit.follow_and_wait()
    changes = write_changes(table, [("+I", {"k": 2, "v": "ours"})], first, taken)
    with pytest.raises(CommitConflictError, match="would be in two buckets") as caught:
        ours.commit.commit_epoch(1, changes, basis=taken)
    assert "assigns the epoch's rows to buckets again" in caught.value.fix
    assert files_on_disk(table, "index-") | files_on_disk(table, "data-") == before


def test_an_epoch_without_new_keys_writes_no_index_file(tmp_path: Path) -> None:
    tables = TwoTables(tmp_path, orders=SMALL)
    writer = TableWriter(tables.tables[0], CompactInCaller)
    writer.write([("+I", {"k": k, "v": "x"}) for k in range(4)])
    before = latest_of(tables.tables[0]).index_manifest
    writer.write([("+U", {"k": k, "v": "y"}) for k in range(4)])
    writer.commit.compact_fully()
    assert latest_of(tables.tables[0]).index_manifest == before
    assert len(files_on_disk(tables.tables[0], "index-")) == 1 + 2


def latest_of(table: FileStoreTable) -> Snapshot:
    latest = table.snapshots.latest()
    assert latest is not None
    return latest


@pytest.mark.parametrize("holds_tables", [False, True])
def test_a_truncate_begins_the_index_anew(tmp_path: Path, holds_tables: bool) -> None:
    tables, runner = TwoTables(tmp_path, orders=SMALL), EpochHere(overlaps=True)
    committer = tables.started(runner, holds_tables=holds_tables)
    sent: list[Sequence[Row]] = [
        orders(*range(30)),
        [*orders(50, 51), TRUNCATE, *orders(*range(20, 40))],
        orders(*range(25, 60), v="later"),
    ]
    for epoch, rows in enumerate(sent):
        tables.send(rows, [])
        runner.topics = [
            b for number in range(epoch + 1) for b in tables.messages(number).to_batches()
        ]
        committer.process_epoch(parts(tables, epoch), epoch)
        tables.done(epoch)
    committer.wait_until_committed()
    assert_right(tables)
    assert sum(map(len, index_of(tables.tables[0]).values())) == 40


@pytest.mark.parametrize("mode", ["before", "after"])
def test_wherever_the_job_ends_the_next_one_goes_on_with_the_same_buckets(
    tmp_path: Path, mode: Mode, strides: Strides
) -> None:
    """A file operation of an epoch ends the job."""
    for operation in strides.operations():
        tables = TwoTables(
            tmp_path / str(operation), orders={**SMALL, "changelog_producer": "none"}
        )
        tables.send(orders(*range(8)), [])
        tables.send(orders(*range(4, 20), v="newer"), [])
        tables.send(orders(*range(16, 24), v="newest"), [])
        run(tables.started(EpochHere()), tables, 0)
        fault = Fault(operation, mode, stays_dead=True)
        with contextlib.suppress(Exception):
            run(tables.started(EpochHere(), file_io=FaultyFileIO(fault=fault)), tables, 1)
        again = tables.started(EpochHere())
        run(again, tables, 1)
        run(again, tables, 2)
        tables.tables[0].clock.sleep(HOURS)
        again.compact_due()
        assert_right(tables)
        if not fault.has_struck:
            break
    assert operation > 15


def run(committer: EpochCommitter[Parts], tables: TwoTables, epoch: int) -> None:
    """An epoch; what stops the job is raised as it is."""
    try:
        committer.process_epoch(parts(tables, epoch), epoch)
    except RuntimeError:
        assert committer.failure is not None
        raise committer.failure from None


def test_a_single_append_and_the_check_of_a_source_know_the_buckets(tmp_path: Path) -> None:
    """A replay and a backfill write in the same way, and `check --conf` compares in it."""
    tables = TwoTables(tmp_path, orders=SMALL)
    table = tables.tables[0]
    TableWriter(table, CompactInCaller).write([("+I", {"k": k, "v": f"{k}"}) for k in range(30)])
    append = SingleAppend.begin(table, "replay")
    rows = pa.RecordBatch.from_pydict(
        {VALUE_KIND: [0] * 20, "k": [*range(20, 40)], "v": [f"{k}" for k in range(20, 40)]},
        pa.schema([(VALUE_KIND, pa.int8()), ("k", pa.int64()), ("v", pa.string())]),
    )
    append.commit(append.write(rows), {})
    tables.send(orders(*range(40)), [])
    assert_right(tables)
    check = SourceCheck(table, str(tmp_path / "scratch"), basis_of(table, latest_of(table)))
    whole = pa.concat_batches(
        [
            rows.set_column(1, "k", pa.array([*range(20)])).set_column(
                2, "v", pa.array([f"{k}" for k in range(20)])
            ),
            rows,
        ]
    )
    check.source_rows.add(check.assigner.assign(whole))
    assert list(check.findings(latest_of(table))) == []


def test_an_index_that_expires_while_rows_are_routed_by_it(tmp_path: Path) -> None:
    """Tasks fail at the missing file; the epoch before is committed meanwhile."""
    tables, runner = TwoTables(tmp_path, orders=SMALL), FailingRoutes()
    for keys in ((1, 2), (2, 3), (3, 4)):
        tables.send(orders(*keys), [])
    work = open_committer(tables, runner).round_runner
    work.finish(decode_epoch(work, tables, 0), work.tables.feeds)
    second = decode_epoch(work, tables, 1)
    runner.before_failure = lambda: work.finish(second, work.tables.feeds)
    work.finish(decode_epoch(work, tables, 2), work.tables.feeds)
    assert runner.routed == {0: 1, 1: 1, 2: 2}
    assert_right(tables)


def test_tasks_that_fail_by_themselves_are_not_repeated(tmp_path: Path) -> None:
    tables, runner = TwoTables(tmp_path, orders=SMALL), FailingRoutes()
    tables.send(orders(1, 2), [])
    work = open_committer(tables, runner).round_runner
    runner.before_failure = lambda: None
    with pytest.raises(CorruptFileError):
        decode_epoch(work, tables, 0)
    assert runner.routed == {0: 1}


class FailingRoutes(CountingRoutes):
    """Once, something happens and the tasks fail."""

    def __init__(self) -> None:
        super().__init__()
        self.before_failure: Callable[[], object] | None = None

    def route(self, epoch: int, messages: Parts, plan: Any) -> Any:
        happens, self.before_failure = self.before_failure, None
        if happens is None:
            return super().route(epoch, messages, plan)
        self.routed[epoch] += 1
        happens()
        raise CorruptFileError("an index file of hashes is missing", where="index-1")
