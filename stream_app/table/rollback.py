"""Makes an earlier version of a table the newest one, for good.

`plan_rollback` reads and decides, `roll_back` does it. The table is right after each of its steps:

1. consumers that are ahead go back behind the target, if that was asked for,
2. the target's snapshot file is there: written again from its tag, when it has expired,
3. the hint LATEST goes, so that readers and writers list the folder: named too early, a target
   behind a gap would be written on, until the numbers reach the snapshots that were to go,
4. snapshots go, the newest first: what is left is a right, shorter table; so do those that were
   committed meanwhile; then the hint LATEST names the target; changelogs and tags go,
5. files go that only they held: what dies before leaves orphans, and nothing that is missed,
6. the hint EARLIEST.

Writers must not run meanwhile: what they commit on top of a snapshot that goes would go with it. A
streaming job of ours finds that the table went back, and stops.

Source: Paimon `table/RollbackHelper.java`, which leaves the files of step 5 to the cleaning of
orphans.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace

from stream_app.errors import CorruptFileError, UsageError
from stream_app.model.manifest_entry import FileKind
from stream_app.model.snapshot import Snapshot
from stream_app.planning.rollback_plan import RollbackNumbers, rollback_numbers
from stream_app.planning.unused_files import FileKey, unprotected
from stream_app.table.expire_snapshots import add_changelog, add_manifest_lists
from stream_app.table.file_deletion import FileCollector, FilesToDelete, delete_files
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.going_versions import is_announced
from stream_app.table.manifest_reads import ManifestReads
from stream_app.table.protected_versions import ProtectedVersions, protected_versions
from stream_app.table.tag_changes import add_live_files
from stream_app.table.time_travel import Version, snapshot_of

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """What becomes the newest version, and what goes."""

    target: Snapshot
    numbers: RollbackNumbers
    files: FilesToDelete


def rollback_target(table: FileStoreTable, version: Version) -> Snapshot:
    """The version to go back to; a number may also be that of a tag whose snapshot has expired.

    Raises:
        UsageError: there is none.
    """
    if version.is_latest:
        raise UsageError(
            "no version is named to go back to",
            where=table.location,
            fix="give one of --snapshot, --tag and --timestamp",
        )
    try:
        snapshot = snapshot_of(table, version)
    except UsageError:
        for tag in table.tags.tags():
            if tag.snapshot.snapshot_id == version.snapshot:
                return tag.snapshot
        raise
    assert snapshot is not None, "only the latest may be absent"
    return snapshot


def plan_rollback(table: FileStoreTable, target: Snapshot) -> RollbackPlan:
    """What a rollback does.

    Raises:
        UsageError: an expiry was stopped while it deleted the files of the target.
        CorruptFileError: what must stay cannot be read, so that nobody knows what may go.
    """
    if is_announced(table, target.snapshot_id):
        raise UsageError(
            f"snapshot {target.snapshot_id} is going: an expiry is deleting its files, or has died "
            "while it did so",
            where=table.location,
            fix="go back to a newer snapshot, or to a tag",
        )
    now, expiration_ms = (
        table.clock.now_ms(),
        table.options.optional_integer("consumer.expiration-time"),
    )
    numbers = rollback_numbers(
        target.snapshot_id,
        snapshots=table.snapshots.ids(),
        changelogs=table.changelogs.ids(),
        tags={tag.name: tag.snapshot.snapshot_id for tag in table.tags.tags()},
        consumers=[
            consumer
            for consumer in table.consumers.consumers()
            if not consumer.has_expired(now, expiration_ms)
        ],
    )
    files = FilesToDelete() if numbers.is_empty() else _files(table, target, numbers)
    return RollbackPlan(target=target, numbers=numbers, files=files)


def roll_back(table: FileStoreTable, plan: RollbackPlan, *, resets_consumers: bool) -> None:
    """Do it; whoever dies may be followed by a rollback to the same version.

    Args:
        resets_consumers: let consumers that are ahead go on behind the target.

    Raises:
        UsageError: a living consumer would be cut; nothing has changed.
        OSError: the file system refused.
    """
    target, numbers = plan.target.snapshot_id, plan.numbers
    if numbers.consumers and not resets_consumers:
        names = ", ".join(each.consumer_id for each in numbers.consumers)
        raise UsageError(
            f"consumers have read snapshots behind {target}: {names}",
            where=table.location,
            fix="stop them and see to what they have taken over already; --force lets them go on "
            f"at snapshot {target + 1}",
        )
    for consumer in numbers.consumers:  # 1
        table.consumers.reset(consumer.consumer_id, target + 1)
    if numbers.is_restored:  # 2
        table.snapshots.restore(_without_lost_changelog(table, plan.target))
    table.snapshots.delete_latest_hint()  # 3
    for number in numbers.snapshots:  # 4
        table.snapshots.delete(number)
        table.snapshots.sync_deletions()  # or a crash may bring back what lies behind a gap
    _delete_latecomers(table, target)
    table.snapshots.write_latest_hint(target)
    table.changelogs.delete(numbers.changelogs)
    table.tags.delete(*numbers.tags)
    clean = table.options.boolean("snapshot.clean-empty-directories")
    delete_files(table, plan.files, clean_folders=clean)  # 5
    table.snapshots.write_earliest_hint(table.snapshots.ids()[0])  # 6


def _delete_latecomers(table: FileStoreTable, target: int) -> None:
    """Snapshots that were committed since the plan was made go too: they stand on what has gone.

    Who commits later finds the one before his gone, and takes his own back.
    """
    while late := [number for number in table.snapshots.ids() if number > target]:
        for number in reversed(late):
            _LOG.warning("snapshot %d was committed while the table went back: it goes too", number)
            table.snapshots.delete(number)
            table.snapshots.sync_deletions()


def _files(table: FileStoreTable, target: Snapshot, numbers: RollbackNumbers) -> FilesToDelete:
    """What came after the target: no file that is live in it, and none that a branch has."""
    protected = protected_versions(table)
    collector = FileCollector(ManifestReads(table))
    needed: list[Collection[FileKey]] = [
        collector.reads.live_files(version) for version in (target, *protected.branches)
    ]
    collector.keep_metadata_of([target, *protected.branches])
    found = (_readable(table, number) for number in reversed(numbers.snapshots))
    snapshots = [snapshot for snapshot in found if snapshot is not None]
    tagged = [protected.tags[n] for n in protected.tags if n > numbers.target]
    changelogs = [
        table.changelogs.changelog(number)
        for number in numbers.changelogs
        if number > numbers.target
    ]
    # The first that goes has what came between it and an expired target; tags have files whose
    # snapshots have expired.
    for version in (*snapshots[:1], *tagged):
        add_live_files(collector, version, needed)
    for version in (*snapshots, *changelogs):
        _add_new(collector, version, protected, needed)
    for version in (*snapshots, *tagged, *changelogs):
        add_manifest_lists(collector, version)
        collector.add_indexes(version)
    return collector.files


def _readable(table: FileStoreTable, number: int) -> Snapshot | None:
    """A snapshot that goes; a damaged one may be why people go back, and only its own file goes."""
    try:
        return table.snapshots.snapshot(number)
    except CorruptFileError as error:
        _LOG.warning(
            "files of snapshot %d stay on disk for stream-app remove-orphan-files: %s",
            number,
            error,
        )
        return None


def _add_new(
    collector: FileCollector,
    version: Snapshot,
    protected: ProtectedVersions,
    needed: list[Collection[FileKey]],
) -> None:
    collector.reads.prefetch([version.delta_manifest_list], with_manifests=True)
    added = [
        entry
        for entry in collector.reads.entries(version.delta_manifest_list) or ()
        if entry.kind is FileKind.ADD
    ]
    collector.add_data_files(unprotected(added, needed))
    add_changelog(collector, version, protected)


def _without_lost_changelog(table: FileStoreTable, target: Snapshot) -> Snapshot:
    """Expiry leaves a tag its data, but deletes its changelog files, which nobody must look for."""
    name = target.changelog_manifest_list
    if name is None or table.file_io.exists(table.paths.manifest(name)):
        return target
    return replace(
        target,
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        changelog_record_count=None,
    )
