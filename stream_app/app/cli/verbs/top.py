"""``stream-app top``: shows the tables of a warehouse or of a job live in a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console, RenderableType
from rich.live import Live

from stream_app.app.cli.arguments.shown_site import add_site, open_site
from stream_app.app.cli.output.screen import (
    ListView,
    detail_of,
    pressed_keys,
    screen,
    summary,
    table_list,
)
from stream_app.app.inspect.table_status import TableStatus
from stream_app.app.web.site import Site
from stream_app.errors import UsageError

_INTERVAL_S = 2.0
_INTERVAL_MIN_S = 0.2
_PIPE_WIDTH = 200
DESCRIPTION = "Show the tables of a warehouse, or those of a job, in a terminal, live."
EPILOG = """\
keys: q quits, arrows (or j and k) choose the table whose snapshots and compactions are shown, s
sorts: trouble first, stalest, most lag, most sorted runs, by name.

Without a terminal, or with --once, the command prints the list once. It writes nothing.

examples:
  stream-app top
  stream-app top --warehouse s3://lake/warehouse --interval 5
  stream-app top --conf conf/shop-database.toml --once"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_site(parser)
    parser.add_argument("--once", action="store_true", help="print the list once")
    parser.add_argument(
        "--interval",
        type=float,
        default=_INTERVAL_S,
        metavar="SECONDS",
        help=f"seconds between two looks at the tables; default: {_INTERVAL_S:g}",
    )


def run(args: argparse.Namespace) -> int:
    """Show the tables until ``q``.

    Raises:
        UsageError: the warehouse does not exist, or the configuration is wrong.
    """
    if not args.interval >= _INTERVAL_MIN_S:
        raise UsageError(
            f"--interval {args.interval:g} is too short", fix=f"give {_INTERVAL_MIN_S:g} or more"
        )
    site = open_site(args)
    if args.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        # A pipe has no width, and its reader wants whole lines.
        _print(site, Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH))
    else:
        _watch(site, Console(highlight=False), args.interval)
    return 0


def _print(site: Site, console: Console) -> None:
    tables = ListView().sorted(site.tables())
    console.print(summary(site.title, tables))
    if tables:
        console.print(table_list(tables))


def _watch(site: Site, console: Console, interval_s: float) -> None:
    view = ListView()
    key = None
    with (
        pressed_keys(sys.stdin.fileno()) as wait,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        tables = site.tables()
        while key != "q":
            view = replace(view, height=console.height, width=console.width)
            live.update(_draw(site, tables, view), refresh=True)
            key = wait(interval_s)
            view = view.after(key, len(tables))
            if key is None:
                tables = site.tables()


def _draw(site: Site, tables: Sequence[TableStatus], view: ListView) -> RenderableType:
    sorted_tables = view.sorted(tables)
    index = min(view.chosen_index, len(sorted_tables) - 1)
    detail = (
        detail_of(site, sorted_tables[index].table) if sorted_tables else "there is no table yet"
    )
    return screen(site.title, sorted_tables, view, detail)
