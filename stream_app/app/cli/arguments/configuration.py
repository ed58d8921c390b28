"""The arguments of verbs with a job's configuration, also under ``spark-submit``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from stream_app.app.config.app_config import AppConfig, load_config


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """Add ``--conf`` and ``--set``."""
    parser.add_argument("--conf", required=True, metavar="FILE", type=Path, help="TOML file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set one key of it, e.g. --set stream.trigger=availableNow; may be repeated",
    )


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``stream-app ingest`` that its job has too."""
    add_configuration(parser)
    parser.add_argument(
        "--events", metavar="FILE", type=Path, help="append a JSON line for each epoch and commit"
    )


def configuration_of(args: argparse.Namespace) -> AppConfig | None:
    """The configuration that ``--conf`` names, or None without the argument.

    Raises:
        UsageError: the configuration has problems.
    """
    return None if args.conf is None else load_config(args.conf, [], os.environ)
