"""``compaction-policy = "auto"`` chooses other compactions, and keeps rows and files the same."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.inspect.overview import overview, overview_lines
from stream_app.app.inspect.snapshot_files import live_files
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.auto_policy import PolicyBounds
from stream_app.table.compact.compaction_report import reports_of_property
from stream_app.table.compact.core_budget import CoreBudget
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob
from tests.support.jobs.table_writer import CompactInCaller, read_rows
from tests.support.pages.web_server import served_warehouse
from tests.support.tables.small_table import small_table, write_changes
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")
EPOCHS = 24


def ran(
    folder: Path, freshness: int | None, budget: CoreBudget | None = None, **options: Any
) -> tuple[FileStoreTable, list[int]]:
    """A job of some epochs; the number of runs that each of its compactions took."""
    table = small_table(folder / "db.db" / "t", "k INT, v STRING", ("k",), **options).table
    executor = CompactInCaller(table)
    policy = None if freshness is None else PolicyBounds(freshness, budget)
    job = TableJob(table, lambda _: executor, policy_bounds=policy)
    job.open("job")
    for epoch in range(EPOCHS):
        first = job.prepare_epoch()
        changes = [("+I", {"k": k, "v": str(epoch)}) for k in range(epoch % 3, 200, 3)]
        job.stream_commit.commit_epoch(epoch, write_changes(table, changes, first))
    job.compact_due()
    check_chain(table)
    return table, [len(request.unit.levels) for request in executor.requests]


def latest(table: FileStoreTable) -> Snapshot:
    latest_snapshot = table.snapshots.latest()
    assert latest_snapshot is not None
    return latest_snapshot


def test_the_choice_changes_what_is_compacted_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stream_app.table.compact.auto_policy")
    plain, usual = ran(tmp_path / "options", None)
    assert caplog.messages == []
    table, chosen = ran(tmp_path / "auto", 20)
    assert min(usual) <= 5
    assert max(usual) <= 5
    assert min(chosen) > 5, "each compaction took more runs than the default trigger allows"
    assert len(chosen) < len(usual)
    assert read_rows(table) == read_rows(plain)
    assert table.schema.options == plain.schema.options
    assert max(file.file.level for file in live_files(table, latest(table))) == 5
    [line] = [line for line in overview_lines(overview(table, latest(table))) if "chosen" in line]
    assert line.startswith("chosen rules   bucket 0: trigger ")
    assert " × instead of " in line
    assert not any("chosen" in line for line in overview_lines(overview(plain, latest(plain))))
    with served_warehouse(tmp_path / "auto") as warehouse:
        rules = line.removeprefix("chosen rules").strip()
        assert f"compaction, {rules}" in warehouse.words("/tables/db.t")
    assert 1 <= len(caplog.messages) <= 2, "one line for each change, not for each compaction"
    assert f"{table.location}/bucket-0: trigger " in caplog.messages[0]


def test_options_that_the_table_sets_win_and_the_report_says_so(tmp_path: Path) -> None:
    table, taken = ran(tmp_path / "set", 20, num_sorted_run__compaction_trigger=4)
    assert max(taken) <= 4
    texts = {
        report.policy
        for snapshot in table.snapshots.backwards()
        for report in reports_of_property(snapshot.properties) or ()
    }
    assert texts
    for text in texts:
        assert text is not None
        assert text.startswith("trigger 4, ")
        assert text.endswith("; the table's options set the trigger")


def test_a_table_whose_rows_wait_for_compactions_keeps_its_own_rules(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stream_app.table.compact.auto_policy")
    usual = ran(tmp_path / "options", None, changelog_producer="lookup")[1]
    assert ran(tmp_path / "auto", 20, changelog_producer="lookup")[1] == usual
    assert "has no effect" in caplog.messages[0]


def test_the_report_says_what_compactions_need_of_their_cores(tmp_path: Path) -> None:
    budget = CoreBudget(cores=3)
    table, _ = ran(tmp_path / "auto", 20, budget)
    assert budget.advice is not None
    assert budget.advice.cores_needed > 0
    assert budget.advice.suffices
    [line] = [line for line in overview_lines(overview(table, latest(table))) if "chosen" in line]
    assert line.endswith("; compactions need 0.0 of 3 cores")


def test_a_budget_adds_up_tables_and_finds_the_epochs_that_fit() -> None:
    budget = CoreBudget(cores=2)
    budget.note("a", lambda longer: 1.5 / longer, 5.0)
    assert budget.advice is not None
    assert budget.advice.text() == "compactions need 1.5 of 2 cores"
    budget.note("b", lambda longer: 1.5 / longer, 5.0)
    assert budget.advice.text().startswith(
        "compactions need 3.0 of 2 cores: make epochs 10 s long, with which they fit"
    )
    budget.note("b", lambda longer: 1.4 / longer, 5.0)
    assert budget.advice.cores_needed == 3.0, "a tenth less is no news"
    budget.note("a", lambda longer: 0.1 / longer, 5.0)
    assert budget.advice.suffices
