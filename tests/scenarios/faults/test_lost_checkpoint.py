"""A job with a new checkpoint would read records that its tables have already.

Where they would count twice it does not begin, and says how it continues; elsewhere it warns.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from stream_app.checkpoint.held_tables import resume
from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.errors import CheckpointError
from stream_app.model.schema.merge.aggregate_function import AGGREGATE_FUNCTIONS
from tests.support.engines.begun_epoch import begin_epoch
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.files.synced_disk import SyncedDisk
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.jobs.two_table_job import TwoTables
from tests.support.tables.function_columns import FUNCTION_COLUMNS, NEEDED_OPTIONS
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")
ORDERS = [{"k": number % 7, "v": f"first {number}"} for number in range(20)]
EVENTS = [{"day": f"day {number % 2}", "n": number} for number in range(9)]
ENDS = '{"a": {"0": 20}, "b": {"0": 9}}'
TEXTS = {"bucket": 1, "merge_engine": "aggregation", "fields__v__aggregate_function": "listagg",
         "fields__v__ignore_retract": "true"}  # fmt: skip


def run(
    committer: EpochCommitter[Parts],
    tables: TwoTables,
    runner: EpochHere,
    epoch: int = 0,
    sent: int | None = None,
) -> BaseException | None:
    """An epoch as Spark asks for it, of the messages that were sent with this number."""
    parts = tables.messages(epoch if sent is None else sent).combine_chunks().to_batches()
    runner.topics = [
        batch for number in range(epoch + 1) for batch in tables.messages(number).to_batches()
    ]
    try:
        committer.process_epoch(parts, epoch)
        committer.wait_until_committed()
    except BaseException:
        assert committer.failure is not None
    return committer.failure


def a_job(folder: Path, user: str = "the job", **kwargs: Any) -> TwoTables:
    """A job whose first epoch has all messages."""
    tables = TwoTables(folder, user, **kwargs)
    tables.send(ORDERS, EVENTS)
    return tables


def after_a_loss(folder: Path, **kwargs: Any) -> TwoTables:
    """The same job, once its checkpoint is gone."""
    before = a_job(folder, **{key: kwargs[key] for key in kwargs.keys() & {"orders"}})
    runner = EpochHere()
    assert run(before.started(runner), before, runner) is None
    shutil.rmtree(folder / "checkpoint")
    return a_job(folder, "another", **kwargs)


def contents(tables: TwoTables) -> list[Any]:
    return [by_content(read_rows(table)) for table in tables.tables]


def test_a_job_that_would_store_rows_twice_does_not_begin(tmp_path: Path) -> None:
    tables, runner = after_a_loss(tmp_path), EpochHere()
    before = contents(tables)
    failure = run(tables.started(runner), tables, runner)
    assert isinstance(failure, CheckpointError)
    assert failure.where == tables.tables[1].location
    assert failure.problem.startswith("29 records of a, b that the job is about to read are in the")
    assert "without a primary key each row would be there twice" in failure.problem
    assert f"source.starting-offsets = '{ENDS}'" in failure.fix
    assert contents(tables) == before


def test_a_job_begins_behind_the_records_that_its_table_has(tmp_path: Path) -> None:
    """The restarted job begins at the offsets that the error gives."""
    tables, runner = after_a_loss(tmp_path), EpochHere()
    failure = run(tables.started(runner), tables, runner)
    assert isinstance(failure, CheckpointError)
    start = json.loads(failure.fix.split("source.starting-offsets = '")[1].split("'")[0])
    shutil.rmtree(tmp_path / "checkpoint")
    tables.sent.append({"a": [{"k": 1, "v": "new"}], "b": [{"day": "day 9", "n": 9}]})
    begin_epoch(tables.checkpoint(), 0, start, tables.ends(2), "another")
    assert run(tables.started(runner), tables, runner, 0, sent=1) is None
    assert contents(tables) == [by_content(rows) for rows in tables.expected_rows()]


def test_a_job_stores_messages_again_on_request(tmp_path: Path) -> None:
    tables, runner = after_a_loss(tmp_path, accepts_repeats=True), EpochHere()
    assert run(tables.started(runner), tables, runner) is None
    assert contents(tables) == [
        by_content(tables.expected_rows()[0]),
        by_content([*EVENTS, *EVENTS]),
    ]


def test_tables_of_a_database_that_would_count_twice_are_held(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The others continue; a resumed one is held again, until the operator allows them."""
    tables, runner = after_a_loss(tmp_path), EpochHere()
    before = contents(tables)
    committer = tables.started(runner, holds_tables=True)
    assert run(committer, tables, runner) is None
    assert contents(tables) == before
    assert committer.tables.held_by_name.keys() == {"b"}
    assert f"starting-offsets = '{ENDS}'" in committer.tables.held_by_name["b"].reason
    [warning] = [record.getMessage() for record in caplog.records if "already" in record.message]
    assert tables.tables[0].location in warning
    assert "a changelog has these changes twice" in warning

    tables.send([], [{"day": "day 9", "n": 9}])
    assert run(committer, tables, runner, 1) is None
    resume(tables.checkpoint(), "b", 0)
    committer.while_idle()
    tables.tables[0].clock.sleep(3600)
    committer.while_idle()
    assert contents(tables) == before
    assert tables.state().held_tables.keys() == {"b"}

    tables.accepts_repeats = True
    runner.topics = [
        to_batch for epoch in (0, 1) for to_batch in tables.messages(epoch).to_batches()
    ]
    again = tables.started(runner, holds_tables=True)
    again.while_idle()
    tables.tables[0].clock.sleep(3600)
    again.while_idle()
    assert contents(tables)[1] == by_content([*EVENTS, *EVENTS, {"day": "day 9", "n": 9}])


def test_a_job_refuses_to_count_records_twice_in_a_table_of_sums(tmp_path: Path) -> None:
    tables, runner = after_a_loss(tmp_path, orders=TEXTS), EpochHere()
    failure = run(tables.started(runner), tables, runner)
    assert isinstance(failure, CheckpointError)
    assert failure.where == tables.tables[0].location
    assert "each would count twice in v" in failure.problem


def test_a_new_table_and_other_topics_are_taken(tmp_path: Path) -> None:
    tables, runner = after_a_loss(tmp_path), EpochHere()
    shutil.rmtree(tmp_path / "events")
    tables, runner = a_job(tmp_path, "another"), EpochHere()
    assert run(tables.started(runner), tables, runner) is None
    assert contents(tables) == [by_content(rows) for rows in tables.expected_rows()]


@pytest.mark.parametrize("holds_tables", [False, True])
def test_an_epoch_in_a_table_keeps_its_offsets_through_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds_tables: bool
) -> None:
    """Spark writes them and syncs nothing."""
    folder = tmp_path / "job"
    folder.mkdir()
    disk = SyncedDisk(folder)
    disk.watch(monkeypatch)
    tables, runner = a_job(folder), EpochHere()
    offsets = folder / "checkpoint" / "offsets" / "0"
    text = offsets.read_text().replace("{}", '{"conf":{}}')
    offsets.unlink()
    offsets.write_text(text)
    committer = tables.started(runner, holds_tables=holds_tables)
    assert run(committer, tables, runner) is None
    disk_folder = disk.found_after(tmp_path / "left")
    assert (disk_folder / "events" / "snapshot" / "snapshot-1").exists()
    assert (disk_folder / "checkpoint" / "offsets" / "0").read_text() == text


@pytest.mark.parametrize("function", sorted(FUNCTION_COLUMNS))
def test_the_functions_that_count_are_those_whose_values_change(
    tmp_path: Path, function: str
) -> None:
    """The job stores two rows a second time, as it does with an emptied checkpoint."""
    kind, *values = FUNCTION_COLUMNS[function]
    for more in ({}, {"fields.v.distinct": "true"}, {"fields.v.nested-key": "a"}):
        if "nested-key" in str(more) and not AGGREGATE_FUNCTIONS[function].needs_rows:
            continue
        if "ts-field" in str(more) or (function == "merge_map_with_keytime" and more):
            continue
        options = {"merge-engine": "aggregation", "fields.v.aggregate-function": function}
        options |= NEEDED_OPTIONS.get(function, {}) | more
        small = small_table(tmp_path / f"t{len(str(more))}", f"k INT, v {kind}", ("k",), **options)
        for _ in range(2):
            before = [dict(row) for row in read_rows(small.table)]
            for value in values:
                small.commit(("+I", {"k": 1, "v": value}))
        changes = before != read_rows(small.table)
        assert changes == bool(small.table.schema.merge_rules.counting_columns), more
