"""Runs an upkeep verb in steps: plan, print the plan, execute it, print the outcome.

These verbs need no Spark and may run beside the table's jobs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from stream_app.app.text.listing import DRY_RUN, NOTHING


def run_upkeep(
    args: argparse.Namespace,
    plan: Iterable[str],
    execute: Callable[[], Iterable[str]],
    *,
    is_empty: bool = False,
) -> int:
    """Print the plan; execute it, unless ``--dry-run`` is given; print the outcome.

    Args:
        plan: lines that say what will be done, or why there is nothing to do.
        execute: executes the plan; yields lines about it, which are printed as they come.
        is_empty: whether there is nothing to do.

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
        for line in execute():
            print(line, flush=True)
    return 0
