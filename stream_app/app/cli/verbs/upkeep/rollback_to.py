"""``stream-app rollback-to``: makes an earlier version the latest one, permanently."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from stream_app.app.cli.arguments.parsed_texts import timestamp_argument
from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.app.text.listing import count_text, size_text, time_text
from stream_app.table.upkeep.rollback import RollbackPlan, plan_rollback, roll_back, rollback_target
from stream_app.table.upkeep.upkeep_refusals import check_expirable, check_publishes_safely
from stream_app.table.versions.time_travel import Version

DESCRIPTION = "Make an earlier version of a table the latest one, and delete all newer versions."
EPILOG = """\
A rollback deletes all newer snapshots, long-lived changelogs and tags with their files, for good.
Columns and options stay. Stop the table's writers first. A streaming job detects the rollback at
its next start, and needs a new checkpoint, because its own is of a later time.

Consumers that have read further would wait for reused numbers and miss their snapshots. So the
command refuses to roll back before a living consumer, unless --force resets it to the target.

examples:
  stream-app rollback-to warehouse/shop.db/orders --snapshot 41 --dry-run
  stream-app rollback-to warehouse/shop.db/orders --tag before-migration
  stream-app rollback-to warehouse/shop.db/orders --timestamp 2026-01-31T12:00"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    versions = parser.add_mutually_exclusive_group(required=True)
    versions.add_argument("--snapshot", type=int, metavar="N", help="roll back to this snapshot")
    versions.add_argument(
        "--tag",
        metavar="NAME",
        help="roll back to the version of this tag, even if its snapshot has expired",
    )
    versions.add_argument(
        "--timestamp",
        type=timestamp_argument,
        metavar="TIME",
        help="roll back to the version of this time: ISO 8601, local if it has no zone; or "
        "milliseconds since 1970",
    )
    parser.add_argument(
        "--force", action="store_true", help="roll back also before consumers, and reset them too"
    )


def _plan_lines(plan: RollbackPlan, *, is_forced: bool) -> Iterator[str]:
    """Yield the lines about what a rollback restores and deletes, and the consumers ahead of it."""
    target_snapshot, versions, files = plan.target_snapshot, plan.versions, plan.files
    yield (
        f"snapshot {target_snapshot.snapshot_id} of {time_text(target_snapshot.time_ms)} "
        "becomes the latest"
        + (": it has expired, and its tag restores it" if versions.is_restored else "")
    )
    for noun, ids in (
        ("snapshots", versions.snapshot_ids),
        ("long-lived changelogs", versions.changelog_ids),
    ):
        if ids:
            yield f"  {noun} to delete: {len(ids)}, from {ids[-1]} to {ids[0]}"
    if versions.tag_names:
        yield f"  tags to delete: {', '.join(versions.tag_names)}"
    if versions.consumers:
        names_text = ", ".join(
            f"{consumer.consumer_id} (at {consumer.next_snapshot_id})"
            for consumer in versions.consumers
        )
        yield f"  consumers that are ahead: {names_text}"
        if not is_forced:
            yield "  so the rollback is refused, unless --force is given"
    yield f"  files to delete: {files.count}, {size_text(files.byte_count)}"


def run(args: argparse.Namespace) -> int:
    """Roll back.

    Raises:
        UsageError: the version does not exist, or an active consumer is ahead of it.
        UnsupportedTableError: stream_app would not find the table's files.
        StorageError: its file system cannot publish versions safely.
    """
    table = open_table_argument(args.table)
    check_expirable(table)
    check_publishes_safely(table)
    version = Version(snapshot=args.snapshot, tag=args.tag, timestamp=args.timestamp)
    plan = plan_rollback(table, rollback_target(table, version))

    def result_lines() -> Iterator[str]:
        roll_back(table, plan, resets_consumers=args.force)
        versions, files = plan.versions, plan.files
        yield (
            f"rolled back to snapshot {versions.target_id}: "
            f"{count_text(len(versions.snapshot_ids), 'snapshot')}, "
            f"{count_text(files.count, 'file')}, {size_text(files.byte_count)}"
        )

    lines = _plan_lines(plan, is_forced=args.force)
    return run_upkeep(args, lines, result_lines, is_empty=plan.versions.is_empty())
