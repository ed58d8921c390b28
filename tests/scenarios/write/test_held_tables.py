"""A job holds a failing table back alone; the table catches up in an epoch of its own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, bad_records_with_reasons
from stream_app.checkpoint.held_tables import resume
from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.newcomer_creator import NewcomerOutcome
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stages.blocks import NEWCOMERS_INDEX, UNREADABLE_INDEX
from stream_app.epochs.stages.epoch_plan import TableMessages
from stream_app.errors import CheckpointError, StorageError
from stream_app.fileio.counted_file_io import RequestCounter, counting_file_io
from stream_app.model.job_epoch import Offsets
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, Mode
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.jobs.two_table_job import TwoTables, reports
from tests.support.suite.strides import Strides
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")
HOURS = 4 * 3600


def two_tables(folder: Path) -> tuple[TwoTables, EpochHere]:
    tables = TwoTables(folder)
    orders = [{"k": number % 7, "v": f"first {number}"} for number in range(20)]
    tables.send(orders, [{"day": f"day {number % 2}", "n": number} for number in range(9)])
    return tables, EpochHere()


def start_job(tables: TwoTables, runner: EpochHere, **kwargs: Any) -> EpochCommitter[Parts]:
    return tables.started(runner, holds_tables=True, **kwargs)


def run(committer: EpochCommitter[Parts], tables: TwoTables, runner: EpochHere, epoch: int) -> None:
    """An epoch as Spark asks for it; what stops the job is raised as it is."""
    parts = tables.messages(epoch).combine_chunks().to_batches()
    messages = map(tables.messages, range(epoch + 1))
    runner.topics = [batch for table in messages for batch in table.to_batches()]
    try:
        committer.process_epoch(parts, epoch)
    except RuntimeError:
        assert committer.failure is not None
        raise committer.failure from None


def assert_right(tables: TwoTables) -> None:
    for table, rows in zip(tables.tables, tables.expected_rows(), strict=True):
        check_chain(table)
        assert by_content(read_rows(table)) == by_content(rows)


def snapshots(tables: TwoTables) -> list[int | None]:
    return [table.snapshots.latest_id() for table in tables.tables]


def test_an_idle_table_gets_no_snapshot(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    committer = start_job(tables, runner)
    run(committer, tables, runner, 0)
    tables.send([{"k": 1, "v": "second"}], [])
    run(committer, tables, runner, 1)
    assert snapshots(tables) == [2, 1]
    tables.send([], [{"day": "d", "n": 5}])
    run(committer, tables, runner, 2)
    assert snapshots(tables) == [2, 2]
    assert_right(tables)
    remembered_state = tables.state()
    assert (remembered_state.epoch, remembered_state.newest_epochs) == (2, {"a": 1, "b": 2})


def test_a_table_that_fails_in_a_first_load_ends_the_job(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    files = FaultyFileIO(fault=Fault(0, "before", stays_dead=True))
    with pytest.raises(StorageError, match="the file system refused"):
        run(start_job(tables, runner, file_io=(files, None), loads=1), tables, runner, 0)
    run(start_job(tables, runner, loads=1), tables, runner, 0)
    assert_right(tables)


def test_a_table_that_cannot_be_written_is_held_back_and_catches_up(tmp_path: Path) -> None:
    """The table's folder fails in a task; the other table gets each epoch."""
    tables, runner = two_tables(tmp_path)
    fault = Fault(0, "before", stays_dead=True)
    files = FaultyFileIO(fault=fault)
    committer = start_job(tables, runner, file_io=(files, None))
    run(committer, tables, runner, 0)
    tables.send([{"k": 3, "v": "new"}], [{"day": "day 1", "n": 100}])
    run(committer, tables, runner, 1)
    assert snapshots(tables) == [None, 2]
    waiting = tables.state().held_tables["a"]
    assert (waiting.since_epoch, waiting.start["a"]["0"]) == (0, 0)
    assert "the file system refused" in waiting.reason
    assert waiting.retry_ms is not None

    fault.number = -1  # the disk is well again
    tables.tables[0].clock.sleep(HOURS)
    committer.while_idle()
    assert snapshots(tables) == [1, 2]
    assert tables.state().held_tables == {}
    tables.send([{"k": 4, "v": "last"}], [])
    run(committer, tables, runner, 2)
    assert_right(tables)
    assert [report.counts.message_count for report in reports(committer, 0)] == [21, 1]


def test_requests_of_a_table_that_fails_alone_count(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    requests = RequestCounter()
    files = counting_file_io(FaultyFileIO(fault=Fault(0, "before", stays_dead=True)), requests)
    committer = start_job(tables, runner, file_io=(files, None), tasks=1)
    plan = committer.round_runner.plan()
    output = runner.route(0, tables.messages(0).to_batches(), plan).write(plan)
    assert output.table_outputs[0].failure is not None
    assert output.table_outputs[0].counts.request_counts == {"put": 1, "put_errors": 1}
    before = requests.total()["put_errors"]
    run(committer, tables, runner, 0)
    errors = requests.total()["put_errors"] - before
    assert errors == 2, "by the task, which is of this process here, and by its result"


def test_tables_that_go_on_from_the_same_offsets_catch_up_in_one_epoch(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    faults = [Fault(0, "before", stays_dead=True) for _ in range(2)]
    files = [FaultyFileIO(fault=fault) for fault in faults]
    committer = start_job(tables, runner, file_io=(files[0], files[1]))
    run(committer, tables, runner, 0)
    tables.send([{"k": 3, "v": "new"}], [{"day": "day 1", "n": 100}])
    run(committer, tables, runner, 1)
    assert sorted(tables.state().held_tables) == ["a", "b"]

    reads: list[Parts] = []
    between = runner.messages_between

    def counted(start_offsets: Offsets, end_offsets: Offsets) -> Parts:
        reads.append(between(start_offsets, end_offsets))
        return reads[-1]

    runner.messages_between = counted  # type: ignore[method-assign]
    for fault in faults:
        fault.number = -1
    tables.tables[0].clock.sleep(HOURS)
    committer.while_idle()
    assert len(reads) == 1
    assert tables.state().held_tables == {}
    assert_right(tables)


@pytest.mark.parametrize("mode", ["before", "after"])
def test_each_failure_of_one_table_is_its_own(tmp_path: Path, mode: Mode, strides: Strides) -> None:
    """A file operation of a table fails once; a commit that only seemed to fail counts once."""
    for operation in strides.operations():
        tables, runner = two_tables(tmp_path / str(operation))
        fault = Fault(operation, mode)
        committer = start_job(tables, runner, file_io=(FaultyFileIO(fault=fault), None))
        for epoch in range(3):
            run(committer, tables, runner, epoch)
            tables.send([{"k": epoch, "v": f"new {epoch}"}], [{"day": "day 1", "n": epoch}])
        run(committer, tables, runner, 3)
        tables.tables[0].clock.sleep(HOURS)
        committer.compact_due()
        assert tables.state().held_tables == {}
        assert_right(tables)
        if not fault.has_struck:
            break
    assert operation > 20


@pytest.mark.parametrize("mode", ["before", "after"])
def test_wherever_the_job_ends_the_next_one_finishes(
    tmp_path: Path, mode: Mode, strides: Strides
) -> None:
    """A table is held back; a file operation ends the job, the checkpoint's too."""
    for operation in strides.operations():
        tables, runner = two_tables(tmp_path / str(operation))
        ill = FaultyFileIO(fault=Fault(0, "before", stays_dead=True))
        run(start_job(tables, runner, file_io=(ill, None)), tables, runner, 0)
        tables.send([{"k": 3, "v": "new"}], [{"day": "day 1", "n": 100}])
        fault = Fault(operation, mode, stays_dead=True)
        files = FaultyFileIO(fault=fault)
        ended_job = start_job(tables, runner, file_io=files, checkpoint=files)
        tables.tables[0].clock.sleep(HOURS)
        with contextlib.suppress(Exception):
            run(ended_job, tables, runner, 1)
        again = start_job(tables, runner)
        run(again, tables, runner, 1)
        tables.tables[0].clock.sleep(HOURS)
        again.compact_due()
        assert tables.state().held_tables == {}
        assert_right(tables)
        if not fault.has_struck:
            break
    assert operation > 10


def test_rows_are_written_anew_when_another_writer_came_between(tmp_path: Path) -> None:
    """Sequence numbers must be above the other's."""
    tables, runner = two_tables(tmp_path)
    run(start_job(tables, runner), tables, runner, 0)
    committer = start_job(tables, runner)
    tables.send([{"k": 50, "v": "ours"}], [])
    run(committer, tables, runner, 1)
    rival = TwoTables.__new__(TwoTables)
    rival.folder, rival.tables, rival.query = tmp_path / "other", tables.tables, "another job"
    rival.sent, rival.accepts_repeats = [], True
    rival.send([{"k": 3, "v": f"other {number}"} for number in range(30)], [])
    stranger = rival.started(EpochHere())
    stranger.process_epoch(rival.messages(0).combine_chunks().to_batches(), 0)
    tables.send([{"k": 3, "v": "the newest"}], [])
    run(committer, tables, runner, 2)
    rows = {row["k"]: row["v"] for row in read_rows(tables.tables[0])}
    assert rows[3] == "the newest"
    first = reports(committer, 0)[-1]
    assert first.counts.change_count == 1, "what was written first was thrown away"
    check_chain(tables.tables[0])


def test_a_cause_that_needs_a_person_waits_until_it_is_resumed(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    committer = start_job(tables, runner, bad_records_max=0)
    bad_messages = tables.messages(0, {"b": b"{"}).combine_chunks().to_batches()
    runner.topics = bad_messages
    committer.process_epoch(bad_messages, 0)
    assert snapshots(tables) == [1, None]
    waiting = tables.state().held_tables["b"]
    assert waiting.retry_ms is None
    assert "could not be stored" in waiting.reason
    tables.tables[0].clock.sleep(HOURS)
    committer.while_idle()
    assert tables.state().held_tables["b"].tries == 1

    committer.tables.feeds[1].quarantine_writer.bad_records_max = None
    resume(tables.checkpoint(), "b", tables.tables[0].clock.now_ms())
    tables.tables[0].clock.sleep(10)
    committer.while_idle()
    assert tables.state().held_tables == {}
    assert_right(tables)


def test_a_table_that_was_rolled_back_is_held_back_alone(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    run(start_job(tables, runner), tables, runner, 0)
    tables.send([{"k": 3, "v": "new"}], [{"day": "day 1", "n": 100}])
    run(start_job(tables, runner), tables, runner, 1)
    orders = tables.tables[0]
    for name in ("snapshot-2", "LATEST"):
        (Path(orders.location) / "snapshot" / name).unlink()
    tables.send([{"k": 5, "v": "newer"}], [{"day": "day 1", "n": 101}])
    run(start_job(tables, runner), tables, runner, 2)
    waiting = tables.state().held_tables["a"]
    assert "the table has only its epochs up to 0" in waiting.reason
    assert waiting.retry_ms is None
    assert snapshots(tables) == [1, 3]


def test_an_older_copy_of_what_the_job_remembers_is_refused(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    run(start_job(tables, runner), tables, runner, 0)
    file = tmp_path / "checkpoint/job_state.json"
    copy = file.read_text()
    for epoch in (1, 2):
        tables.send([{"k": 3, "v": "new"}], [])
        run(start_job(tables, runner), tables, runner, epoch)
    file.write_text(copy)
    tables.send([{"k": 3, "v": "newest"}], [])
    with pytest.raises(CheckpointError, match=r"job_state\.json is of epoch 0"):
        run(start_job(tables, runner), tables, runner, 3)
    file.write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        start_job(tables, runner)


class Second:
    """Implements `NewcomerCreator` and `MessageSplitter`: the second table appears."""

    def __init__(self, feed: TableFeed) -> None:
        self.feed, self.table_count = feed, 1
        self.messages_seen: list[pa.Table] = []
        self.refused: list[tuple[int, list[str]]] = []

    def create(self, messages: pa.Table, *, are_held: bool = False) -> NewcomerOutcome:
        self.messages_seen.append(messages)
        self.table_count = 2
        return NewcomerOutcome([self.feed], {}, {})

    def quarantine_unassigned_messages(self, epoch: int, messages: pa.Table) -> None:
        self.refused.append((epoch, messages.column("reason").to_pylist()))

    def splitter(self, feeds: Sequence[TableFeed], *_: object) -> Second:
        assert [feed.name for feed in feeds] == ["a", "b"]
        return self

    def split(self, messages: pa.RecordBatch) -> Any:
        place = ["a", "b"].index(messages.column("topic")[0].as_py())
        if place < self.table_count:
            yield TableMessages(place, messages)
            records = bad_records_with_reasons(messages, {0: f"nobody takes {messages.num_rows}"})
            yield TableMessages(UNREADABLE_INDEX, records)
        else:
            yield TableMessages(NEWCOMERS_INDEX, messages.slice(0, 2))


def test_a_table_that_appears_gets_its_rows_in_the_same_epoch(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    committer = start_job(tables, runner)
    second = Second(committer.tables.feeds.pop())
    committer.round_runner.newcomer_creator = second
    committer.round_runner.settings = committer.round_runner.settings.with_splitter(second)
    run(committer, tables, runner, 0)
    [messages] = second.messages_seen
    assert messages.schema == MESSAGE_SCHEMA
    assert messages.num_rows == 2
    # Told once, when all tables are known.
    assert second.refused == [(0, ["nobody takes 20", "nobody takes 9"])]
    assert snapshots(tables) == [1, 1]
    assert_right(tables)


class Both(Second):
    """A creator of which both tables appear."""

    def __init__(self, feeds: Sequence[TableFeed]) -> None:
        super().__init__(feeds[0])
        self.table_count, self.both = 0, feeds

    def create(self, messages: pa.Table, *, are_held: bool = False) -> NewcomerOutcome:
        self.table_count = 2
        return NewcomerOutcome(self.both, {}, {})


def test_the_first_table_appears_in_a_job_without_any(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    committer = start_job(tables, runner)
    both = Both([*committer.tables.feeds])
    committer.tables.feeds.clear()
    committer.round_runner.newcomer_creator = both
    committer.round_runner.settings = committer.round_runner.settings.with_splitter(both)
    run(committer, tables, runner, 0)
    assert snapshots(tables) == [1, 1]
    assert_right(tables)


def test_a_table_that_cannot_be_opened_at_the_start_gets_no_row_twice(tmp_path: Path) -> None:
    """The newest epoch had no row of it, and none comes before it is tried again."""
    counts = {"merge_engine": "aggregation", "fields__v__aggregate_function": "listagg",
              "fields__v__ignore_retract": "true", "bucket": 1}  # fmt: skip
    tables, runner = TwoTables(tmp_path, orders=counts), EpochHere()
    tables.send([{"k": 1, "v": "once"}], [{"day": "day 1", "n": 1}])
    committer = start_job(tables, runner)
    run(committer, tables, runner, 0)
    tables.send([], [{"day": "day 1", "n": 2}])
    run(committer, tables, runner, 1)
    tables.done(0)
    tables.done(1)
    manifests = Path(tables.tables[0].location) / "manifest"
    manifests.rename(tmp_path / "away")
    again = start_job(tables, runner)
    again.while_idle()
    assert again.tables.held_by_name.keys() == {"a"}
    (tmp_path / "away").rename(manifests)
    last = start_job(tables, runner)
    last.while_idle()
    assert tables.state().held_tables == {}
    assert_right(tables)


def test_a_table_that_fails_while_the_job_drains_is_held_back_alone(tmp_path: Path) -> None:
    """Another engine has recreated it as a table of another kind."""
    tables, runner = two_tables(tmp_path)
    committer = start_job(tables, runner)
    run(committer, tables, runner, 0)
    committer.wait_until_committed()
    schemas = tables.tables[0].schemas
    schema = json.loads(Path(schemas.path(0)).read_text())
    del schema["stream_app.digest"]
    schema["options"]["sequence.field"] = "v"
    Path(schemas.path(1)).write_text(json.dumps({**schema, "id": 1}))
    committer.compact_due()
    [(name, waiting)] = tables.state().held_tables.items()
    assert (name, waiting.tries) == ("a", 1)
    assert "sequence.field" in waiting.reason
    tables.send([{"k": 3, "v": "new"}], [{"day": "day 1", "n": 100}])
    run(committer, tables, runner, 1)
    committer.wait_until_committed()
    assert snapshots(tables) == [1, 2]
    Path(schemas.path(1)).unlink()
    start_job(tables, runner).while_idle()
    assert tables.state().held_tables == {}
    assert_right(tables)
