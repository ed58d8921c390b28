"""The frame of the verbs that change what is kept of a table: plan, tell it, do it, sum it up.

A verb makes its parser with `add_upkeep_parser`, decides what is to be done as an `UpkeepPlan`, and
hands both to `run_upkeep`. These verbs need no Spark and may run beside the table's jobs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from stream_app.app.cli.arguments.table import add_table_parser
from stream_app.app.text.outcomes import DRY_RUN, NOTHING
from stream_app.errors import UsageError
from stream_app.model.options.option import parse_duration_ms


class UpkeepPlan(Protocol):
    """What a verb is going to do: decided, and not begun."""

    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        ...

    def lines(self) -> Iterable[str]:
        """What will be done, for people; also why there is nothing to do."""
        ...


_Plan = TypeVar("_Plan", bound=UpkeepPlan)


def add_upkeep_parser(
    verbs: Any, name: str, *, description: str, epilog: str
) -> argparse.ArgumentParser:
    """A verb's parser, with TABLE and ``--dry-run``; the verb adds what is its own."""
    parser = add_table_parser(verbs, name, description=description, epilog=epilog)
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, and change nothing"
    )
    return parser


def run_upkeep(args: argparse.Namespace, plan: _Plan, do: Callable[[_Plan], Iterable[str]]) -> int:
    """Print the plan; do it, unless ``--dry-run`` is given; print what became of it.

    Args:
        do: does what the plan says; lines that tell it, printed as they come.

    Returns:
        The exit code: 0. What goes wrong is raised.
    """
    for line in plan.lines():
        print(line)
    if plan.is_empty():
        print(NOTHING)
    elif args.dry_run:
        print(DRY_RUN)
    else:
        for line in do(plan):
            print(line, flush=True)
    return 0


def duration_argument(name: str, text: str) -> int:
    """``1h`` as milliseconds.

    Raises:
        UsageError: it is no duration; `name` is the argument's.
    """
    if text.strip().isdecimal():  # to Paimon these would be milliseconds, which nobody means here
        raise UsageError(f"{name} {text} has no unit", fix="write it as 30min, 1h or 2d")
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{name} {text}: {error}", fix="write it as 30min, 1h or 2d") from None
