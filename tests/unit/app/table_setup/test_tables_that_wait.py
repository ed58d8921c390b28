"""A table that cannot be created yet loses none of its messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.app.inspect.job_status import JobStatus
from stream_app.app.inspect.table_status import (
    SHORT_REASON,
    JobTableState,
    TableStatus,
    shorten_reason,
)
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.held_table import HeldTable
from stream_app.checkpoint.held_tables import resume
from stream_app.checkpoint.job_state import JobStateFile
from stream_app.epochs.rounds.epoch_tables import IndependentTables
from tests.support.jobs.database_job import DatabaseJob
from tests.support.jobs.ingest_process import write_conf
from tests.support.messages.database_topic import GARBAGE, Message, a_row, change, creates

HOURS = 2


def in_the_way(job: DatabaseJob, name: str) -> Path:
    """A link to itself where a table's schemas should be, which no call can follow."""
    path = Path(job.sync.path(name)) / "schema"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path)
    return path


def go_on(job: DatabaseJob, *names: str) -> None:
    for name in names:
        resume(job.checkpoint, name, job.clock.now_ms() + 1)
    job.wait(HOURS)


def test_a_table_that_cannot_be_made_waits_and_catches_up(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    file = in_the_way(job, "orders")
    job.run(*creates("shop.orders", [1, 2]), *creates("shop.items", [1]), GARBAGE)
    assert list(job.held()) == ["orders"]
    job.run(*creates("shop.orders", [3]), *creates("shop.items", [2]), *creates("shop.late", [1]))
    [status] = [table for table in the_status(job) if table.table == "orders"]
    assert (status.state, status.lag) == ("held", 7)
    go_on(job, "orders")
    assert list(job.held()) == ["orders"], "the file is there still"

    file.unlink()
    go_on(job, "orders")
    assert job.held() == {}
    assert job.rows("orders") == {key: f"new {key}" for key in (1, 2, 3)}
    job.run(*creates("shop.orders", [4]), *creates("shop.items", [3]))
    assert sorted(job.rows("orders")) == [1, 2, 3, 4]
    assert (sorted(job.rows("items")), sorted(job.rows("late"))) == ([1, 2, 3], [1])
    assert len(job.quarantine()) == 1, "the unreadable message is quarantined once"


def the_status(job: DatabaseJob) -> list[TableStatus]:
    return list(
        JobStatus(
            job_tables=job.database,
            checkpoint=job.checkpoint,
            ends={"all": {"0": len(job.sent)}},
            now_ms=job.clock.now_ms(),
        ).tables()
    )


def test_a_table_waits_through_a_restart(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    file = in_the_way(job, "orders")
    job.run(*creates("shop.items", [1]), *creates("shop.orders", [1]))
    job.start()
    job.run(*creates("shop.orders", [2]))
    assert list(job.held()) == ["orders"]
    held_tables: dict[str, HeldTable | None] = {}
    IndependentTables(
        [],
        epoch_log=EpochLog(job.checkpoint, can_reread=True),
        state_file=JobStateFile(job.checkpoint),
        now_ms=job.clock.now_ms,
        on_change=held_tables.__setitem__,
    )
    assert held_tables.keys() == {"orders"}, "a job that starts tells it again"
    file.unlink()
    job.start()
    job.run(*creates("shop.orders", [3]), *creates("shop.items", [2]))
    job.wait(HOURS)
    assert job.held() == {}
    assert sorted(job.rows("orders")) == [1, 2, 3]
    assert sorted(job.rows("items")) == [1, 2]


def test_a_known_table_that_cannot_be_opened_at_start_waits(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.items", [1]), *creates("shop.orders", [1]))
    moved_folder = (Path(job.sync.path("orders")) / "schema").rename(tmp_path / "kept")
    file = in_the_way(job, "orders")
    job.start()
    job.run(*creates("shop.items", [2]), *creates("shop.orders", [2]))
    assert list(job.held()) == ["orders"]
    file.unlink()
    moved_folder.rename(file)
    go_on(job, "orders")
    assert job.held() == {}
    assert sorted(job.rows("orders")) == sorted(job.rows("items")) == [1, 2]


def test_a_table_whose_messages_are_gone_waits_no_longer_than_to_the_next_start(
    tmp_path: Path,
) -> None:
    """The configuration leaves its source table out, so no table lacks these messages."""
    job = DatabaseJob(tmp_path)
    file = in_the_way(job, "orders")
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    job.start(excluding_tables="orders")
    file.unlink()
    job.run(*creates("shop.items", [2]))
    assert job.held() == {}
    assert sorted(job.rows("items")) == [1, 2]


NOTHING_TOLD: Message = (
    b'{"id":1}',
    b'{"before":null,"after":null,"op":"t","source":{"db":"shop","table":"orders"}}',
)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_table_is_made_with_the_first_message_that_has_its_columns(
    tmp_path: Path, restarts: bool
) -> None:
    job = DatabaseJob(tmp_path)
    job.run(NOTHING_TOLD, *creates("shop.items", [1]))
    assert [reason.partition("\n")[0] for reason in job.quarantine()] == [
        "no message of this epoch describes a column of the table"
    ]
    if restarts:
        job.start()
    job.run(*creates("shop.orders", [1]), change("shop.orders", a_row(2)))
    assert job.rows("orders") == {1: "new 1", 2: "new 2"}
    assert (len(job.quarantine()), job.held()) == (1, {})


def test_the_status_fits_on_lines_and_one_table_has_its_whole_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = DatabaseJob(tmp_path)
    in_the_way(job, "orders")
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    whole = job.held()["orders"]
    assert "\n" in whole
    conf = write_conf(
        tmp_path / "job.toml",
        source={"bootstrap-servers": "127.0.0.1:1", "topics": ["all"]},
        sync={"warehouse": job.sync.warehouse, "database": "ods"},
        stream={"checkpoint": job.config.stream.checkpoint},
    )

    def printed_by(*words: str, code: int = 1) -> str:
        capsys.readouterr()
        assert main(["status", "--conf", str(conf), *words]) == code
        output = capsys.readouterr()
        return output.err if code == 2 else output.out

    _, _, items, orders = printed_by().splitlines()
    assert items.startswith("items   ready")
    assert orders.endswith("…")
    assert whole.startswith(orders.partition("the file system")[1])
    assert len(orders.partition("the file system")[2]) < SHORT_REASON
    assert "\\n" not in orders
    assert printed_by("--table", "orders").endswith(f"\n\n{whole}\n")
    assert "did you mean orders? name one of items, orders" in printed_by(
        "--table", "order", code=2
    )


def test_only_long_reasons_are_shortened() -> None:
    for reason in (None, "", "the store does not answer"):
        row = TableStatus(table="a", state=JobTableState.HELD, reason=reason)
        assert shorten_reason(row) == row
    long = shorten_reason(TableStatus(table="a", state=JobTableState.HELD, reason="x" * 500)).reason
    assert long == "x" * (SHORT_REASON - 1) + "…"
