"""``stream-app web``: shows the tables of a warehouse or of a job in a browser."""

from __future__ import annotations

import argparse
import os

from stream_app.app.cli.arguments.shown_site import add_site, open_site
from stream_app.app.launch.optional_packages import serving_module
from stream_app.app.web.actions import token_of
from stream_app.app.web.site import LOCAL_HOST

_PORT = 8088
DESCRIPTION = "Serve pages about the tables of a warehouse, or about those of a job."
EPILOG = """\
The page shows each table's state and age, its snapshots, the LSM tree of each bucket with what is
compacted next, its schemas, tags, consumers and options, and rows and changes. It updates
itself when something changes. It writes nothing, unless STREAM_APP_WEB_TOKEN has a token of 16
characters or more: with the token an operator may compact, tag, and replay a quarantine there.

Without --host the server answers on this machine alone. It has no passwords: with --host, every
client that reaches the port reads the tables. Other names of the machine need --name.

examples:
  stream-app web
  stream-app web --warehouse s3://lake/warehouse --port 9000
  stream-app web --conf conf/shop-database.toml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_site(parser)
    parser.add_argument(
        "--port", type=int, default=_PORT, help=f"the port of the server; default: {_PORT}"
    )
    parser.add_argument(
        "--host",
        default=LOCAL_HOST,
        metavar="ADDRESS",
        help=f"the address at which the server listens; default: {LOCAL_HOST}",
    )
    parser.add_argument(
        "--name", action="append", default=[], metavar="NAME",
        help="with --host: another host name by which browsers reach the server; may be repeated; "
        "*: any name",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Serve until the process is ended.

    Raises:
        UsageError: the packages of the pages are missing, or the port is taken.
    """
    serving = serving_module()
    serving.serve(open_site(args), args.host, args.port, token_of(os.environ), args.name)
    return 0
