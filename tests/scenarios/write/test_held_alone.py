"""Other writers that disturb one table of a job stop none of its other tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.cdc.pipeline import Pipeline, StepPlace
from stream_app.cdc.pipeline_steps.change_filter import FilterStep, KnownColumns
from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.errors import CommitError, UsageError
from stream_app.model.schema.data_type import parse_data_type
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.planning.schema.schema_changes import AddColumn, ChangeType
from stream_app.predicate.parser import parse_predicate
from stream_app.predicate.predicate import to_expression
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.job.table_job import TableJob, with_latest_schema
from stream_app.table.schema.alter import alter_table
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.jobs.two_table_job import TwoTables
from tests.support.tables.small_table import CompactHere, small_table
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")
HOURS = 4 * 3600


def run(committer: EpochCommitter[Parts], tables: TwoTables, runner: EpochHere, n: int) -> int:
    """Send a row to each table, and run the epoch; what stops the job is raised as it is."""
    epoch = tables.send([{"k": n, "v": "v"}], [{"day": "d", "n": n}])
    messages = tables.messages(epoch).combine_chunks().to_batches()
    runner.topics += messages
    try:
        committer.process_epoch(messages, epoch)
    except RuntimeError:
        assert committer.failure is not None
        raise committer.failure from None
    return epoch


def rows_of(tables: TwoTables) -> list[int]:
    return [len(read_rows(table)) for table in tables.tables]


def assert_right(tables: TwoTables) -> None:
    assert tables.state().held_tables == {}
    for table, rows in zip(tables.tables, tables.expected_rows(), strict=True):
        check_chain(table)
        assert by_content(read_rows(table)) == by_content(rows)


class Altered(EpochHere):
    """Another engine adds a column to a table whenever tasks have written, so many times."""

    def __init__(self, table: FileStoreTable, times: int) -> None:
        super().__init__()
        self.table, self.times, self.decodes = table, times, 0

    def route(self, epoch: int, messages: Parts, plan: Any) -> Any:
        routed_blocks = super().route(epoch, messages, plan)
        self.decodes += 1

        def write(newest: Any) -> Any:
            output = routed_blocks.write(newest)
            if self.times > 0:
                self.times -= 1
                column = AddColumn(name=f"c{self.times}", data_type=parse_data_type("INT"))
                alter_table(self.table, [column])
            return output

        return replace(routed_blocks, write=write)


def test_a_table_that_is_outdated_in_each_round_is_held_alone(tmp_path: Path) -> None:
    tables = TwoTables(tmp_path)
    runner = Altered(tables.tables[0], times=20)
    committer = tables.started(runner, holds_tables=True)
    run(committer, tables, runner, 1)
    waiting = tables.state().held_tables
    assert waiting.keys() == {"a"}
    assert "outdated whenever it is written, 20 times" in waiting["a"].reason
    assert rows_of(tables) == [0, 1]
    tables.tables[0].clock.sleep(HOURS)
    committer.while_idle()
    assert tables.state().held_tables == {}
    assert rows_of(tables) == [1, 1]


def test_the_only_table_that_is_outdated_in_each_round_stops_its_job(tmp_path: Path) -> None:
    tables = TwoTables(tmp_path)
    runner = Altered(tables.tables[0], times=20)
    with pytest.raises(CommitError, match="outdated whenever it is written, 20 times"):
        run(tables.started(runner), tables, runner, 1)
    assert runner.decodes == 20, "what nobody writes is not decoded"


def filtered(committer: EpochCommitter[Parts]) -> None:
    """The second table takes only rows of which a condition on its number is true."""
    feed = committer.tables.feeds[1]
    make_unfiltered = feed.make_pipeline

    def make_pipeline(table: FileStoreTable) -> Pipeline:
        decode = make_unfiltered(table)
        predicate = parse_predicate("n >= 0", table.schema.fields)
        step = FilterStep(
            condition=to_expression(predicate),
            merges_by_key=False,
            known_columns=KnownColumns.IMAGES,
        )
        return decode.with_steps({StepPlace.FILTER_OF_ROWS: step})

    feed.make_pipeline = make_pipeline


@pytest.mark.parametrize("restarts", [False, True])
def test_a_table_whose_filter_does_not_fit_its_latest_schema_is_held_alone(
    tmp_path: Path, restarts: bool
) -> None:
    tables, runner = TwoTables(tmp_path), EpochHere()
    committer = tables.started(runner, holds_tables=True)
    filtered(committer)
    run(committer, tables, runner, 1)
    alter_table(tables.tables[1], [ChangeType("n", parse_data_type("STRING"))])
    if restarts:
        tables.tables[1] = with_latest_schema(tables.tables[1])
        committer = tables.started(runner, holds_tables=True)
        filtered(committer)
        assert committer.round_runner.plan().table_plans.keys() == {0}
    run(committer, tables, runner, 2)
    waiting = tables.state().held_tables
    assert waiting.keys() == {"b"}
    assert "n" in waiting["b"].reason
    run(committer, tables, runner, 3)
    assert rows_of(tables) == [3, 1]


def test_the_only_table_whose_filter_does_not_fit_ends_the_job_before_it_starts(
    tmp_path: Path,
) -> None:
    tables = TwoTables(tmp_path)
    committer = tables.started(EpochHere())
    filtered(committer)
    committer.tables.feeds[1].table_job.table = committer.tables.feeds[0].table_job.table
    with pytest.raises(UsageError):
        committer.round_runner.plan()


def test_a_write_only_table_waits_for_its_compactor_alone(tmp_path: Path) -> None:
    """No compactor comes in time at first, and each try of the job waits the whole time again."""
    options = {"bucket": 1, "write_only": "true", "write_only__stop_trigger": 6}
    tables, runner = TwoTables(tmp_path, orders=options), EpochHere()
    committer = tables.started(runner, holds_tables=True)
    for n in range(9):
        run(committer, tables, runner, n)
    waiting = tables.state().held_tables["a"]
    assert (waiting.since_epoch, waiting.tries) == (7, 0)
    assert "waits for its compactions" in waiting.reason
    assert rows_of(tables) == [7, 9]

    orders = tables.tables[0]
    orders.clock.sleep(HOURS)
    committer.while_idle()
    waiting = tables.state().held_tables["a"]
    assert waiting.tries == 1
    assert "no job has compacted the table for 600 s" in waiting.reason

    unbound = orders.with_options({"write-only": "false"})
    compactor = StreamTableCommit(
        unbound, "compactor", CompactHere(unbound), last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    compactor.compact_fully()
    orders.clock.sleep(HOURS)
    committer.while_idle()
    assert_right(tables)


def test_a_table_lacks_an_epoch_only_while_it_is_open(tmp_path: Path) -> None:
    """The stream's thread asks, and the committer's may forget the table meanwhile."""
    job = TableJob(small_table(tmp_path, "k BIGINT", ("k",)).table, CompactHere)
    lacks = [job.seems_to_lack(3)]
    job.open("job")
    lacks.append(job.seems_to_lack(3))
    job.stream_commit.commit_epoch(3, [])
    lacks += [job.seems_to_lack(3), job.seems_to_lack(4)]
    job.forget()
    assert [*lacks, job.seems_to_lack(4)] == [False, True, False, True, False]
