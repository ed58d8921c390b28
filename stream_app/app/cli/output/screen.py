"""Draws the terminal: the list of tables, and below it the details of one. Reads single keys.

A key is read without waiting for the end of a line.
"""

from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from stream_app.app.inspect.bucket_trees import next_compactions
from stream_app.app.inspect.compaction_history import compactions_of
from stream_app.app.inspect.table_status import JobTableState, TableStatus, shorten_reason
from stream_app.app.text.listing import age_text, size_text, time_text
from stream_app.app.text.text_table import visible_text
from stream_app.app.web.site import Site
from stream_app.app.web.table_list import ORDERS, TROUBLE, ListChoice
from stream_app.epochs.stages.epoch_seconds import epoch_seconds_text, parse_epoch_seconds
from stream_app.errors import StreamAppError
from stream_app.model.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    SECONDS_PROPERTY,
    CommitKind,
    Snapshot,
)

_STYLES = {
    JobTableState.READY: "green",
    JobTableState.WAITING: "yellow",
    JobTableState.EMPTY: "yellow",
    JobTableState.LOADING: "yellow",
}
_OUTER_LINE_COUNT = 5
"""The number of lines for the title, the list's head with its rules, and the keys."""
_SHOWN_SNAPSHOTS_MAX, _READ_SNAPSHOTS_MAX, _SHOWN_COMPACTIONS_MAX = 4, 30, 4
DETAIL_LINE_COUNT = 5 + _SHOWN_SNAPSHOTS_MAX + _SHOWN_COMPACTIONS_MAX
_COLUMNS = (
    "table", "state", "behind", "lag", "changed", "epoch", "snapshot", "runs", "reason"
)  # fmt: skip
_NARROW_WIDTH = 100
"""The width in characters below which some columns of numbers are omitted."""
_OMITTED_COLUMNS = ("changed", "epoch", "snapshot", "runs")
_NAME_WIDTH_MIN = 24
"""The minimum number of characters that are shown of a name."""
_COLUMN_RATIOS = {"table": 2, "reason": 3}
"""Columns that may be cut, and their shares of the remaining width."""
_KEYS = "q quits · ↑ ↓ choose a table · s sorts by {}"
UP, DOWN, PAGE_UP, PAGE_DOWN = "up", "down", "page up", "page down"
_KEY_NAMES = {
    b"\x1b[A": UP, b"\x1bOA": UP, b"k": UP,
    b"\x1b[B": DOWN, b"\x1bOB": DOWN, b"j": DOWN,
    b"\x1b[5~": PAGE_UP, b"\x1b[6~": PAGE_DOWN, b" ": PAGE_DOWN,
}  # fmt: skip
_SEQUENCE_BYTES_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ListView:
    """The user's choice in the list.

    Attributes:
        order: one of `ORDERS`.
        chosen_index: the index of the table whose details are shown.
        height, width: lines and characters of the terminal.
    """

    order: str = TROUBLE
    chosen_index: int = 0
    height: int = 24
    width: int = _NARROW_WIDTH

    @property
    def row_count(self) -> int:
        """The number of tables that fit on the screen."""
        return max(1, self.height - _OUTER_LINE_COUNT - DETAIL_LINE_COUNT)

    def after(self, key: str | None, table_count: int) -> ListView:
        """Return the view after a key was pressed, for a list of `table_count` tables."""
        steps = {UP: -1, DOWN: 1, PAGE_UP: -self.row_count, PAGE_DOWN: self.row_count}
        if key == "s":
            order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
            return replace(self, order=order, chosen_index=0)
        index = self.chosen_index + steps.get(key or "", 0)
        return replace(self, chosen_index=max(0, min(index, table_count - 1)))

    def sorted(self, tables: Sequence[TableStatus]) -> list[TableStatus]:
        """Return the tables in the order of the view."""
        return ListChoice(order=self.order).select(tables)


def screen(
    title: str, tables: Sequence[TableStatus], view: ListView, detail: RenderableType
) -> RenderableType:
    """Return the lines of one screen.

    Args:
        tables: the tables, in the order of the view.
        detail: the details of the chosen table.
    """
    first_index = max(0, min(view.chosen_index - view.row_count // 2, len(tables) - view.row_count))
    shown_tables = tables[first_index : first_index + view.row_count]
    left_out_columns = _OMITTED_COLUMNS if view.width < _NARROW_WIDTH else ()
    grid = table_list(
        [_without_database(status, title) for status in shown_tables],
        chosen_index=view.chosen_index - first_index,
        left_out_columns=left_out_columns,
    )
    keys = _KEYS.format(ORDERS[(ORDERS.index(view.order) + 1) % len(ORDERS)])
    if len(shown_tables) < len(tables):
        keys += f" · tables {first_index + 1} to {first_index + len(shown_tables)} of {len(tables)}"
    return Group(summary(title, tables), grid, detail, Text(keys, style="dim"))


def summary(title: str, tables: Sequence[TableStatus]) -> Text:
    """Return one line with the number of tables and their states."""
    trouble_count = sum(status.is_trouble for status in tables)
    ages = [status.fresh_s for status in tables if status.fresh_s is not None]
    text = Text(no_wrap=True, overflow="ellipsis").append(visible_text(title), style="bold")
    text.append(f"  {len(tables)} table{'' if len(tables) == 1 else 's'}")
    if trouble_count:
        text.append(f", {trouble_count} in trouble", style="bold red")
    if ages and max(ages) > 0:
        text.append(f", at most {age_text(max(ages))} behind")
    elif ages and len(ages) == len(tables) and not trouble_count:
        text.append(", all up to date")
    if ages and (unknown_count := len(tables) - len(ages)):
        text.append(f", {unknown_count} of unknown age")
    return text


def _without_database(status: TableStatus, title: str) -> TableStatus:
    """Return the status with the table's name, without the database if that is the title."""
    return replace(status, table=status.table.removeprefix(f"{title}."))


def table_list(
    tables: Sequence[TableStatus],
    *,
    chosen_index: int | None = None,
    left_out_columns: Sequence[str] = (),
) -> Table:
    """Return the tables as rows; `chosen_index` is the index of the highlighted one.

    Columns without known values, and the columns in `left_out_columns`, are omitted.
    """
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=chosen_index is not None)
    rows = [_cells(status) for status in map(shorten_reason, tables)]
    columns = [
        name for name in _COLUMNS if name not in left_out_columns and any(row[name] for row in rows)
    ]
    for name in columns:
        is_text, width = name in _COLUMN_RATIOS, max(len(name), *(len(row[name]) for row in rows))
        width_min = None if is_text else width
        if name == "table":
            width_min = min(width, _NAME_WIDTH_MIN)
        grid.add_column(
            name,
            justify="left" if is_text or name == "state" else "right",
            no_wrap=True,
            overflow="ellipsis",
            min_width=width_min,
            ratio=_COLUMN_RATIOS.get(name) if chosen_index is not None else None,
        )
    for index, (status, row) in enumerate(zip(tables, rows, strict=True)):
        style = _STYLES.get(status.state, "red")
        cells = [
            escape(row[name] or "-") if name != "reason" else escape(row[name]) for name in columns
        ]
        cells[columns.index("state")] = f"[{style}]{status.state}[/]"
        grid.add_row(*cells, style="reverse" if index == chosen_index else "")
    return grid


def _cells(status: TableStatus) -> dict[str, str]:
    """Return column → text of a row; unknown values are empty."""
    values = {
        "lag": status.lag,
        "epoch": status.epoch,
        "snapshot": status.snapshot,
        "runs": status.sorted_runs,
    }
    ages = {"behind": status.fresh_s, "changed": status.changed_s}
    return {
        "table": visible_text(status.table),
        "state": status.state,
        **{name: "" if age is None else age_text(age) for name, age in ages.items()},
        **{name: "" if value is None else f"{value:,}" for name, value in values.items()},
        "reason": visible_text(status.reason or ""),
    }


def detail_of(site: Site, name: str) -> RenderableType:
    """Return the latest snapshots and compactions of a table, and its next compactions."""
    try:
        return Group(*_details(site, name))
    except (StreamAppError, OSError) as error:
        return Text(f"{name}: {visible_text(str(error))}", style="red", overflow="ellipsis")


def _epoch_parts(snapshots: Sequence[Snapshot]) -> Iterator[str]:
    """Yield the seconds of each part of an epoch that precedes its commit."""
    for snapshot in snapshots:
        seconds_by_name = parse_epoch_seconds((snapshot.properties or {}).get(SECONDS_PROPERTY))
        if seconds_by_name:
            yield visible_text(
                f"epoch {snapshot.commit_identifier}: {epoch_seconds_text(seconds_by_name)}"
            )


def _details(site: Site, name: str) -> list[Text]:
    """Return the lines about a table: snapshots, last epoch, compactions, and what is due."""
    table = site.open(name)
    snapshots = list(islice(table.snapshots.backwards(), _READ_SNAPSHOTS_MAX))
    lines = [Text(visible_text(name), style="bold")]
    if not snapshots:
        return [*lines, Text("no snapshot yet")]
    for snapshot in snapshots[:_SHOWN_SNAPSHOTS_MAX]:
        records_text = f"{snapshot.delta_record_count or 0:+,} records in files"
        is_epoch = snapshot.commit_identifier < BATCH_COMMIT_IDENTIFIER
        epoch_text = f", epoch {snapshot.commit_identifier}" if is_epoch else ""
        kind, commit_time_text = snapshot.commit_kind.value, time_text(snapshot.time_ms)
        commit_text = f"snapshot {snapshot.snapshot_id} {kind} {commit_time_text}{epoch_text}"
        lines.append(Text(f"  {commit_text}, {records_text}"))
    lines += [Text(f"  {part}") for part in islice(_epoch_parts(snapshots), 1)]
    compact_snapshots = (
        snapshot for snapshot in snapshots if snapshot.commit_kind is CommitKind.COMPACT
    )
    rows = (row for snapshot in compact_snapshots for row in compactions_of(table, snapshot))
    for row in islice(rows, _SHOWN_COMPACTIONS_MAX):
        where = f"{row.partition} bucket {row.bucket}".strip()
        level = "-" if row.output_level is None else row.output_level
        compaction_text = (
            f"  compacted {where}: {row.reason or 'by another engine'}, levels {row.levels} → "
            f"{level}, {size_text(row.bytes_in)} → {size_text(row.bytes_out)}"
        )
        lines.append(Text(compaction_text, style="cyan"))
    compactions = next_compactions(table, snapshots[0])
    reasons = [plan.reason for plan in compactions.plans.values()]
    planned_text = compactions.obstacle or "nothing is due"
    if reasons:
        verb = "s are" if len(reasons) > 1 else " is"
        planned_text = f"{len(reasons)} compaction{verb} due: {reasons[0]}"
    return [*lines, Text(f"  next: {planned_text}", style="dim")]


@contextmanager
def pressed_keys(terminal: int) -> Iterator[Callable[[float], str | None]]:
    """Within the block, read single keys of a terminal at once and without an echo.

    Args:
        terminal: its file descriptor.

    Yields:
        A function that waits some seconds for a key, and returns its name or letter. It returns
        None without a key, and ``q`` at the end of the input.
    """
    terminal_settings = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)

    def wait(seconds: float) -> str | None:
        ready_inputs, _, _ = select.select([terminal], [], [], seconds)
        if not ready_inputs:
            return None
        data = os.read(terminal, _SEQUENCE_BYTES_MAX)
        if not data:
            return "q"
        # If several bytes arrive together, only the first key counts, unless they are the sequence
        # of one key.
        return _KEY_NAMES.get(data) or _KEY_NAMES.get(data[:1]) or data[:1].decode(errors="replace")

    try:
        yield wait
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, terminal_settings)
