"""Draws the demo's panels: progress while it runs; at its end the proof, and commands to try."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from stream_app.demo.proof import DemoSide
from stream_app.errors import TableNotFoundError
from stream_app.model.snapshot import SOURCE_END_PROPERTY, CommitKind, Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table

WIDTH = 78


@dataclass
class TableProgress:
    """The progress of a table, by its snapshots.

    Attributes:
        message_count: the number of messages of all topics up to the end of `epoch`.
        epoch: the newest epoch that brought the table a change.
        schema_id: the schema of the latest snapshot.
        latest_id: the number of the latest snapshot that was read.
        snapshots: the numbers of snapshots by kind.
    """

    location: str
    message_count: int = 0
    epoch: int | None = None
    latest_id: int = 0
    schema_id: int = 0
    snapshots: Counter[str] = field(default_factory=Counter)
    _table: FileStoreTable | None = field(init=False, default=None)

    def read_snapshots(self) -> None:
        """Read the snapshots that were committed since the last call."""
        try:
            self._table = self._table or open_file_store_table(self.location)
        except TableNotFoundError:
            return  # the job has yet to make it
        snapshots = self._table.snapshots
        for snapshot_id in range(self.latest_id + 1, (snapshots.latest_id() or 0) + 1):
            self.latest_id = snapshot_id
            try:
                self._add_snapshot(snapshots.snapshot(snapshot_id))
            except FileNotFoundError:
                continue  # expired, in a long demo

    def _add_snapshot(self, snapshot: Snapshot) -> None:
        self.snapshots[snapshot.commit_kind.value] += 1
        self.schema_id = snapshot.schema_id
        end = (snapshot.properties or {}).get(SOURCE_END_PROPERTY)
        if snapshot.commit_kind is CommitKind.APPEND and end:
            self.epoch = snapshot.commit_identifier
            self.message_count = messages_before(end)


def messages_before(source_end: str) -> int:
    """Return the number of messages before an epoch's end offsets; topics begin at offset 0."""
    return sum(
        offset
        for line in source_end.splitlines()
        for topic_offsets in json.loads(line).values()
        for offset in topic_offsets.values()
    )


@dataclass(slots=True)
class DemoState:
    """The content of the live panel.

    Attributes:
        record_count: the number of records that the producer sends in all.
        sent_count: the number of records that it has sent.
        run: the number of the job's current run, from 1.
        goal: the event that the demo waits for; empty without one.
    """

    record_count: int
    tables: Mapping[str, TableProgress]
    sent_count: int = 0
    elapsed_s: float = 0.0
    run: int = 0
    goal: str = ""

    def advance(self, *, sent_count: int, elapsed_s: float, run: int) -> None:
        """Update the numbers of the producer and the job, and read the tables' new snapshots."""
        for table in self.tables.values():
            table.read_snapshots()
        self.sent_count = sent_count
        self.elapsed_s = elapsed_s
        self.run = run

    def wait_until(self, goal: str) -> None:
        """Show the event that the demo waits for, or an empty text for none."""
        self.goal = goal

    @property
    def newest_table(self) -> TableProgress:
        """The table with the newest epoch. An epoch without changes for a table skips it."""
        return max(
            self.tables.values(), key=lambda table: -1 if table.epoch is None else table.epoch
        )


def live_panel(state: DemoState) -> Panel:
    """Draw the progress of producer and job."""
    newest_table = state.newest_table
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", justify="right")
    grid.add_column()
    grid.add_row("sent", _bar(state.sent_count, state.record_count, "cyan"))
    grid.add_row("in tables", _bar(newest_table.message_count, state.record_count, "green"))
    for name, table in state.tables.items():
        grid.add_row(name, _table_text(table))
    return Panel(
        grid,
        title=f"run {state.run} of the job, {state.elapsed_s:.0f} s",
        subtitle=f"watching {state.goal}" if state.goal else None,
        width=WIDTH,
        border_style="blue" if state.goal else "dim",
    )


def _bar(count: int, total: int, style: str) -> RenderableType:
    row = Table.grid(padding=(0, 1))
    row.add_row(
        ProgressBar(total, count, width=34, complete_style=style), f"{count:,} of {total:,}"
    )
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


def proof_panel(sides: Mapping[str, Sequence[DemoSide]], *, elapsed_s: float) -> Panel:
    """Draw for each table its source, its files and, with a catalog, PyIceberg's result."""
    columns = ["in the shop's memory", "read from the files"]
    if has_iceberg := any(len(table_sides) > len(columns) for table_sides in sides.values()):
        columns = ["shop's memory", "files", "PyIceberg"]
    grid = Table.grid(padding=(0, 2 if has_iceberg else 3))
    grid.add_row("", "rows", *columns, style="dim")
    for name, (source, *copies) in sides.items():
        row_count_text = f"{source.row_count:,}"
        for copy_side in copies:
            row_count_text += (
                f", table {copy_side.row_count:,}"
                if copy_side.row_count != source.row_count
                else ""
            )
        checksums = (side.checksum for side in (source, *copies))
        style = "" if are_equal(sides[name]) else "bold red"
        grid.add_row(name, row_count_text, *checksums, style=style)
    equal = all(map(are_equal, sides.values()))
    verdict = (
        "equal: killed, altered, and nothing is lost and nothing is twice"
        if equal
        else "NOT EQUAL: please report this"
    )
    return Panel(
        Group(grid, Text(verdict, style="bold green" if equal else "bold red")),
        title=f"proof after {elapsed_s:.0f} s: checksums of all columns",
        width=WIDTH,
        border_style="green" if equal else "red",
    )


def are_equal(sides: Sequence[DemoSide]) -> bool:
    """Return whether all sides of a table have the same count and checksum."""
    return all(side == sides[0] for side in sides)


def program() -> str:
    """Return the command by which the user has started the demo: ``stream-app`` or ``./run.sh``."""
    return "stream-app" if Path(sys.argv[0]).name == "stream-app" else "./run.sh"


def next_steps(warehouse: Path) -> Text:
    """Return commands to try next; print them without wrapping, so that users can copy them."""
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
