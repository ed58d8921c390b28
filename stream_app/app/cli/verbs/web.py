"""``stream-app web``: the tables of a warehouse or of a job in a browser."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from stream_app.app.cli.arguments.shown_job import shown_job
from stream_app.app.cli.arguments.table import WAREHOUSE
from stream_app.app.config.app_config import load_config
from stream_app.app.config.secrets import Secrets
from stream_app.app.config.settings import environment_secrets, file_io_options
from stream_app.app.launch.optional_packages import serving_module
from stream_app.app.tables.job_folders import checkpoint_of
from stream_app.app.web.actions import token_of
from stream_app.app.web.job_site import JobSite
from stream_app.app.web.site import LOCAL_HOST, Site, WarehouseSite
from stream_app.clock import SystemClock
from stream_app.errors import UsageError
from stream_app.fileio.file_io_registry import file_io_of

_PORT = 8088
DESCRIPTION = "Serve pages about the tables of a warehouse, or about those of a job."
EPILOG = """\
The page shows each table's state and age, its snapshots, the LSM tree of each bucket with what is
compacted next, its schemas, tags, consumers and options, and rows and changes. It comes up by
itself when something changes. It writes nothing, unless STREAM_APP_WEB_TOKEN has a token of 16
characters or more: with it one may compact, tag, and replay a quarantine on the page.

The server answers on this machine alone. It has no passwords: with --host, everybody that reaches
the port reads the tables. A name of the machine that it does not know itself needs --name.

examples:
  stream-app web
  stream-app web --warehouse s3://lake/warehouse --port 9000
  stream-app web --conf conf/shop-database.toml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_site(parser)
    parser.add_argument("--port", type=int, default=_PORT, help=f"default: {_PORT}")
    parser.add_argument(
        "--host",
        default=LOCAL_HOST,
        metavar="ADDRESS",
        help=f"address to listen at; default: {LOCAL_HOST}",
    )
    parser.add_argument(
        "--name", action="append", default=[], metavar="NAME",
        help="with --host: a further name that browsers call it by; may be repeated; *: any",
    )  # fmt: skip


def add_site(parser: argparse.ArgumentParser) -> None:
    """Add ``--warehouse``, ``--conf`` and ``--set``."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--warehouse", metavar="W", help=f"all tables below this folder; default: {WAREHOUSE}"
    )
    which.add_argument(
        "--conf", metavar="FILE", type=Path, help="the tables of the job with this configuration"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="with --conf: set one key of it; may be repeated",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Serve until the process is ended.

    Raises:
        UsageError: the packages of the pages are missing, or the port is taken.
    """
    serving = serving_module()
    serving.serve(site_of(args), args.host, args.port, token_of(os.environ), args.name)
    return 0


def site_of(args: argparse.Namespace) -> Site:
    """The tables that ``--warehouse``, or ``--conf`` and ``--set``, name.

    Raises:
        UsageError: the warehouse is not there, or the configuration is wrong.
    """
    if args.conf is not None:
        config = load_config(args.conf, args.set, os.environ)
        checkpoint = checkpoint_of(config.tables, fix="show the warehouse instead, by --warehouse")
        return JobSite(shown_job(config), checkpoint, SystemClock())
    options = file_io_options(os.environ)
    warehouse, files = file_io_of(args.warehouse or WAREHOUSE, options)
    if not files.exists(warehouse):
        raise UsageError(
            "there is no such warehouse",
            where=warehouse,
            fix="name the folder that holds DATABASE.db folders, or --conf FILE",
        )
    secrets = Secrets(environment_secrets(os.environ))
    return WarehouseSite(warehouse, files, options, SystemClock(), secrets)
