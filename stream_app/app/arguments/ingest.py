"""The arguments of ``stream-app ingest``, the same for its job under ``spark-submit``."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to a parser."""
    parser.add_argument("--conf", required=True, metavar="FILE", type=Path, help="TOML file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set one key, e.g. --set stream.trigger=availableNow; may be repeated",
    )
    parser.add_argument(
        "--events", metavar="FILE", type=Path, help="append a JSON line for each epoch and commit"
    )
