"""``stream-app branch``: lists, creates and deletes branches, and lets the table follow one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.app.text.listing import count_text, time_text
from stream_app.errors import UsageError
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.branches import (
    BranchFacts,
    FastForwardPlan,
    branch_facts,
    create_branch,
    delete_branch,
    fast_forward,
    named_branch,
    plan_branch,
    plan_fast_forward,
)
from stream_app.table.upkeep.upkeep_refusals import check_expirable, check_publishes_safely

DESCRIPTION = "List, create and delete branches of a table, or make the table follow one."
EPILOG = """\
A branch has snapshots, schemas and tags of its own, and shares the table's other files. Verbs take
it as TABLE$branch_NAME, and a job of one table writes it by the key `branch`. In a shell, put the
name in single quotes.

fast-forward makes the main branch what the branch is. It deletes the main branch's snapshots and
tags behind the one at which the branch began, for good; stop the table's writers first. The
files of a deleted branch become orphans, which stream-app remove-orphan-files deletes. Upkeep of
one branch keeps what the others need.

examples:
  stream-app create-tag warehouse/shop.db/orders before
  stream-app branch create warehouse/shop.db/orders try-out --tag before
  stream-app read 'warehouse/shop.db/orders$branch_try-out' --limit 10
  stream-app branch fast-forward warehouse/shop.db/orders try-out --dry-run
  stream-app branch list warehouse/shop.db/orders"""

_ACTIONS = ("list", "create", "delete", "fast-forward")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("action", choices=_ACTIONS, metavar="list|create|delete|fast-forward")
    add_table_and_dry_run(parser)
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the name of the branch; list needs none"
    )
    parser.add_argument(
        "--tag",
        metavar="TAG",
        help="begin the new branch at this tag; without it the branch has no rows",
    )


def run(args: argparse.Namespace) -> int:
    """Run the action.

    Raises:
        UsageError: the arguments are wrong, the branch or tag does not exist, or the name is taken.
        UnsupportedTableError: the table's versions are not in its folder.
        StorageError: two processes could both create the same branch.
    """
    if (args.action == "list") != (args.name is None):
        raise UsageError(
            f"{args.action} takes {'no name' if args.name else 'the name of a branch'}",
            fix="write stream-app branch list TABLE, or branch create TABLE NAME",
        )
    if args.tag is not None and args.action != "create":
        raise UsageError(f"{args.action} takes no --tag", fix="leave it out")
    table = open_table_argument(args.table)
    if args.action == "list":
        for line in _listing(table):
            print(line)
        return 0
    check_expirable(table)
    check_publishes_safely(table)
    match args.action:
        case "create":
            return _create(args, table)
        case "delete":
            return _delete(args, table)
        case _:
            plan = plan_fast_forward(table, args.name)
            return run_upkeep(
                args, _forward_lines(plan), lambda: _fast_forward(table, plan, args.name)
            )


def _listing(table: FileStoreTable) -> Iterator[str]:
    branches = list(branch_facts(table))
    for branch in branches:
        yield f"{branch.name}: {_versions(branch)}"
    if not branches:
        yield "the table has no branches"


def _versions(branch: BranchFacts) -> str:
    earliest_snapshot, latest_snapshot = branch.earliest_snapshot, branch.latest_snapshot
    if earliest_snapshot is None or latest_snapshot is None:
        return "no snapshot yet"
    return (
        f"snapshots {earliest_snapshot.snapshot_id} to {latest_snapshot.snapshot_id}, the latest "
        f"of {time_text(latest_snapshot.time_ms)}"
    )


def _create(args: argparse.Namespace, table: FileStoreTable) -> int:
    tag = plan_branch(table, args.name, args.tag)
    start_text = (
        "without rows" if tag is None else f"at tag {tag.name!r}, {_snapshot_text(tag.snapshot)}"
    )

    def create() -> Iterator[str]:
        create_branch(table, args.name, tag)
        yield f"created branch {args.name!r}"

    return run_upkeep(args, [f"branch {args.name!r} begins {start_text}"], create)


def _delete(args: argparse.Namespace, table: FileStoreTable) -> int:
    branch = named_branch(table, args.name)
    count = len(branch.snapshots.ids())

    def delete() -> Iterator[str]:
        delete_branch(table, args.name)
        yield f"deleted branch {args.name!r}; stream-app remove-orphan-files deletes its files"

    return run_upkeep(
        args, [f"branch {args.name!r} is deleted, with {count_text(count, 'snapshot')}"], delete
    )


def _forward_lines(plan: FastForwardPlan) -> Iterator[str]:
    if plan.rollback is not None and plan.rollback.versions.snapshot_ids:
        snapshot_ids = plan.rollback.versions.snapshot_ids
        yield f"snapshots {snapshot_ids[-1]} to {snapshot_ids[0]} of the main branch are deleted"
    if plan.rollback is not None and plan.rollback.versions.tag_names:
        yield f"  tags to delete: {', '.join(plan.rollback.versions.tag_names)}"
    yield f"the main branch gets {_snapshot_text(plan.snapshots[-1])} of the branch"


def _fast_forward(table: FileStoreTable, plan: FastForwardPlan, name: str) -> Iterator[str]:
    fast_forward(table, plan)
    yield f"the main branch is at {_snapshot_text(plan.snapshots[-1])}, as branch {name!r}"


def _snapshot_text(snapshot: Snapshot) -> str:
    return f"snapshot {snapshot.snapshot_id} of {time_text(snapshot.time_ms)}"
