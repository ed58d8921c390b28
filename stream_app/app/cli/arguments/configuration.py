"""The arguments of verbs with a job's configuration, also under ``spark-submit``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from stream_app.app.config.app_config import AppConfig, load_config


def add_configuration(parser: argparse.ArgumentParser, purpose: str = "") -> None:
    """Add ``--conf`` and ``--set``.

    Args:
        purpose: what the verb does with a configuration; empty if the verb needs one.
    """
    parser.add_argument(
        "--conf",
        required=not purpose,
        metavar="FILE",
        type=Path,
        help=purpose or "the TOML file of the job's configuration",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set one key of the configuration, e.g. stream.trigger=availableNow; may be repeated",
    )


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``stream-app ingest`` that its job has too."""
    add_configuration(parser)
    parser.add_argument(
        "--events",
        metavar="FILE",
        type=Path,
        help="append a JSON line to this file for each epoch and commit",
    )


def load_config_argument(conf: Path | None, overrides: Sequence[str] = ()) -> AppConfig | None:
    """Load the configuration of ``--conf``, with the keys of ``--set``; None without ``--conf``.

    Raises:
        UsageError: the configuration has problems.
    """
    return None if conf is None else load_config(conf, overrides, os.environ)
