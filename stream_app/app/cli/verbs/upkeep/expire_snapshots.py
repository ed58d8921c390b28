"""``stream-app expire-snapshots``: old snapshots go, with the files that only they need."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stream_app.app.cli.arguments.table import named_table
from stream_app.app.cli.arguments.version import timestamp_argument
from stream_app.app.cli.verbs.upkeep.upkeep_frame import add_upkeep_parser, run_upkeep
from stream_app.app.text.listing import size_text, time_text
from stream_app.app.text.outcomes import counted
from stream_app.errors import CommitConflictError, CorruptFileError, UsageError
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_changelogs import ExpireChangelogs
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots, Expiry, SnapshotExpiry
from stream_app.table.upkeep.file_deletion import FilesToDelete
from stream_app.table.upkeep.upkeep_refusals import check_expirable
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.time_travel import millis_of

_NO_LIMIT = 2_147_483_647
_EPILOG = """\
examples:
  stream-app expire-snapshots warehouse/shop.db/orders --dry-run
  stream-app expire-snapshots warehouse/shop.db/orders --retain-max 100
  stream-app expire-snapshots warehouse/shop.db/orders --older-than 2026-11-20T00:00 --retain-min 5

The table's options snapshot.num-retained.min, snapshot.num-retained.max and
snapshot.time-retained are the defaults. Expiry keeps what tags, consumers and branches need."""


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser = add_upkeep_parser(
        verbs,
        "expire-snapshots",
        description="Delete old snapshots, and the files that only they need.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--retain-max",
        type=int,
        metavar="N",
        help="number beyond which the oldest expire, however young",
    )
    parser.add_argument(
        "--retain-min", type=int, metavar="N", help="snapshots to keep, however old"
    )
    parser.add_argument(
        "--older-than",
        type=timestamp_argument,
        metavar="TIME",
        help="expire only snapshots whose successor is from before this time: ISO 8601, local "
        "without a zone; or milliseconds since 1970",
    )
    parser.add_argument(
        "--max-deletes", type=int, metavar="N", help="most snapshots to expire; default: no limit"
    )
    return parser


@dataclass(frozen=True, slots=True)
class _Plan:
    snapshots: SnapshotExpiry
    changelogs: Expiry

    def is_empty(self) -> bool:
        return not (self.snapshots.numbers or self.changelogs.numbers)

    def lines(self) -> Iterator[str]:
        going = self.snapshots.numbers
        stays = "none is left" if self.snapshots.kept is None else f"{self.snapshots.kept} stays"
        if going:
            newest = time_text(self.snapshots.versions[-1].time_millis)
            yield (
                f"{_range_text('snapshot', going)}, the newest of {newest}; {stays}: "
                f"{self.snapshots.kept_by}"
            )
            if self.snapshots.keeps_changelogs:
                yield "  their changelogs are kept"
            yield from _file_lines(self.snapshots.files)
        else:
            yield f"no snapshot goes: {self.snapshots.kept_by}"
        if gone := self.changelogs.numbers:
            yield _range_text("long-lived changelog", gone)
            yield from _file_lines(self.changelogs.files)


def _check_newest(table: FileStoreTable) -> None:
    """See that what stays can be read: older versions may be all that is left of the rows."""
    try:
        FileStoreScan(table).live(table.snapshots.latest())
    except CorruptFileError as error:
        raise CorruptFileError(
            f"nothing is deleted, because the newest snapshot cannot be read: {error.what}",
            where=error.where,
            fix="restore the file from a backup, or roll the table back: stream-app rollback-to",
        ) from error


def run(args: argparse.Namespace) -> int:
    """Expire.

    Raises:
        UsageError: an argument is wrong.
        TableNotFoundError: there is no such table.
        UnsupportedTableError: we would not find its files.
        CorruptFileError: the newest snapshot cannot be read.
        CommitConflictError: what goes has just got a tag or a consumer; nothing was deleted.
    """
    table = named_table(args.table)
    check_expirable(table)
    config = expire_config(
        table.options,
        num_max=_at_least_one("--retain-max", args.retain_max),
        num_min=_at_least_one("--retain-min", args.retain_min),
        time_ms=None if args.older_than is None else _age_ms(table, args.older_than),
        limit=_at_least_one("--max-deletes", args.max_deletes) or _NO_LIMIT,
    )
    _check_newest(table)
    snapshots = ExpireSnapshots(table)
    changelogs = ExpireChangelogs(table)
    plan = _Plan(snapshots.plan(config), changelogs.plan(config))

    def expire(plan: _Plan) -> Iterator[str]:
        try:
            snapshots.execute(plan.snapshots)
        except UsageError as error:  # of somebody else, since the plan was made
            raise CommitConflictError(error.what, where=error.where, fix=error.fix) from error
        changelogs.execute(plan.changelogs)
        count = len(plan.snapshots.numbers)
        files = plan.snapshots.files.count + plan.changelogs.files.count
        freed = plan.snapshots.files.byte_count + plan.changelogs.files.byte_count
        yield (
            f"expired {counted(count, 'snapshot')}: {counted(files, 'file')}, {size_text(freed)}"
        )

    return run_upkeep(args, plan, expire)


def _range_text(what: str, going: Sequence[int]) -> str:
    first, last = going[0], going[-1]
    return f"{what} {first} goes" if first == last else f"{what}s {first} to {last} go"


def _file_lines(files: FilesToDelete) -> Iterator[str]:
    metadata = [files.manifests, files.indexes, files.statistics, files.lists]
    yield (
        f"  {counted(len(files.data), 'data file')}, "
        f"{counted(len(files.changelogs), 'changelog file')}, "
        f"{counted(sum(map(len, metadata)), 'file')} of metadata: {size_text(files.byte_count)}"
    )


def _age_ms(table: FileStoreTable, time: int | str) -> int:
    age = table.clock.now_ms() - millis_of(time)
    if age < 0:
        raise UsageError(f"--older-than {time} is still to come", fix="give a time that has passed")
    return age


def _at_least_one(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise UsageError(f"{name} {value} is below 1", fix="the newest snapshot always stays")
    return value
