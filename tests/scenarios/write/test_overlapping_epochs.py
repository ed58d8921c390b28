"""A job decodes an epoch while it commits the one before, which Spark has recorded as done."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.errors import CheckpointError
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, Mode
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.jobs.two_table_job import TwoTables, reports
from tests.support.suite.strides import Strides
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")
EPOCHS = 4


def two_tables(folder: Path) -> tuple[TwoTables, EpochHere]:
    """All epochs are in the topics."""
    tables = TwoTables(folder)
    for epoch in range(EPOCHS):
        tables.send(
            [{"k": epoch, "v": f"{epoch}"}, {"k": 9, "v": f"{epoch}"}],
            [{"day": "one", "n": epoch}] * (epoch % 2),
        )
    topics = [
        to_batch for epoch in range(EPOCHS) for to_batch in tables.messages(epoch).to_batches()
    ]
    return tables, EpochHere(topics=topics, overlaps=True)


def spark_goes_on(committer: EpochCommitter[Parts], tables: TwoTables, first: int) -> int:
    """Epochs as Spark asks for them, until one fails; returns the first that it has not done."""
    for epoch in range(first, EPOCHS):
        try:
            committer.process_epoch(tables.messages(epoch).combine_chunks().to_batches(), epoch)
        except RuntimeError:
            return epoch
        tables.done(epoch)
    return EPOCHS


def assert_right(tables: TwoTables) -> None:
    for table, rows in zip(tables.tables, tables.expected_rows(), strict=True):
        check_chain(table)
        assert by_content(read_rows(table)) == by_content(rows)


@pytest.mark.parametrize("holds_tables", [False, True])
@pytest.mark.parametrize("mode", ["before", "after"])
def test_wherever_the_job_ends_the_next_one_finishes(
    tmp_path: Path, mode: Mode, holds_tables: bool, strides: Strides
) -> None:
    """A file operation ends the job, and the next job gets no further messages. A job
    that dies after an operation leaves the same files as one that dies before the next.
    """
    resumed_count = 0
    for operation in strides.operations(2):
        tables, runner = two_tables(tmp_path / str(operation))
        fault = Fault(operation, mode, stays_dead=True)
        files = FaultyFileIO(fault=fault)
        ended_job = tables.started(
            runner, file_io=files, holds_tables=holds_tables, checkpoint=files
        )
        first = spark_goes_on(ended_job, tables, 0)
        with contextlib.suppress(BaseException):
            ended_job.wait_until_committed()
        again = tables.started(runner, holds_tables=holds_tables)
        again.while_idle()
        resumed_count += bool(reports(again, 0)) and first == EPOCHS
        assert spark_goes_on(again, tables, first) == EPOCHS, again.failure
        again.wait_until_committed()
        tables.tables[0].clock.sleep(3600)
        again.compact_due()
        assert_right(tables)
        if not fault.has_struck:
            break
    assert operation > 30
    assert resumed_count >= 6 // strides.length, "of epochs that Spark had as done"


def test_an_epoch_that_fails_behind_the_stream_ends_the_next_one(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    fault = Fault(3, "before")
    committer = tables.started(runner, file_io=FaultyFileIO(fault=fault))
    assert spark_goes_on(committer, tables, 0) == 1
    assert "the file system refused" in str(committer.failure)
    again = tables.started(runner)
    assert spark_goes_on(again, tables, 1) == EPOCHS
    again.wait_until_committed()
    assert_right(tables)


def test_a_stop_leaves_the_waiting_epoch_to_the_next_job(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    committer = tables.started(runner)
    committer.stop()
    assert spark_goes_on(committer, tables, 0) == 0
    assert committer.failure is None
    assert tables.tables[0].snapshots.latest_id() is None


def test_a_table_that_lacks_two_epochs_is_an_older_copy(tmp_path: Path) -> None:
    tables, runner = two_tables(tmp_path)
    committer = tables.started(runner)
    for epoch in range(3):
        committer.process_epoch(tables.messages(epoch).combine_chunks().to_batches(), epoch)
        tables.done(epoch)
    committer.wait_until_committed()
    for table in tables.tables:
        folder = Path(table.location) / "snapshot"
        for name in ("snapshot-2", "snapshot-3", "LATEST"):
            (folder / name).unlink()
    again = tables.started(runner)
    again.while_idle()
    assert [table.snapshots.latest_id() for table in tables.tables] == [1, 1]
    assert spark_goes_on(again, tables, 3) == 3
    assert isinstance(again.failure, CheckpointError)
    assert "has finished epoch 2, the table has only its epochs up to 0" in again.failure.problem
