"""One micro-batch feeds two tables of different kinds; each has its own state and its own epochs.

Wherever the job ends in an epoch, the next process finishes the epoch for the tables that lack it.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.round_commits import OFFSETS_PROPERTY
from stream_app.errors import BadRecordsError, StreamAppError
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, Mode
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.jobs.two_table_job import EndedError, TwoTables, reports
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")


def two_tables(folder: Path) -> TwoTables:
    tables = TwoTables(folder)
    tables.send(
        [{"k": number % 7, "v": f"first {number}"} for number in range(20)],
        [{"day": f"day {number % 2}", "n": number} for number in range(9)],
    )
    return tables


def parts(tables: TwoTables, epoch: int) -> Parts:
    """The epoch's messages for two reading tasks, each of which reads both topics."""
    [messages] = tables.messages(epoch).combine_chunks().to_batches()
    sizes = {topic: len(rows) for topic, rows in tables.sent[epoch].items()}
    half = {topic: size // 2 for topic, size in sizes.items()}
    first = [messages.slice(0, half["a"]), messages.slice(sizes["a"], half["b"])]
    rest = [
        messages.slice(half["a"], sizes["a"] - half["a"]),
        messages.slice(sizes["a"] + half["b"]),
    ]
    return [pa.concat_batches(first), pa.concat_batches(rest)]


def run(committer: EpochCommitter[Parts], tables: TwoTables, epoch: int) -> None:
    """An epoch as Spark asks for it; what stops the job is raised as it is."""
    try:
        committer.process_epoch(parts(tables, epoch), epoch)
    except RuntimeError:
        assert committer.failure is not None
        raise committer.failure from None


def assert_right(tables: TwoTables) -> None:
    for table, rows in zip(tables.tables, tables.expected_rows(), strict=True):
        check_chain(table)
        assert by_content(read_rows(table)) == by_content(rows)


def test_each_table_gets_its_own_rows_in_an_epoch_of_its_own(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path), EpochHere()
    committer = tables.started(runner)
    run(committer, tables, 0)
    tables.send([{"k": 3, "v": "second"}], [])
    run(committer, tables, 1)
    assert_right(tables)
    orders, events = (
        [report.counts.change_count for report in reports(committer, index)] for index in (0, 1)
    )
    assert (orders, events) == ([20, 1], [9, 0])
    assert (
        committer.round_runner.totals.message_count,
        committer.round_runner.totals.change_count,
    ) == (
        30,
        30,
    )
    for table, ends in zip(tables.tables, ({"a": {"0": 20}}, {"b": {"0": 8}}), strict=True):
        offsets = [
            json.loads((snapshot.properties or {})[OFFSETS_PROPERTY])
            for snapshot in check_chain(table)
            if OFFSETS_PROPERTY in (snapshot.properties or {})
        ]
        assert offsets[-1] == ends
        assert [snapshot.commit_user for snapshot in table.snapshots.backwards()][-1] == "the job"


def test_an_epoch_under_way_is_behind_until_it_is_committed(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path), EpochHere()
    committer = tables.started(runner, ends_at=(1, None))
    positions = [committer.reached_offsets]
    run(committer, tables, 0)
    positions.append(committer.reached_offsets)
    tables.send([{"k": 3, "v": "second"}], [{"day": "day 0", "n": 100}])
    with pytest.raises(EndedError):
        run(committer, tables, 1)
    before, between, after = *positions, committer.reached_offsets
    assert before is None
    assert between is not None
    assert between.lag({"a": {"0": 25}}) == {("a", "0"): 5, ("b", "0"): 0}
    assert after is not None
    assert after.lag({}) == {("a", "0"): 1, ("b", "0"): 1}


def test_the_schema_of_each_epoch_is_the_one_that_its_table_has_then(tmp_path: Path) -> None:
    """A plan is made for each epoch; a format only where the table's schema is another one."""
    tables, runner = two_tables(tmp_path), EpochHere()
    committer = tables.started(runner)
    run(committer, tables, 0)
    tables.send([{"k": 1, "v": "x"}], [{"day": "d", "n": 1}])
    run(committer, tables, 1)
    first, second = (runner.plans[epoch].table_plans[0] for epoch in (0, 1))
    assert first.next_sequence_number == 0 < second.next_sequence_number
    assert first.pipeline is second.pipeline
    job = committer.tables.feeds[0].table_job
    job.table = job.table.with_options({"ignore-update-before": "true"})
    assert (
        committer.round_runner.plan().table_plans[0].table.schema.options["ignore-update-before"]
        == "true"
    )
    assert committer.round_runner.plan().table_plans[0].pipeline is not first.pipeline


def test_an_epoch_that_one_table_has_is_finished_for_the_other(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    run(tables.started(EpochHere()), tables, 0)
    tables.send([{"k": 3, "v": "new"}, {"k": 9, "v": "new"}], [{"day": "day 1", "n": 100}])
    with pytest.raises(EndedError):
        run(tables.started(EpochHere(), ends_at=(1, None)), tables, 1)
    orders, events = tables.tables
    assert (orders.snapshots.latest_id(), events.snapshots.latest_id()) == (2, 1)
    assert unnamed_files(tables) == set(), "what was written for the other table is gone"

    runner = EpochHere()
    committer = tables.started(runner)
    run(committer, tables, 1)
    assert 0 not in runner.plans[1].table_plans
    assert [reports(committer, index)[0].is_skipped for index in (0, 1)] == [True, False]
    assert [reports(committer, index)[0].counts.message_count for index in (0, 1)] == [0, 1]
    assert (orders.snapshots.latest_id(), events.snapshots.latest_id()) == (2, 2)
    assert_right(tables)
    idle = EpochHere()
    run(tables.started(idle), tables, 1)
    assert idle.plans == {}, "both have it: the source is not read"
    tables.send([], [{"day": "day 0", "n": 101}])
    run(committer, tables, 2)
    assert_right(tables)


@pytest.mark.parametrize(("mode", "stays_dead"), [("before", True), ("after", False)])
def test_wherever_an_epoch_ends_it_is_finished_by_the_next_process(
    tmp_path: Path, mode: Mode, stays_dead: bool
) -> None:
    """Each file operation of the tasks, and of either table's commit, fails in turn."""
    finished_alone = 0
    for operation in range(1000):
        tables = two_tables(tmp_path / str(operation))
        run(tables.started(EpochHere()), tables, 0)
        tables.send([{"k": 3, "v": "new"}], [{"day": "day 1", "n": 100}])
        fault = Fault(operation, mode, stays_dead)
        ended_job = tables.started(EpochHere(), file_io=FaultyFileIO(fault=fault))
        with contextlib.suppress(StreamAppError, OSError):
            run(ended_job, tables, 1)
        if not fault.has_struck:
            break
        again = tables.started(EpochHere())
        run(again, tables, 1)
        finished_alone += [reports(again, table)[0].is_skipped for table in (0, 1)] == [True, False]
        assert_right(tables)
    assert finished_alone >= 3


def test_the_first_error_of_a_table_ends_the_job_and_the_next_one_finishes(tmp_path: Path) -> None:
    """The tables before it have the epoch; what was written for it and those behind is deleted."""
    tables = two_tables(tmp_path)
    committer = tables.started(EpochHere(), bad_records_max=0)
    bad_messages = tables.messages(0, {"a": b"{"}).combine_chunks().to_batches()
    with pytest.raises(RuntimeError):
        committer.process_epoch(bad_messages, 0)
    assert isinstance(committer.failure, BadRecordsError)
    assert [table.snapshots.latest_id() for table in tables.tables] == [None, None]
    assert tables.data_files() == []
    ended_job = tables.started(EpochHere(), bad_records_max=0)
    with pytest.raises(RuntimeError):
        ended_job.process_epoch(tables.messages(0, {"b": b"{"}).combine_chunks().to_batches(), 0)
    assert [table.snapshots.latest_id() for table in tables.tables] == [1, None]
    assert unnamed_files(tables) == set()
    run(tables.started(EpochHere()), tables, 0)
    assert_right(tables)


def test_each_table_has_a_quarantine_of_its_own(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    committer = tables.started(EpochHere())
    bad_values = {"a": b"{", "b": b"["}
    committer.process_epoch(tables.messages(0, bad_values).combine_chunks().to_batches(), 0)
    for topic, value in bad_values.items():
        [line] = (tmp_path / f"bad-{topic}" / "epoch-0.jsonl").read_text().splitlines()
        record = json.loads(line)
        assert (record["topic"], record["key"], record["value"]) == (topic, "key", value.decode())
    assert [reports(committer, index)[0].counts.bad_record_count for index in (0, 1)] == [1, 1]
    assert_right(tables)


def test_a_task_that_fails_leaves_nothing_in_any_table(tmp_path: Path) -> None:
    """One task writes both tables, and each of its files fails in turn."""
    failure_count = 0
    for operation in range(100):
        tables = two_tables(tmp_path / str(operation))
        fault = Fault(operation, "before")
        committer = tables.started(EpochHere(), file_io=FaultyFileIO(fault=fault), tasks=1)
        with contextlib.suppress(StreamAppError, OSError):
            run(committer, tables, 0)
        if not fault.done[operation].endswith(".parquet"):
            break
        assert tables.data_files() == [], fault.done[operation]
        failure_count += 1
    assert failure_count == 12, (
        "data and changelog of two buckets, data of two partitions: open and sync"
    )


def unnamed_files(tables: TwoTables) -> set[str]:
    """Data files on the disk that no snapshot names."""
    named_files = {
        entry.file.file_name
        for table in tables.tables
        for snapshot in table.snapshots.backwards()
        for entries in (
            FileStoreScan(table).delta(snapshot),
            FileStoreScan(table).changelog(snapshot),
        )
        for entry in entries
    }
    return {path.name for path in tables.data_files()} - named_files
