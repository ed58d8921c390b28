"""The arguments of ``stream-app ingest``, the same for its job under ``spark-submit``."""

from __future__ import annotations

import argparse
from pathlib import Path

from stream_app.app.cli.arguments.configuration import add_configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to a parser."""
    add_configuration(parser)
    parser.add_argument(
        "--events", metavar="FILE", type=Path, help="append a JSON line for each epoch and commit"
    )
