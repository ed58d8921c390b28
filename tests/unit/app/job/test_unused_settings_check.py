"""The job reports settings of tables that it does not meet once, and remembers that it did."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Lock

import pytest

from stream_app.app.config.sync_config import TableSetting
from stream_app.app.job.checks_between_epochs import ChecksBetweenEpochs
from stream_app.app.job.unused_settings_check import UnusedSettingsCheck
from stream_app.checkpoint.job_state import state_or_empty
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import creates


def an_unused(job: DatabaseJob, expectations: tuple[str, ...] = ()) -> UnusedSettingsCheck:
    return UnusedSettingsCheck(
        named_tables=job.sync.named_tables(),
        find_idle_expectations=lambda: expectations,
        state_file=job.tables.state_file,
    )


def test_a_table_that_no_message_belongs_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("order", "orders", "nothing_like_it")
    job = DatabaseJob(tmp_path, tables={f"{name}.filter": TableSetting("id > 0") for name in names})
    settings_check = an_unused(job)
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    call_times: list[int] = []
    call = ChecksBetweenEpochs(Lock()).with_checks(call_times.append, settings_check.check)
    for time in range(2):
        call(time)
    assert call_times == [0, 1]
    warnings = [
        "[sync.tables.order] does nothing so far: no message belongs to a table of that name\n"
        "  to fix: rename it to [sync.tables.orders]; name one of the tables items, orders",
        "[sync.tables.nothing_like_it] does nothing so far: no message belongs to a table of that "
        "name\n  to fix: name one of the tables items, orders",
    ]
    warning_records = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warning_records] == warnings
    assert [str(warning) for warning in state_or_empty(job.checkpoint).warnings] == warnings


def test_while_an_epoch_is_committed_the_check_waits_for_the_next_time(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, tables={"order.filter": TableSetting("id > 0")})
    lock = Lock()
    settings_check = an_unused(job)
    job.run(*creates("shop.orders", [1]))
    call_times: list[int] = []
    call = ChecksBetweenEpochs(lock).with_checks(call_times.append, settings_check.check)
    with lock:
        call(0)
    assert (call_times, state_or_empty(job.checkpoint).warnings) == ([0], ())
    call(1)
    assert len(state_or_empty(job.checkpoint).warnings) == 1


def test_before_the_first_message_nothing_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = DatabaseJob(tmp_path, tables={"orders.filter": TableSetting("id > 0")})
    an_unused(job).check()
    assert caplog.records == []


def test_an_expectation_that_judges_no_table(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    settings_check = an_unused(job, ("positive-amount",))
    job.run(*creates("shop.orders", [1]))
    settings_check.check()
    [warning] = state_or_empty(job.checkpoint).warnings
    assert str(warning) == (
        "the expectation 'positive-amount' judges no row so far: no table has its columns\n"
        "  to fix: correct expectations.positive-amount"
    )
