"""Creates and deletes branches of a table, and makes the main branch follow one of them.

A branch is a folder with separate schemas, snapshots and tags. It shares all other files with the
table. Expiry and rollback of one branch keep the files that others need
(`table.upkeep.file_deletion`). A deleted branch leaves orphans.

Source: Paimon `utils/FileSystemBranchManager.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.filestore.versions.announcement_files import RollbackAnnouncement
from stream_app.filestore.versions.branch_folders import (
    branch_names,
    check_branch_name,
    delete_branch_files,
)
from stream_app.format.schema_json import encode_schema
from stream_app.model.near_names import did_you_mean
from stream_app.model.snapshot import Snapshot
from stream_app.model.tag import Tag
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.publisher import IcebergPublisher
from stream_app.table.opening import open_branch
from stream_app.table.upkeep.announcements import holding_announcements, withdraw_rollbacks
from stream_app.table.upkeep.rollback import (
    RollbackPlan,
    plan_rollback,
    roll_back,
    without_lost_changelog,
)
from stream_app.table.upkeep.upkeep_refusals import check_is_main


@dataclass(frozen=True, slots=True)
class BranchFacts:
    """A branch with its earliest and latest snapshot, which are None without snapshots."""

    name: str
    earliest_snapshot: Snapshot | None
    latest_snapshot: Snapshot | None


def branch_facts(table: FileStoreTable) -> Iterator[BranchFacts]:
    """Yield the branches of a table, by name."""
    for name in branch_names(table.file_io, table.location):
        snapshots = replace(table, branch=name).snapshots
        snapshot_ids = snapshots.ids()
        earliest_snapshot = snapshots.snapshot(snapshot_ids[0]) if snapshot_ids else None
        yield BranchFacts(name, earliest_snapshot, snapshots.latest())


def plan_branch(table: FileStoreTable, name: str, tag_name: str | None) -> Tag | None:
    """Return the tag at which a new branch begins; None if it begins without rows.

    Raises:
        UsageError: the tag does not exist, or the branch's name is taken or invalid.
        UnsupportedTableError: the table's versions are published by a server.
    """
    _check_main(table)
    check_branch_name(name)
    if name in branch_names(table.file_io, table.location):
        raise UsageError(
            f"branch {name!r} exists already",
            where=table.location,
            fix="give another name, or delete it first: stream-app branch delete",
        )
    if tag_name is None:
        return None
    tag = table.tags.tag(tag_name)
    if tag is None:
        raise UsageError(
            f"there is no tag {tag_name!r}{did_you_mean(tag_name, list(table.tags.names()))}",
            where=table.location,
            fix="create it first: stream-app create-tag",
        )
    return tag


def create_branch(table: FileStoreTable, name: str, tag: Tag | None) -> None:
    """Create a branch. The latest schema comes last, because it makes the branch exist.

    Args:
        tag: the result of `plan_branch`.

    Raises:
        UsageError: the tag was deleted meanwhile; no branch exists.
        OSError: the file system refused; parts of a branch may exist.
    """
    branch_table = replace(table, branch=name)
    latest_schema_id = table.schema.schema_id
    if tag is not None:
        latest_schema_id = tag.snapshot.schema_id
        branch_table.tags.create(tag)
        branch_table.snapshots.restore(without_lost_changelog(table, tag.snapshot))
    for schema_id in table.schemas.ids():
        if schema_id <= latest_schema_id:
            branch_table.schemas.create(table.schemas.schema(schema_id))
    # The deletion of a tag then looks for branches, so one of the two sees the other.
    if tag is not None and table.tags.tag(tag.name) != tag:
        delete_branch(table, name)
        raise UsageError(
            f"tag {tag.name!r} was deleted while the branch {name!r} was created from it",
            where=table.location,
            fix="create the branch from another tag",
        )


def named_branch(table: FileStoreTable, name: str) -> FileStoreTable:
    """Return an existing branch.

    Raises:
        UsageError: the branch does not exist.
        UnsupportedTableError: the table's versions are published by a server.
    """
    _check_main(table)
    names = branch_names(table.file_io, table.location)
    branch_table = open_branch(table, name) if name in names else None
    if branch_table is None:
        fix = f"name one of {', '.join(names)}" if names else "create it: stream-app branch create"
        raise UsageError(
            f"the table has no branch {name!r}{did_you_mean(name, names)}",
            where=table.location,
            fix=fix,
        )
    return branch_table


def delete_branch(table: FileStoreTable, name: str) -> None:
    """Delete a branch; its own files become orphans. A repetition completes a crashed deletion.

    Raises:
        OSError: the file system refused.
    """
    delete_branch_files(table.file_io, table.location, name)


@dataclass(frozen=True, slots=True)
class FastForwardPlan:
    """The changes that a fast-forward makes to the main branch.

    Attributes:
        rollback: the rollback to the snapshot at which the branch began; None if the main branch
            has no snapshot.
        snapshots: the branch's snapshots that the main branch gets.
        tags: the branch's tags that the main branch gets.
    """

    branch_table: FileStoreTable
    rollback: RollbackPlan | None
    snapshots: tuple[Snapshot, ...]
    tags: tuple[Tag, ...]


def plan_fast_forward(table: FileStoreTable, name: str) -> FastForwardPlan:
    """Plan the fast-forward of the main branch to a branch.

    Raises:
        UsageError: the branch does not exist, has no snapshot, or did not begin on the main branch.
        UnsupportedTableError: the table's versions are published by a server.
        CorruptFileError: a version cannot be read.
    """
    branch_table = named_branch(table, name)
    snapshots = [
        branch_table.snapshots.snapshot(snapshot_id) for snapshot_id in branch_table.snapshots.ids()
    ]
    if not snapshots:
        raise UsageError(
            f"branch {name!r} has no snapshot",
            where=table.location,
            fix="write to it first",
        )
    tags = tuple(branch_table.tags.tags())
    snapshot_ids = table.snapshots.ids()
    rollback = None
    if snapshot_ids:
        # The branch keeps the tag at which it began, even after its first snapshots have expired.
        candidates = [snapshots[0], *(tag.snapshot for tag in tags)]
        rollback = plan_rollback(table, _start_of_branch(table, name, candidates, snapshot_ids[0]))
    return FastForwardPlan(branch_table, rollback, tuple(snapshots), tags)


def _start_of_branch(
    table: FileStoreTable, name: str, candidates: Sequence[Snapshot], earliest_id: int
) -> Snapshot:
    """Return the version of the main branch at which a branch began.

    Args:
        candidates: the versions of the branch at which it may have begun.
        earliest_id: the number of the main branch's first snapshot.
    """
    main_versions = [tag.snapshot for tag in table.tags.tags()]
    main_versions += map(table.changelogs.changelog, table.changelogs.ids())
    for start in candidates:
        snapshot_id, delta = start.snapshot_id, start.delta_manifest_list
        deltas = {
            main_version.delta_manifest_list
            for main_version in main_versions
            if main_version.snapshot_id <= snapshot_id
        }
        # The main branch's versions of that time must not belong to another history.
        is_lost = snapshot_id < earliest_id and not deltas
        if is_lost or delta in deltas or table.snapshots.delta_list(snapshot_id) == delta:
            return start
    raise UsageError(
        f"branch {name!r} does not begin at a snapshot of the main branch: a fast-forward would "
        "lose all rows of the main branch",
        where=table.location,
        fix="create a branch from a tag, and keep the tag in both branches; or delete the older "
        "tags of the main branch; or truncate the main branch, and write this branch's rows to it",
    )


def fast_forward(table: FileStoreTable, plan: FastForwardPlan) -> None:
    """Make the main branch equal to a branch. A repetition completes a crashed fast-forward.

    1. Roll the main branch back to the snapshot at which the branch began.
    2. Take the branch's schemas, which its snapshots need.
    3. Take its snapshots in their order, and its tags.
    4. Delete the main branch's older snapshots and changelogs, if the branch lacks the snapshots in
       between.

    Raises:
        UsageError: the table has changed since the plan was made, or a consumer would be cut.
        OSError: the file system refused.
    """
    with _without_expiry(plan):
        if plan.rollback is not None:
            roll_back(table, plan.rollback, resets_consumers=False)
        _copy_versions(table, plan)


@contextmanager
def _without_expiry(plan: FastForwardPlan) -> Iterator[None]:
    """Keep the branch's snapshots from expiry while the main branch takes them (`announcements`).

    Raises:
        UsageError: an expiry is deleting them.
    """
    branch_table = plan.branch_table
    latest_snapshot = plan.snapshots[-1]
    withdraw_rollbacks(branch_table)  # left by a crashed fast-forward
    delta_lists = {latest_snapshot.snapshot_id: latest_snapshot.delta_manifest_list}
    announcement = RollbackAnnouncement(
        target_id=latest_snapshot.snapshot_id, delta_lists=delta_lists
    )
    announcement_name = branch_table.rollback_announcements.announce(announcement)
    try:
        has_first_snapshot = branch_table.snapshots.exists(plan.snapshots[0].snapshot_id)
        if holding_announcements(branch_table) or not has_first_snapshot:
            raise UsageError(
                "an expiry is deleting snapshots of the branch: the fast-forward has not changed "
                "the main branch",
                where=branch_table.version_root,
                fix="repeat the fast-forward after the expiry; if the expiry was interrupted, "
                "finish it: stream-app expire-snapshots",
            )
        yield
    finally:
        branch_table.rollback_announcements.withdraw(announcement_name)


def _copy_versions(table: FileStoreTable, plan: FastForwardPlan) -> None:
    """Copy the schemas, snapshots and tags of the plan's branch to the main branch."""
    branch_table = plan.branch_table
    for schema_id in branch_table.schemas.ids():
        schema = branch_table.schemas.schema(schema_id)
        if not table.schemas.create(schema) and table.schemas.schema(schema_id) != schema:
            table.file_io.overwrite(table.schemas.path(schema_id), encode_schema(schema))
    for schema_id in table.schemas.ids():
        if schema_id > branch_table.schema.schema_id:
            table.file_io.delete(table.schemas.path(schema_id))
    for snapshot in plan.snapshots:
        table.snapshots.restore(snapshot)
    earliest_snapshot, latest_snapshot = plan.snapshots[0], plan.snapshots[-1]
    older_ids = [
        snapshot_id
        for snapshot_id in table.snapshots.ids()
        if snapshot_id < earliest_snapshot.snapshot_id
    ]
    changelogs = table.changelogs.ids()
    if earliest_snapshot.snapshot_id - 1 not in (*older_ids, *changelogs):
        for snapshot_id in older_ids:
            table.snapshots.delete(snapshot_id)
        table.changelogs.delete(changelogs)
    table.snapshots.write_hint_and_reread(latest_snapshot.snapshot_id)
    for tag in plan.tags:
        table.tags.create(tag)
    IcebergPublisher(replace(table, schema=branch_table.schema)).publish(latest_snapshot)


def _check_main(table: FileStoreTable) -> None:
    check_is_main(table)
    if table.snapshots.loader is not None:
        raise UnsupportedTableError(
            "the table is in a REST catalog, whose server keeps the branches",
            where=table.location,
            fix="use Paimon's own engines",
        )
