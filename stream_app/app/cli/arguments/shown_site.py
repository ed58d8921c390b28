"""Arguments that choose the tables to show: those of a warehouse, or those of a job."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from stream_app.app.config.app_config import load_config
from stream_app.app.config.secrets import Secrets
from stream_app.app.config.settings import environment_secrets, file_io_options
from stream_app.app.config.shown_job import shown_job
from stream_app.app.opening.job_folder_access import open_checkpoint
from stream_app.app.web.job_site import JobSite
from stream_app.app.web.site import Site, WarehouseSite
from stream_app.clock import SystemClock
from stream_app.errors import UsageError
from stream_app.fileio.store_registry import file_io_of
from stream_app.table.api.paimon_database import DEFAULT_WAREHOUSE


def add_site(parser: argparse.ArgumentParser) -> None:
    """Add ``--warehouse``, ``--conf`` and ``--set``."""
    site_group = parser.add_mutually_exclusive_group()
    site_group.add_argument(
        "--warehouse",
        metavar="FOLDER",
        help=f"show all tables below this folder; default: {DEFAULT_WAREHOUSE}",
    )
    site_group.add_argument(
        "--conf",
        metavar="FILE",
        type=Path,
        help="show the tables of the job with this configuration",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="with --conf: set one key of the configuration; may be repeated",
    )  # fmt: skip


def open_site(args: argparse.Namespace) -> Site:
    """Open the tables of ``--warehouse``, or of the job of ``--conf`` and ``--set``.

    Raises:
        UsageError: the warehouse does not exist, or the configuration is wrong.
    """
    if args.conf is not None:
        config = load_config(args.conf, args.set, os.environ)
        checkpoint = open_checkpoint(
            config.job_tables, fix="show the warehouse instead, by --warehouse"
        )
        return JobSite(shown_job(config), checkpoint, SystemClock())
    options = file_io_options(os.environ)
    warehouse, file_io = file_io_of(args.warehouse or DEFAULT_WAREHOUSE, options)
    if not file_io.exists(warehouse):
        raise UsageError(
            "there is no such warehouse",
            where=warehouse,
            fix="name the folder that holds DATABASE.db folders, or --conf FILE",
        )
    secrets = Secrets(environment_secrets(os.environ))
    return WarehouseSite(warehouse, file_io, options, SystemClock(), secrets)
