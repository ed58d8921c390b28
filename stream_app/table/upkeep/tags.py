"""Creates tags, deletes tags with the files that only they need, and reads the tag options.

A tag's file is deleted before its data. So a crash in between leaves orphans for `orphan_files`,
and never a tag without its data.

Source: Paimon `utils/TagManager.java`, `operation/TagDeletion.java`, `tag/TagAutoCreation.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from stream_app.clock import local_wall_clock_ms, wall_clock_ms
from stream_app.errors import CorruptFileError, StreamAppError, UsageError
from stream_app.model.near_names import unknown_name
from stream_app.model.options.expire_options import SNAPSHOT_CLEAN_EMPTY_DIRECTORIES
from stream_app.model.options.tag_options import (
    SINK_PROCESS_TIME_ZONE,
    SINK_WATERMARK_TIME_ZONE,
    TAG_AUTOMATIC_COMPLETION,
    TAG_AUTOMATIC_CREATION,
    TAG_CREATION_DELAY,
    TAG_CREATION_PERIOD,
    TAG_CREATION_PERIOD_DURATION,
    TAG_DEFAULT_TIME_RETAINED,
    TAG_NUM_RETAINED_MAX,
    TAG_PERIOD_FORMATTER,
    zone_of,
)
from stream_app.model.snapshot import Snapshot
from stream_app.model.tag import Tag
from stream_app.planning.commit.live_entries import live_entries
from stream_app.planning.upkeep.tag_creation import SnapshotTime, TagRules, tag_period_rule
from stream_app.planning.upkeep.unused_files import FileKey, nearest_ids, unprotected_entries
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.announcements import is_announced, is_rolled_back
from stream_app.table.upkeep.file_deletion import (
    FileCollector,
    FilesToDelete,
    delete_files,
    needed_files_cache,
    protected_versions_of,
)
from stream_app.table.upkeep.manifest_cache import ManifestCache
from stream_app.table.versions.time_travel import numbered_snapshot


def new_tag(
    table: FileStoreTable, name: str, snapshot_id: int | None = None, retained_ms: int | None = None
) -> Tag:
    """Return a tag that does not exist yet; `create_tag` creates it.

    Args:
        snapshot_id: the number of a snapshot, perhaps an expired one that another tag keeps;
            None: the latest.
        retained_ms: the milliseconds after which the tag may be deleted; None:
            ``tag.default-time-retained``.

    Raises:
        UsageError: the snapshot does not exist, or the name is taken or invalid.
    """
    table.tags.check_name(name)
    if name in table.tags.names():
        raise UsageError(
            f"tag {name!r} exists already",
            where=table.location,
            fix="give another name, or delete it first: stream-app delete-tag",
        )
    snapshot = _snapshot_to_tag(table, snapshot_id)
    _check_not_automatic(table, name, snapshot)
    if retained_ms is None:
        retained_ms = table.options[TAG_DEFAULT_TIME_RETAINED]
    creation_time_ms = None if retained_ms is None else local_wall_clock_ms(table.clock)
    return Tag(
        name=name, snapshot=snapshot, create_time_ms=creation_time_ms, time_retained_ms=retained_ms
    )


def create_tag(table: FileStoreTable, tag: Tag) -> bool:
    """Create the tag; False if its name was taken meanwhile.

    If an expiry or a rollback of stream_app runs concurrently, either the tagged version is
    complete, or no tag remains. Another engine's expiry that is deleting the version's files goes
    unnoticed.

    Raises:
        UsageError: the snapshot has expired meanwhile or is expiring; no tag remains.
        OSError: the file system refused; the tag may exist.
    """
    if not table.tags.create(tag):
        return False
    try:
        reason = _loss_reason(table, tag)
    except BaseException:
        table.tags.delete(tag.name)
        raise
    if reason is not None:
        table.tags.delete(tag.name)
        raise UsageError(
            f"snapshot {tag.snapshot.snapshot_id} {reason} while it got the tag {tag.name!r}",
            where=table.location,
            fix="tag a newer snapshot",
        )
    table.tags.write_success_file(tag.name, table.clock.now_ms())
    return True


def _loss_reason(table: FileStoreTable, tag: Tag) -> str | None:
    """Return the reason why the version is lost despite its new tag; None if it is complete.

    An expiry withdraws its announcement after it has deleted the snapshots, so the function checks
    the snapshots last.
    """
    snapshot_id = tag.snapshot.snapshot_id
    if is_announced(table, snapshot_id):
        return "was expiring"
    if is_rolled_back(table, snapshot_id):
        return "was being deleted by a rollback"
    # The deletion of the last other tag then looks for this one, so one side sees the other.
    is_retained = table.snapshots.exists(snapshot_id) or any(
        other.snapshot == tag.snapshot for other in table.tags.tags() if other.name != tag.name
    )
    return None if is_retained else "has expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagDeletion:
    """The files that are deleted with tags.

    Attributes:
        files: the files that only these tags kept; none while their snapshots exist.
        freed_ids: the numbers of the versions that only these tags kept.
        unreadable_names: names of unreadable tags, whose files become orphans.
    """

    tags: tuple[Tag, ...]
    files: FilesToDelete
    freed_ids: frozenset[int]
    unreadable_names: tuple[str, ...] = ()


def plan_tag_deletion(table: FileStoreTable, names: Collection[str]) -> TagDeletion:
    """Plan the deletion of tags, with the files that are deleted with them.

    Raises:
        UsageError: a tag does not exist.
        CorruptFileError: a retained version cannot be read, so its files cannot be determined.
    """
    unreadable_names = tuple(name for name in dict.fromkeys(names) if _is_damaged(table, name))
    tags = {tag.name: tag for tag in table.tags.tags(excluded_names=unreadable_names)}
    existing_names = [*tags, *unreadable_names]
    for name in names:
        if name not in existing_names:
            raise UsageError(
                unknown_name("tag", name, existing_names),
                where=table.location,
                fix=f"name one of the table's tags: {', '.join(existing_names)}"
                if existing_names
                else "name no tag: the table has none",
            )
    deleted_tags = [tags[name] for name in dict.fromkeys(names) if name in tags]
    retained_ids = {
        tag.snapshot.snapshot_id for name, tag in tags.items() if name not in set(names)
    }
    freed_versions = {
        tag.snapshot.snapshot_id: tag.snapshot
        for tag in deleted_tags
        if tag.snapshot.snapshot_id not in retained_ids
        and not table.snapshots.exists(tag.snapshot.snapshot_id)
    }
    files = FilesToDelete()
    if (
        freed_versions and not unreadable_names
    ):  # the files of an unreadable tag cannot be determined
        files = _files(table, list(freed_versions.values()), retained_ids)
    return TagDeletion(
        tags=tuple(deleted_tags),
        files=files,
        freed_ids=frozenset(freed_versions),
        unreadable_names=unreadable_names,
    )


def _is_damaged(table: FileStoreTable, name: str) -> bool:
    try:
        table.tags.tag(name)
    except CorruptFileError:
        return True
    return False


def delete_tags(table: FileStoreTable, deletion: TagDeletion) -> None:
    """Delete the tags, and then their files.

    Raises:
        OSError: the file system refused; files that are left are orphans.
    """
    table.tags.delete(*deletion.unreadable_names, *(tag.name for tag in deletion.tags))
    if any(tag.snapshot.snapshot_id in deletion.freed_ids for tag in table.tags.tags()):
        return  # another process has just created another tag for one of these versions
    lists = {tag.snapshot.delta_manifest_list for tag in deletion.tags}
    if deletion.files.count and any(
        version.delta_manifest_list in lists
        for version in protected_versions_of(table).snapshots_of_others()
    ):
        return  # another branch has this version, or has just begun at it
    cleans_folders = table.options[SNAPSHOT_CLEAN_EMPTY_DIRECTORIES]
    delete_files(table, deletion.files, cleans_folders=cleans_folders)


def _files(
    table: FileStoreTable, versions: Sequence[Snapshot], retained_ids: Collection[int]
) -> FilesToDelete:
    """Return the files that only these versions have.

    It is enough to compare them with their nearest retained neighbours. A file is live in
    consecutive versions, so a neighbour has each file that any retained version has.
    """
    protected_versions = protected_versions_of(table)
    collector = FileCollector(ManifestCache(table))
    snapshot_ids = {*retained_ids, *table.snapshots.ids()}
    neighbour_ids = {
        snapshot_id
        for version in versions
        for snapshot_id in nearest_ids(version.snapshot_id, snapshot_ids)
    }
    neighbours = [
        protected_versions.tags[snapshot_id]
        if snapshot_id in retained_ids
        else table.snapshots.snapshot(snapshot_id)
        for snapshot_id in sorted(neighbour_ids)
    ]
    needed_files = collector.keep_files_of_others(protected_versions, needed_files_cache())
    needed_files += _flushed_changelogs(table, collector.manifest_cache)
    needed_files += [collector.manifest_cache.live_files(version) for version in neighbours]
    collector.keep_metadata_of(neighbours)
    if not table.options.writes_changelog:  # otherwise changelogs have their own lists
        changelogs = map(table.changelogs.changelog, table.changelogs.ids())
        collector.keep_metadata_of(changelogs, may_be_gone=True)
    for version in versions:
        add_live_files(collector, version, needed_files)
        collector.add_manifest_lists(version)
        collector.add_indexes(version)
    return collector.files


def add_live_files(
    collector: FileCollector, snapshot: Snapshot, needed_files: Sequence[Collection[FileKey]]
) -> None:
    """Add the data files of a version to delete, unless they are needed."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    collector.manifest_cache.prefetch(lists, includes_manifests=True)
    entries = [entry for name in lists for entry in collector.manifest_cache.entries(name) or ()]
    collector.add_data_files(unprotected_entries(live_entries(entries), needed_files))


def _flushed_changelogs(
    table: FileStoreTable, manifest_cache: ManifestCache
) -> list[frozenset[FileKey]]:
    """Return the data files that serve as the changelog of long-lived changelogs."""
    if table.options.writes_changelog:
        return []
    changelogs = map(table.changelogs.changelog, table.changelogs.ids())
    return [manifest_cache.added_files(changelog, may_be_gone=True) for changelog in changelogs]


def _snapshot_to_tag(table: FileStoreTable, snapshot_id: int | None) -> Snapshot:
    """Return the snapshot of this number, perhaps from another tag; None names the latest."""
    if snapshot_id is None:
        latest_snapshot = table.snapshots.latest()
        if latest_snapshot is None:
            raise UsageError(
                "the table has no snapshot to tag",
                where=table.location,
                fix="wait for the job's first commit",
            )
        return latest_snapshot
    try:
        return numbered_snapshot(table, snapshot_id)
    except StreamAppError:
        tagged_snapshots = {tag.snapshot.snapshot_id: tag.snapshot for tag in table.tags.tags()}
        if snapshot_id in tagged_snapshots:
            return tagged_snapshots[snapshot_id]
        raise


def _check_not_automatic(table: FileStoreTable, name: str, snapshot: Snapshot) -> None:
    """Check that the snapshot has no other automatic tag, because Paimon fails on two of them."""
    rules = tag_rules(table)
    if rules is None or rules.period_rule.start_ms(name) is None:
        return
    for tag in table.tags.tags():
        is_automatic = rules.period_rule.start_ms(tag.name) is not None
        if is_automatic and tag.snapshot.snapshot_id == snapshot.snapshot_id:
            raise UsageError(
                f"snapshot {snapshot.snapshot_id} already has the automatic tag {tag.name!r}, "
                f"and {name!r} would be a second one",
                where=table.location,
                fix="choose a name that is not a period of automatic tags, or tag another snapshot",
            )


def tag_rules(table: FileStoreTable) -> TagRules | None:
    """Return the rules of automatic tagging; None without it.

    Raises:
        UsageError: the delay is as long as a period, so no tag would be in time.
    """
    options = table.options
    if options[TAG_AUTOMATIC_CREATION] not in ("process-time", "watermark"):
        return None
    period_rule = tag_period_rule(
        options[TAG_CREATION_PERIOD],
        options[TAG_PERIOD_FORMATTER],
        options[TAG_CREATION_PERIOD_DURATION],
    )
    delay_ms = options[TAG_CREATION_DELAY]
    if delay_ms >= period_rule.period_ms:
        raise UsageError(
            f"option 'tag.creation-delay': {delay_ms} ms is not below the period of "
            f"{period_rule.period_ms} ms",
            where=table.location,
            fix="shorten the delay, or lengthen tag.creation-period",
        )
    return TagRules(
        period_rule=period_rule,
        delay_ms=delay_ms,
        completes_periods=options[TAG_AUTOMATIC_COMPLETION],
        num_max=options[TAG_NUM_RETAINED_MAX],
    )


def snapshot_time(table: FileStoreTable, snapshot: Snapshot) -> SnapshotTime:
    """Return the wall-clock time that determines a snapshot's tag."""
    options = table.options
    if options[TAG_AUTOMATIC_CREATION] == "watermark":
        time_ms = snapshot.watermark
        zone = options[SINK_WATERMARK_TIME_ZONE]
    else:
        time_ms = snapshot.time_ms
        zone = options[SINK_PROCESS_TIME_ZONE]
    if time_ms is None:
        return SnapshotTime(snapshot.snapshot_id, None)
    return SnapshotTime(snapshot.snapshot_id, wall_clock_ms(time_ms, _zone(zone)))


def process_time_ms(table: FileStoreTable) -> int | None:
    """Return the wall-clock time by which tags become due; None without process time."""
    if table.options[TAG_AUTOMATIC_CREATION] != "process-time":
        return None
    return wall_clock_ms(table.clock.now_ms(), _zone(table.options[SINK_PROCESS_TIME_ZONE]))


def _zone(name: str) -> tzinfo | None:
    return zone_of(name) if name else None
