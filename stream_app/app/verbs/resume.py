"""``stream-app resume``: let a job try tables again that an error holds back."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from stream_app.app.arguments.configuration import add_configuration
from stream_app.app.config.app_config import load_config
from stream_app.app.job.job_folders import not_begun, open_folder
from stream_app.clock import SystemClock
from stream_app.errors import UsageError
from stream_app.spark.ingest.checkpoint_state import is_begun
from stream_app.spark.ingest.held_tables import read_tables, resume
from stream_app.spark.job_folder import Folder


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "resume",
        help="let a job try tables again that an error holds back",
        description=(
            "Ask a job to try tables again that an error holds back. A running job does so within "
            "seconds. A job that starts tries all of them anyway. The table then gets everything "
            "since it was held back."
        ),
        epilog=(
            "examples:\n"
            "  stream-app status --conf conf/shop-database.toml          # which, and why\n"
            "  stream-app resume --conf conf/shop-database.toml orders\n"
            "  stream-app resume --conf conf/shop-database.toml          # all that are held"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="a table; none: all held ones")
    add_configuration(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Leave the request in the checkpoint.

    Raises:
        UsageError: the configuration is wrong, or a table is not held back.
        CheckpointError: the checkpoint is damaged.
    """
    config = load_config(args.conf, args.set, os.environ)
    checkpoint = open_folder(config.stream.checkpoint, config.file_system, _no_session)
    for line in resume_tables(
        checkpoint, config.stream.checkpoint, args.tables, SystemClock().now_ms()
    ):
        print(line)
    return 0


def resume_tables(
    checkpoint: Folder, location: str, names: Sequence[str], now_ms: int
) -> Iterator[str]:
    """Leave the requests in the checkpoint; a line for each.

    Args:
        location: of the checkpoint, as it is configured.
        names: in the job; empty: all that are held back.

    Raises:
        UsageError: a table is not held back; then none is resumed.
        CheckpointError: the checkpoint is damaged.
    """
    tables = read_tables(checkpoint)
    if tables is None and not is_begun(checkpoint):
        raise UsageError(
            not_begun(location),
            fix="give the configuration of the job, in the folder where it runs",
        )
    held = {} if tables is None else tables.held
    for name in names:
        if name not in held:
            near = difflib.get_close_matches(name, held, n=1)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                f"the table {name!r} is not held back",
                where=str(checkpoint),
                fix=f"{meant}held back: {', '.join(sorted(held)) or 'none'}",
            )
    for name in sorted(names or held):
        resume(checkpoint, name, now_ms)
        yield f"{name}: the job tries it again"
    if not names and not held:
        yield "no table is held back"


def _no_session() -> Any:
    raise UsageError(
        "the checkpoint lies on a file system that only Spark reaches",
        where="stream.checkpoint",
        fix="start the job again once the cause is mended: it tries every table anew",
    )
