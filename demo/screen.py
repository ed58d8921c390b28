"""What the demo shows: the live panel, the story of the table, the proof, and what to try next."""

from __future__ import annotations

import itertools
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.job import JobProgress
from demo.progress import TableProgress
from demo.proof import Side
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.projection import ROW_KIND
from stream_app.table.versions.file_store_scan import FileStoreScan

_LOG_HEAD, _LOG_TAIL = 6, 8
_CHANGES = 8
_CHANGE_COLUMNS = ("dt", "id", "customer", "amount", "status")
_KIND_STYLES = {"+I": "green", "-U": "yellow", "+U": "yellow", "-D": "red"}


@dataclass(slots=True)
class DemoState:
    """What the live panel shows."""

    records: int
    sent: int = 0
    seconds: float = 0.0
    run: int = 0
    job: JobProgress = field(default_factory=JobProgress)
    table: TableProgress = field(default_factory=lambda: TableProgress(""))


def live_panel(state: DemoState, *, waiting: str | None) -> Panel:
    """The state of the job; `waiting` says until when it is watched."""
    job, table = state.job, state.table
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", justify="right")
    grid.add_column()
    grid.add_row("sent", _bar(state.sent, state.records, "cyan"))
    grid.add_row("in table", _bar(table.read, state.records, "green"))
    lag = max(0, state.sent - table.read)
    epoch = "…" if table.epoch is None else str(table.epoch)
    grid.add_row("epoch", f"{epoch}   {job.rows_per_second:,.0f} changes/s   lag {lag:,}")
    appends, compacts = table.snapshots["APPEND"], table.snapshots["COMPACT"]
    grid.add_row("snapshots", f"{appends} APPEND   {compacts} COMPACT")
    grid.add_row("sorted runs", _runs_text(job))
    grid.add_row("compactions", f"{job.compactions_running} running   {compacts} commits of them")
    title = f"run {state.run} of the job, {state.seconds:.0f} s"
    return Panel(
        grid,
        title=title,
        subtitle=None if waiting is None else f"watching {waiting}",
        width=78,
        border_style="blue" if waiting else "dim",
    )


def _bar(done: int, total: int, style: str) -> RenderableType:
    row = Table.grid(padding=(0, 1))
    row.add_row(ProgressBar(total, done, width=34, complete_style=style), f"{done:,} of {total:,}")
    return row


def _runs_text(job: JobProgress) -> Text:
    """``●●●○ × 5``: five buckets of three sorted runs."""
    text = Text()
    for runs, buckets in sorted(job.sorted_runs.items(), key=lambda item: int(item[0])):
        text.append("●" * min(int(runs), 20), style="magenta")
        text.append(f" × {buckets}   ", style="dim")
    return text if text else Text("…")


def story(table: FileStoreTable) -> Iterator[RenderableType]:
    """The snapshot log, the levels before and after a compaction, some changes."""
    snapshots = [table.snapshots.snapshot(number) for number in table.snapshots.ids()]
    yield _snapshot_log(snapshots)
    yield _levels(table, snapshots)
    yield _changelog(table, snapshots)


def _snapshot_log(snapshots: list[Snapshot]) -> Table:
    view = Table(title=f"snapshot log: {len(snapshots)} snapshots", title_justify="left")
    for name in ("snapshot", "kind", "epoch", "rows in files", "change", "changelog"):
        view.add_column(name, justify="left" if name == "kind" else "right")
    shown = snapshots
    if len(snapshots) > _LOG_HEAD + _LOG_TAIL:
        shown = snapshots[:_LOG_HEAD] + snapshots[-_LOG_TAIL:]
    for index, snapshot in enumerate(shown):
        if index == _LOG_HEAD and len(shown) < len(snapshots):
            view.add_row(*["⋮"] * 6, style="dim")
        compact = snapshot.commit_kind is CommitKind.COMPACT
        view.add_row(
            str(snapshot.snapshot_id),
            snapshot.commit_kind.value,
            str(snapshot.commit_identifier),
            f"{snapshot.total_record_count:,}",
            f"{snapshot.delta_record_count:+,}",
            f"{snapshot.changelog_record_count or 0:,}",
            style="magenta" if compact else None,
        )
    return view


def _levels(table: FileStoreTable, snapshots: list[Snapshot]) -> Table:
    """Files by level when there were most of them, and at the end."""
    scan = FileStoreScan(table)
    before_compaction = [
        snapshot
        for snapshot, following in itertools.pairwise(snapshots)
        if following.commit_kind is CommitKind.COMPACT
    ]
    chosen = max(
        ((scan.live(snapshot), snapshot) for snapshot in before_compaction or snapshots[-1:]),
        key=lambda found: len(found[0]),
    )
    at_end = scan.live(snapshots[-1])
    view = Table(title="files by level, all buckets", title_justify="left")
    view.add_column("level", justify="right")
    view.add_column(f"before a compaction (snapshot {chosen[1].snapshot_id})")
    view.add_column(f"at the end (snapshot {snapshots[-1].snapshot_id})")
    sides = [Counter(entry.file.level for entry in entries) for entries in (chosen[0], at_end)]
    for level in sorted({*sides[0], *sides[1]}):
        view.add_row(str(level), *(_files_text(side[level]) for side in sides))
    totals = []
    for entries in (chosen[0], at_end):
        size = sum(entry.file.file_size for entry in entries)
        rows = sum(entry.file.row_count for entry in entries)
        totals.append(f"{len(entries)} files, {rows:,} rows, {size / 1e6:.1f} MB")
    view.add_section()
    view.add_row("all", *totals)
    return view


def _files_text(count: int) -> str:
    return f"{'▇' * min(count, 24)} {count}" if count else "–"


def _changelog(table: FileStoreTable, snapshots: list[Snapshot]) -> Table:
    """Some changes of the last snapshot that has them, of different kinds."""
    view = Table(title="from the changelog", title_justify="left")
    for name in ("kind", "snapshot", *_CHANGE_COLUMNS):
        view.add_column(name, no_wrap=True)
    changed = PaimonTable(table)
    found = (
        batch
        for one in reversed(snapshots)
        for batch in changed.changelog(snapshot=one.snapshot_id, end=one.snapshot_id)
    )
    changes = next(found, None)
    if changes is None:
        return view
    kinds = changes.rows.column(ROW_KIND).to_pylist()
    # From the first update on, so that before and after stand together.
    start = kinds.index("-U") if "-U" in kinds else 0
    for row in changes.rows.slice(start, _CHANGES).to_pylist():
        kind = row[ROW_KIND]
        values = (str(row[name]) for name in _CHANGE_COLUMNS)
        view.add_row(kind, str(changes.snapshot_id), *values, style=_KIND_STYLES[kind])
    return view


def proof_table(source: Side, there: Side, *, seconds: float) -> Panel:
    """Both sides of the comparison."""
    grid = Table.grid(padding=(0, 3))
    grid.add_row("", "rows", "checksum", style="dim")
    grid.add_row("source (the shop's own memory)", f"{source.rows:,}", source.checksum)
    grid.add_row("table (read from its files)", f"{there.rows:,}", there.checksum)
    equal = source == there
    verdict = (
        "equal: the job was killed, and nothing is lost and nothing is twice"
        if equal
        else "NOT EQUAL: please report this"
    )
    style = "bold green" if equal else "bold red"
    return Panel(
        Group(grid, Text(verdict, style=style)),
        title=f"proof, after {seconds:.0f} s",
        width=78,
        border_style="green" if equal else "red",
    )


def next_steps(table: Path) -> Text:
    """Three lines to go on with; print it without wrapping, so that they can be copied."""
    if table.is_relative_to(Path.cwd()):
        table = table.relative_to(Path.cwd())
    path = shlex.quote(str(table))
    return Text(
        "try next:\n"
        f"  ./run.sh read {path} --where \"status = 'returned'\" --limit 5\n"
        f"  ./run.sh changelog {path} --from 1 --format jsonl | head\n"
        f"  ./run.sh inspect {path} levels"
    )
