"""``stream-app resume``: asks a job to retry tables that an error holds back."""

from __future__ import annotations

import argparse
import os

from stream_app.app.cli.arguments.configuration import add_configuration
from stream_app.app.config.app_config import load_config
from stream_app.app.opening.job_folder_access import open_checkpoint
from stream_app.app.ops.resume import resume_tables
from stream_app.clock import SystemClock

DESCRIPTION = """\
Ask a job to try held tables again. A running job does so within seconds, and a job that starts
tries all of them anyway. A resumed table gets all changes since the job held it back."""
EPILOG = (
    "examples:\n"
    "  stream-app status --conf conf/shop-database.toml          # which, and why\n"
    "  stream-app resume --conf conf/shop-database.toml orders\n"
    "  stream-app resume --conf conf/shop-database.toml          # all that are held"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "tables",
        nargs="*",
        metavar="TABLE",
        help="a held table to try again; without one the job tries all held tables",
    )
    add_configuration(parser)


def run(args: argparse.Namespace) -> int:
    """Write the request into the checkpoint.

    Raises:
        UsageError: the configuration is wrong, or a table is not held back.
        CheckpointError: the checkpoint is damaged.
    """
    config = load_config(args.conf, args.set, os.environ)
    checkpoint = open_checkpoint(
        config.job_tables,
        fix="start the job again once the cause is fixed: it tries every table again",
    )
    for line in resume_tables(
        checkpoint, config.stream.checkpoint, args.tables, SystemClock().now_ms()
    ):
        print(line)
    return 0
