"""Runs an upkeep verb in steps: plan, print the plan, execute it, print the outcome.

These verbs need no Spark and may run beside the table's jobs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from stream_app.app.cli.arguments.table import add_table
from stream_app.app.text.listing import DRY_RUN, NOTHING
from stream_app.errors import UsageError
from stream_app.model.options.option import parse_duration_ms


def add_upkeep_arguments(parser: argparse.ArgumentParser) -> None:
    """Add TABLE and ``--dry-run``."""
    add_table(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, and change nothing"
    )


def run_upkeep(
    args: argparse.Namespace,
    plan: Iterable[str],
    do: Callable[[], Iterable[str]],
    *,
    is_empty: bool = False,
) -> int:
    """Print the plan; execute it, unless ``--dry-run`` is given; print the outcome.

    Args:
        plan: lines that say what will be done, or why there is nothing to do.
        do: executes the plan; yields lines about it, which are printed as they come.
        is_empty: there is nothing to do.

    Returns:
        The exit code: 0. Errors are raised.
    """
    for line in plan:
        print(line)
    if is_empty:
        print(NOTHING)
    elif args.dry_run:
        print(DRY_RUN)
    else:
        for line in do():
            print(line, flush=True)
    return 0


def duration_argument(name: str, text: str) -> int:
    """Parse a duration with a unit, such as ``1h``; returns milliseconds.

    Raises:
        UsageError: it is no duration; `name` is the argument's.
    """
    if text.strip().isdecimal():  # to Paimon these would be milliseconds, which nobody means here
        raise UsageError(f"{name} {text} has no unit", fix="write it as 30min, 1h or 2d")
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{name} {text}: {error}", fix="write it as 30min, 1h or 2d") from None
