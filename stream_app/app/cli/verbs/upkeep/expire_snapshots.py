"""``stream-app expire-snapshots``: deletes old snapshots, with the files that only they need."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from stream_app.app.cli.arguments.parsed_texts import timestamp_argument
from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.app.text.listing import count_text, size_text, time_text
from stream_app.errors import CommitConflictError, CorruptFileError, UsageError
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_changelogs import ExpireChangelogs
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots, Expiry, SnapshotExpiry
from stream_app.table.upkeep.file_deletion import FilesToDelete
from stream_app.table.upkeep.upkeep_refusals import check_expirable
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.time_travel import ms_since_1970

_NO_LIMIT = 2_147_483_647
DESCRIPTION = "Delete old snapshots, and the files that only they need."
EPILOG = """\
examples:
  stream-app expire-snapshots warehouse/shop.db/orders --dry-run
  stream-app expire-snapshots warehouse/shop.db/orders --retain-max 100
  stream-app expire-snapshots warehouse/shop.db/orders --older-than 2026-11-20T00:00 --retain-min 5

The table's options snapshot.num-retained.min, snapshot.num-retained.max and
snapshot.time-retained are the defaults. Expiry keeps what tags, consumers and branches need."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    parser.add_argument(
        "--retain-max",
        type=int,
        metavar="N",
        help="keep at most this many snapshots, however young they are",
    )
    parser.add_argument(
        "--retain-min",
        type=int,
        metavar="N",
        help="keep at least this many snapshots, however old they are",
    )
    parser.add_argument(
        "--older-than",
        type=timestamp_argument,
        metavar="TIME",
        help="expire only snapshots whose successor was committed before this time: ISO "
        "8601, local if it has no zone; or milliseconds since 1970",
    )
    parser.add_argument(
        "--max-deletes",
        type=int,
        metavar="N",
        help="expire at most this many snapshots; default: no limit",
    )


def _plan_lines(snapshots: SnapshotExpiry, changelogs: Expiry) -> Iterator[str]:
    snapshot_ids = snapshots.snapshot_ids
    retained_text = (
        "none is left" if snapshots.retained_id is None else f"{snapshots.retained_id} stays"
    )
    if snapshot_ids:
        latest_time_text = time_text(snapshots.versions[-1].time_ms)
        range_text = _range_text("snapshot", snapshot_ids)
        yield (
            f"{range_text}, the latest of {latest_time_text}; {retained_text}: {snapshots.kept_by}"
        )
        if snapshots.keeps_changelogs:
            yield "  their changelogs are kept"
        yield from _file_lines(snapshots.files)
    else:
        yield f"no snapshot is deleted: {snapshots.kept_by}"
    if changelogs.snapshot_ids:
        yield _range_text("long-lived changelog", changelogs.snapshot_ids)
        yield from _file_lines(changelogs.files)


def _check_latest_snapshot(table: FileStoreTable) -> None:
    """Check that the latest snapshot is readable: older ones may have the last readable rows."""
    try:
        FileStoreScan(table).live(table.snapshots.latest())
    except CorruptFileError as error:
        raise CorruptFileError(
            f"nothing is deleted, because the latest snapshot cannot be read: {error.problem}",
            where=error.where,
            fix="restore the file from a backup, or roll the table back: stream-app rollback-to",
        ) from error


def run(args: argparse.Namespace) -> int:
    """Expire snapshots.

    Raises:
        UsageError: an argument is wrong.
        TableNotFoundError: the table does not exist.
        UnsupportedTableError: stream_app would not find the table's files.
        CorruptFileError: the latest snapshot cannot be read.
        CommitConflictError: an expiring snapshot has just got a tag or a consumer; nothing was
            deleted.
    """
    table = open_table_argument(args.table)
    check_expirable(table)
    config = expire_config(
        table.options,
        num_max=_at_least_one("--retain-max", args.retain_max),
        num_min=_at_least_one("--retain-min", args.retain_min),
        retained_ms=None if args.older_than is None else _age_ms(table, args.older_than),
        expired_max=_at_least_one("--max-deletes", args.max_deletes) or _NO_LIMIT,
    )
    _check_latest_snapshot(table)
    expire_snapshots = ExpireSnapshots(table)
    expire_changelogs = ExpireChangelogs(table)
    snapshots, changelogs = expire_snapshots.plan(config), expire_changelogs.plan(config)

    def expire() -> Iterator[str]:
        try:
            expire_snapshots.execute(snapshots)
        except UsageError as error:  # another writer's, since the plan was made
            raise CommitConflictError(error.problem, where=error.where, fix=error.fix) from error
        expire_changelogs.execute(changelogs)
        file_count = snapshots.files.count + changelogs.files.count
        freed_text = size_text(snapshots.files.byte_count + changelogs.files.byte_count)
        snapshots_text = count_text(len(snapshots.snapshot_ids), "snapshot")
        yield f"expired {snapshots_text}: {count_text(file_count, 'file')}, {freed_text}"

    is_empty = not (snapshots.snapshot_ids or changelogs.snapshot_ids)
    return run_upkeep(args, _plan_lines(snapshots, changelogs), expire, is_empty=is_empty)


def _range_text(noun: str, snapshot_ids: Sequence[int]) -> str:
    first_id, last_id = snapshot_ids[0], snapshot_ids[-1]
    if first_id == last_id:
        return f"{noun} {first_id} is deleted"
    return f"{noun}s {first_id} to {last_id} are deleted"


def _file_lines(files: FilesToDelete) -> Iterator[str]:
    metadata = [files.manifests, files.index_files, files.statistics, files.lists]
    yield (
        f"  {count_text(len(files.data_files), 'data file')}, "
        f"{count_text(len(files.changelog_files), 'changelog file')}, "
        f"{count_text(sum(map(len, metadata)), 'file')} of metadata: {size_text(files.byte_count)}"
    )


def _age_ms(table: FileStoreTable, time: int | str) -> int:
    age = table.clock.now_ms() - ms_since_1970(time)
    if age < 0:
        raise UsageError(f"--older-than {time} is still to come", fix="give a time that has passed")
    return age


def _at_least_one(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise UsageError(
            f"{name} {value} is below 1",
            fix="give 1 or more, because the expiry always retains the latest snapshot",
        )
    return value
