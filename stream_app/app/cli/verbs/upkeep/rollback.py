"""``stream-app rollback-to``: an earlier version becomes the newest one, for good."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stream_app.app.cli.arguments.table import named_table
from stream_app.app.cli.arguments.version import timestamp_argument
from stream_app.app.cli.verbs.upkeep.upkeep_frame import add_upkeep_parser, run_upkeep
from stream_app.app.text.listing import size_text, time_text
from stream_app.app.text.outcomes import counted
from stream_app.table.upkeep.rollback import RollbackPlan, plan_rollback, roll_back, rollback_target
from stream_app.table.upkeep.upkeep_refusals import check_expirable, check_publishes_safely
from stream_app.table.versions.time_travel import Version

_EPILOG = """\
A rollback deletes all newer snapshots, long-lived changelogs and tags with their files, for good.
Columns and options stay. Stop the table's writers first. A streaming job detects the rollback at
its next start, and needs a new checkpoint, because its own is of a later time.

Consumers that have read further would wait for reused numbers and miss their snapshots. So the
command refuses to roll back behind a living consumer, unless --force resets it to the target.

examples:
  stream-app rollback-to warehouse/shop.db/orders --snapshot 41 --dry-run
  stream-app rollback-to warehouse/shop.db/orders --tag before-migration
  stream-app rollback-to warehouse/shop.db/orders --timestamp 2026-01-31T12:00"""


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser = add_upkeep_parser(
        verbs,
        "rollback-to",
        description="Make an earlier version of a table the newest one, and delete all newer "
        "versions.",
        epilog=_EPILOG,
    )
    ways = parser.add_mutually_exclusive_group(required=True)
    ways.add_argument("--snapshot", type=int, metavar="N", help="this snapshot")
    ways.add_argument("--tag", metavar="NAME", help="the version of a tag, even if it has expired")
    ways.add_argument(
        "--timestamp",
        type=timestamp_argument,
        metavar="TIME",
        help="the version of a time: ISO 8601, local without a zone; or milliseconds since 1970",
    )
    parser.add_argument(
        "--force", action="store_true", help="also behind consumers, which are reset too"
    )
    return parser


@dataclass(frozen=True, slots=True)
class _Plan:
    plan: RollbackPlan
    is_forced: bool

    def is_empty(self) -> bool:
        return self.plan.numbers.is_empty()

    def lines(self) -> Iterator[str]:
        target, numbers, files = self.plan.target, self.plan.numbers, self.plan.files
        yield (
            f"snapshot {target.snapshot_id} of {time_text(target.time_millis)} becomes the newest"
            + (": it has expired, and its tag restores it" if numbers.is_restored else "")
        )
        for what, going in (
            ("snapshots", numbers.snapshots),
            ("long-lived changelogs", numbers.changelogs),
        ):
            if going:
                yield f"  {what} that go: {len(going)}, from {going[-1]} to {going[0]}"
        if numbers.tags:
            yield f"  tags that go: {', '.join(numbers.tags)}"
        if numbers.consumers:
            names = ", ".join(
                f"{each.consumer_id} (at {each.next_snapshot})" for each in numbers.consumers
            )
            yield f"  consumers that are ahead: {names}"
            if not self.is_forced:
                yield "  so it is refused, unless --force is given"
        yield f"  files that go: {files.count}, {size_text(files.byte_count)}"


def run(args: argparse.Namespace) -> int:
    """Roll back.

    Raises:
        UsageError: there is no such version, or a living consumer is ahead of it.
        UnsupportedTableError: we would not find the table's files.
        StorageError: its file system cannot publish versions safely.
    """
    table = named_table(args.table)
    check_expirable(table)
    check_publishes_safely(table)
    version = Version(snapshot=args.snapshot, tag=args.tag, timestamp=args.timestamp)
    plan = _Plan(plan_rollback(table, rollback_target(table, version)), args.force)

    def do(plan: _Plan) -> Iterator[str]:
        roll_back(table, plan.plan, resets_consumers=args.force)
        numbers, files = plan.plan.numbers, plan.plan.files
        yield (
            f"rolled back to snapshot {numbers.target}: "
            f"{counted(len(numbers.snapshots), 'snapshot')}, {counted(files.count, 'file')}, "
            f"{size_text(files.byte_count)}"
        )

    return run_upkeep(args, plan, do)
