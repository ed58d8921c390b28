"""A failed or repeated epoch lets no later epoch pass, and counts once."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.errors import BadRecordsError, StoppedError, StorageError
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.files.faulty_file_io import Fault, FaultyFileIO
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, by_content, read_rows
from tests.support.jobs.two_table_job import TwoTables
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")


class FailingEpoch(EpochHere):
    """The tasks of one epoch fail, for all tables."""

    fails_at = -1
    error: Exception = StorageError("the cluster lost its executors", where="here")

    def route(self, epoch: int, messages: Parts, plan: Any) -> Any:
        routed_blocks = super().route(epoch, messages, plan)

        def write(newest: Any) -> Any:
            if epoch == self.fails_at:
                self.fails_at = -1
                raise self.error
            return routed_blocks.write(newest)

        return replace(routed_blocks, write=write)


def send_epochs(folder: Path, epochs: int) -> tuple[TwoTables, FailingEpoch]:
    tables, runner = TwoTables(folder), FailingEpoch()
    for epoch in range(epochs):
        tables.send([{"k": epoch, "v": f"{epoch}"}], [{"day": "one", "n": epoch}])
    runner.topics = [
        batch for epoch in range(epochs) for batch in tables.messages(epoch).to_batches()
    ]
    return tables, runner


def run(committer: EpochCommitter[Parts], tables: TwoTables, epoch: int) -> None:
    committer.process_epoch(tables.messages(epoch).combine_chunks().to_batches(), epoch)


def assert_right(tables: TwoTables) -> None:
    for table, rows in zip(tables.tables, tables.expected_rows(), strict=True):
        check_chain(table)
        assert by_content(read_rows(table)) == by_content(rows)


@pytest.mark.parametrize("error", [FailingEpoch.error, StoppedError("the job is stopping")])
def test_a_held_table_does_not_catch_up_behind_an_epoch_that_failed(
    tmp_path: Path, error: Exception
) -> None:
    """The main thread looks for held tables once more before the job ends."""
    tables, runner = send_epochs(tmp_path, 2)
    fault = Fault(0, "before", stays_dead=True)
    committer = tables.started(runner, file_io=(FaultyFileIO(fault=fault), None), holds_tables=True)
    run(committer, tables, 0)
    assert list(tables.state().held_tables) == ["a"]
    fault.number = -1  # the disk is well again
    runner.fails_at, runner.error = 1, error
    with contextlib.suppress(RuntimeError):
        run(committer, tables, 1)
    tables.tables[0].clock.sleep(3600)
    committer.while_idle()

    again = tables.started(runner, holds_tables=True)
    run(again, tables, 1)
    tables.tables[0].clock.sleep(3600)
    again.compact_due()
    assert_right(tables)


@pytest.mark.parametrize("holds_tables", [False, True])
def test_a_bad_record_counts_once_however_often_its_epoch_is_written(
    tmp_path: Path, holds_tables: bool
) -> None:
    tables = TwoTables(tmp_path)
    other_writer = TableWriter(tables.tables[0], CompactInCaller, user="other")

    class Overtaken(EpochHere):
        def route(self, epoch: int, messages: Parts, plan: Any) -> Any:
            routed_blocks = super().route(epoch, messages, plan)

            def write(newest: Any) -> Any:
                output = routed_blocks.write(newest)
                other_writer.write([("+I", {"k": 3, "v": "theirs"})])
                return output

            return replace(routed_blocks, write=write)

    tables.send([{"k": 3, "v": "ours"}], [])
    committer = tables.started(Overtaken(), holds_tables=holds_tables, bad_records_max=1)
    messages = tables.messages(0, bad_values={"a": b"{"})
    with contextlib.suppress(RuntimeError):
        committer.process_epoch(messages.combine_chunks().to_batches(), 0)
    assert not isinstance(committer.failure, BadRecordsError), committer.failure
    assert not tables.state().held_tables
    assert {row["k"]: row["v"] for row in read_rows(tables.tables[0])} == {3: "ours"}
