"""`top` shows the tables in a terminal: printed once, or live at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from stream_app.app.cli.main import main
from stream_app.app.cli.output.screen import (
    DOWN,
    PAGE_DOWN,
    PAGE_UP,
    UP,
    ListView,
    detail_of,
    screen,
)
from stream_app.app.inspect.table_status import JobTableState, TableStatus
from stream_app.app.web.site import WarehouseSite
from stream_app.clock import SystemClock
from stream_app.epochs.stages.epoch_seconds import TaskSeconds, epoch_seconds
from stream_app.fileio.store_registry import file_io_of
from stream_app.model.snapshot import SECONDS_PROPERTY
from tests.support.pages.web_server import rows
from tests.support.tables.small_table import small_table

BUSY = TableStatus(
    table="orders", state=JobTableState.READY, epoch=7, snapshot=12, lag=1200, fresh_s=95,
    changed_s=3, sorted_runs=4,
)  # fmt: skip
HELD_BACK = TableStatus(
    table="items", state=JobTableState.HELD, lag=9, fresh_s=4000, reason="[b]no column 'x'"
)
QUIET = TableStatus(
    table="visits", state=JobTableState.READY, epoch=7, snapshot=2, lag=0, fresh_s=0
)


def text_of(renderable: object, width: int = 120) -> str:
    console = Console(record=True, width=width, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    console.print(renderable)
    return console.export_text()


def test_the_screen_has_trouble_first_and_every_number() -> None:
    view = ListView(height=40)
    shown = text_of(screen("shop", view.sorted([BUSY, HELD_BACK, QUIET]), view, "the details"))
    first, *_ = lines = shown.splitlines()
    assert first.split("  ") == ["shop", "3 tables, 1 in trouble, at most 1 h 6 min behind"]
    table_rows = [
        line.split() for line in lines if line.startswith((" orders", " items", " visits"))
    ]
    assert [row[0] for row in table_rows] == ["items", "orders", "visits"]
    assert table_rows[0][-3:] == ["[b]no", "column", "'x'"]
    assert table_rows[1][1:] == ["ready", "1", "min", "35", "s", "1,200", "3", "s", "7", "12", "4"]
    assert "the details" in shown
    assert "s sorts by stale" in shown


def test_a_narrow_terminal_shows_names_and_reasons() -> None:
    name, reason = "shop.a_table_of_thirty_characters_", "cannot write: no space left"
    held_status = TableStatus(
        table=name, state=JobTableState.HELD, lag=2000, epoch=7, snapshot=9, reason=reason
    )
    shown = text_of(screen("shop", [held_status, QUIET], ListView(width=80), ""), width=80)
    first, *_ = lines = shown.splitlines()
    assert first == "shop  2 tables, 1 in trouble, 1 of unknown age"
    assert any("a_table_of_th" in line and "cannot write" in line for line in lines), shown
    assert "snapshot" not in shown


def test_a_list_that_is_too_long_follows_the_choice() -> None:
    tables = [
        TableStatus(table=f"t{number:03}", state=JobTableState.READY) for number in range(100)
    ]
    view = ListView(height=30)
    for key in [DOWN] * 50:
        view = view.after(key, len(tables))
    assert view.chosen_index == 50
    shown = text_of(screen("shop", tables, view, ""))
    assert "t050" in shown
    assert "t001" not in shown
    assert f"of {len(tables)}" in shown
    assert view.after(UP, 100).chosen_index == 49
    assert view.after(PAGE_DOWN, 100).chosen_index == 50 + view.row_count
    assert view.after(PAGE_UP, 100).after(PAGE_UP, 100).after(PAGE_UP, 100).chosen_index < 50
    assert view.after("s", 100) == ListView(order="stale", height=30)
    assert ListView(chosen_index=99).after(DOWN, 100).chosen_index == 99
    assert ListView().after(DOWN, 0).chosen_index == 0


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("stale", ["items", "orders", "visits"]),
        ("lag", ["orders", "items", "visits"]),
        ("runs", ["orders", "items", "visits"]),
        ("name", ["items", "orders", "visits"]),
    ],
)
def test_the_order_changes_what_comes_first(order: str, names: list[str]) -> None:
    shown = ListView(order=order).sorted([QUIET, BUSY, HELD_BACK])
    assert [status.table for status in shown] == names


def test_the_details_are_those_of_the_table(tmp_path: Path) -> None:
    orders = small_table(
        tmp_path / "shop.db" / "orders", "k INT, v STRING", ("k",),
        num_sorted_run__compaction_trigger=3,
    )  # fmt: skip
    parts = epoch_seconds(TaskSeconds(3.0, 2.0, 0.5), wait_s=0, routing_s=4.0, writing_s=1.0)
    for key in range(4):
        orders.commit(*rows(key), properties={SECONDS_PROPERTY: parts.as_property})
    orders.compact()
    site = WarehouseSite(*file_io_of(str(tmp_path)), {}, SystemClock())
    shown = text_of(detail_of(site, "shop.orders"))
    latest = orders.table.snapshots.latest()
    assert latest is not None
    assert f"snapshot {latest.snapshot_id} {latest.commit_kind.value}" in shown
    assert ": wait 0.00 s, read 2.00 s, decode 0.50 s, route 1.50 s, write 1.00 s" in shown
    assert "compacted bucket 0" in shown
    assert "next: nothing is due" in shown
    (tmp_path / "shop.db/orders/snapshot" / f"snapshot-{latest.snapshot_id}").write_text("{")
    assert "snapshot" in text_of(detail_of(site, "shop.orders"))


def test_without_a_terminal_it_prints_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_table(tmp_path / "shop.db" / "orders", "k INT, v STRING", ("k",)).commit(*rows(1))
    (tmp_path / "shop.db" / "torn" / "schema").mkdir(parents=True)
    (tmp_path / "shop.db" / "torn" / "schema" / "schema-0").write_text("{")
    assert main(["top", "--warehouse", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "2 tables, 1 in trouble" in output
    assert output.index("shop.torn") < output.index("shop.orders")
    assert "\x1b" not in output


@pytest.mark.slow
def test_it_is_live_at_a_terminal_and_q_ends_it(tmp_path: Path) -> None:
    orders = small_table(tmp_path / "shop.db" / "orders", "k INT, v STRING", ("k",))
    orders.commit(*rows(1))
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "stream_app", "top", "--warehouse", str(tmp_path)]
    process = subprocess.Popen([*command, "--interval", "0.2"], stdin=its, stdout=its, stderr=its)
    os.close(its)
    try:
        wait_for(ours, b"snapshot 1")
        orders.commit(*rows(2))
        wait_for(ours, b"snapshot 2")
        os.write(ours, b"q")
        wait_for(ours, b"")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def wait_for(terminal: int, expected: bytes) -> None:
    """Read until a text has come; the empty one is the end."""
    output, until = b"", time.monotonic() + 120
    while True:
        ready, _, _ = select.select([terminal], [], [], 120)
        assert ready, output
        assert time.monotonic() < until, output
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux: the other side is closed
            data = b""
        output += data
        if expected and expected in output:
            return
        if not data:
            assert not expected, output
            return
