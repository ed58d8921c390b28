"""What the demo shows while it runs and at its end: how far it is, the proof, what to try."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from stream_app.demo.progress import TableProgress
from stream_app.demo.proof import Side

WIDTH = 78


@dataclass(slots=True)
class DemoState:
    """What the live panel shows."""

    records: int
    tables: Mapping[str, TableProgress]
    sent: int = 0
    seconds: float = 0.0
    run: int = 0
    waiting: str = field(default="")

    @property
    def newest(self) -> TableProgress:
        """The table with the newest epoch: an epoch without changes leaves a table as it is."""
        return max(
            self.tables.values(), key=lambda table: -1 if table.epoch is None else table.epoch
        )


def live_panel(state: DemoState) -> Panel:
    """How far the job is; `waiting` says until when it is watched."""
    newest = state.newest
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", justify="right")
    grid.add_column()
    grid.add_row("sent", _bar(state.sent, state.records, "cyan"))
    grid.add_row("in tables", _bar(newest.read, state.records, "green"))
    for name, table in state.tables.items():
        grid.add_row(name, _table_text(table))
    return Panel(
        grid,
        title=f"run {state.run} of the job, {state.seconds:.0f} s",
        subtitle=f"watching {state.waiting}" if state.waiting else None,
        width=WIDTH,
        border_style="blue" if state.waiting else "dim",
    )


def _bar(done: int, total: int, style: str) -> RenderableType:
    row = Table.grid(padding=(0, 1))
    row.add_row(ProgressBar(total, done, width=34, complete_style=style), f"{done:,} of {total:,}")
    return row


def _table_text(table: TableProgress) -> Text:
    if table.epoch is None:
        return Text("…", style="dim")
    appends, compacts = table.snapshots["APPEND"], table.snapshots["COMPACT"]
    return Text.assemble(
        f"epoch {table.epoch:<3}  {appends:3} APPEND  ",
        (f"{compacts:3} COMPACT  ", "magenta" if compacts else ""),
        (f"schema {table.schema_id}", "bold" if table.schema_id else ""),
    )


def proof_panel(sides: Mapping[str, tuple[Side, Side]], *, seconds: float) -> Panel:
    """Source and table of each table."""
    grid = Table.grid(padding=(0, 3))
    grid.add_row("", "rows", "in the shop's memory", "read from the files", style="dim")
    for name, (source, there) in sides.items():
        rows = f"{source.rows:,}"
        if there.rows != source.rows:
            rows += f", table {there.rows:,}"
        style = "" if source == there else "bold red"
        grid.add_row(name, rows, source.checksum, there.checksum, style=style)
    equal = all(source == there for source, there in sides.values())
    verdict = (
        "equal: killed, altered, and nothing is lost and nothing is twice"
        if equal
        else "NOT EQUAL: please report this"
    )
    return Panel(
        Group(grid, Text(verdict, style="bold green" if equal else "bold red")),
        title=f"proof after {seconds:.0f} s: checksums of all columns",
        width=WIDTH,
        border_style="green" if equal else "red",
    )


def program() -> str:
    """How the demo was called, for lines to copy: ``stream-app``, or ``./run.sh``."""
    return "stream-app" if Path(sys.argv[0]).name == "stream-app" else "./run.sh"


def next_steps(warehouse: Path) -> Text:
    """Lines to go on with; print them without wrapping, so that they can be copied."""
    if warehouse.is_relative_to(Path.cwd()):
        warehouse = warehouse.relative_to(Path.cwd())
    orders, customers = (
        shlex.quote(str(warehouse / "demo.db" / name)) for name in ("orders", "customers")
    )
    return Text(
        "try next:\n"
        f"  {program()} read {orders} --where 'total > 1000000' --limit 5\n"
        f"  {program()} changelog {orders} --from 1 --format jsonl | head\n"
        f"  {program()} inspect {customers} schemas"
    )
