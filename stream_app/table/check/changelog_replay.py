"""Plans the replay of a table's changelog: its base, the changes to apply, and the expected rows.

A replay begins with the rows of a snapshot or tag, or with the empty table before the first
snapshot. It needs the changes of all later snapshots. `changelog_check` runs it. Tables without a
primary key are not replayed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stream_app.model.bucket_id import POSTPONED, BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry, files_of_buckets
from stream_app.model.options.compaction_options import RECORD_LEVEL_EXPIRE_TIME
from stream_app.model.options.merge_options import (
    CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS,
    SEQUENCE_SNAPSHOT_ORDERING,
)
from stream_app.model.snapshot import CommitKind, Snapshot, VersionKind
from stream_app.model.traits.changelog_producer import ProducerTraits, producer_traits
from stream_app.model.traits.merge_engine import traits_of
from stream_app.planning.read.stream_step import FollowUp, follow_up, full_level_min
from stream_app.table.check.metadata_check import Progress
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.read_refusals import check_readable
from stream_app.table.versions.version_files import named_versions

BEFORE_FIRST_SNAPSHOT = 0
"""Number of the version before the first snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanges:
    """A snapshot or long-lived changelog with readable changes.

    Attributes:
        reason_unrecorded: the reason why its changes were not recorded; else empty.
        producer: the ``changelog-producer`` of its schema.
    """

    snapshot_id: int
    reason_unrecorded: str
    producer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRange:
    """The changes after `base_id`, up to `last_id`."""

    base_id: int
    last_id: int

    def __str__(self) -> str:
        first_id = self.base_id + 1
        range_text = (
            f"snapshots {first_id} to {self.last_id}"
            if first_id < self.last_id
            else f"snapshot {first_id}"
        )
        base_text = (
            ""
            if self.base_id == BEFORE_FIRST_SNAPSHOT
            else f", on top of the rows of snapshot {self.base_id}"
        )
        return range_text + base_text


def replay_range(
    version_changes: Sequence[VersionChanges], bases: Collection[int]
) -> ReplayRange | str:
    """Return the longest range up to the latest snapshot that can be replayed, or why none can.

    Args:
        version_changes: in ascending order of their numbers; the last belongs to the latest
            snapshot.
        bases: numbers of snapshots and tags, whose rows can be read.
    """
    if not version_changes:
        return "there are no snapshots"
    last_version = version_changes[-1]
    if last_version.reason_unrecorded:
        return f"snapshot {last_version.snapshot_id} {last_version.reason_unrecorded}"
    first_version = last_version
    for version in reversed(version_changes[:-1]):
        is_next = version.snapshot_id + 1 == first_version.snapshot_id
        if not is_next or version.reason_unrecorded or version.producer != last_version.producer:
            break
        first_version = version
    base_min = first_version.snapshot_id - 1
    starts = [
        base
        for base in (BEFORE_FIRST_SNAPSHOT, *sorted(bases))
        if base_min <= base < last_version.snapshot_id
    ]
    if not starts:
        return "there is no earlier version whose rows it could begin with"
    return ReplayRange(base_id=starts[0], last_id=last_version.snapshot_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketReplay:
    """The files of a bucket in the base, in all changes in order, and in the last version.

    Attributes:
        numbers_go_back: whether a later snapshot has sequence numbers that are not above the
            earlier ones. Either two jobs write the bucket, or a job restarted after a compaction
            had dropped the delete with the highest number.
    """

    bucket_id: BucketId
    base_files: Sequence[DataFileMeta]
    change_files: Sequence[DataFileMeta]
    last_files: Sequence[DataFileMeta]
    numbers_go_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogReplay:
    """A replay of a table's changelog.

    Attributes:
        producer: the ``changelog-producer`` of all its snapshots.
        base_snapshot: the version with whose rows it begins; None if it begins without rows.
        changing_snapshots: the snapshots and long-lived changelogs whose changes it applies, in
            order.
        last_snapshot: the version whose rows must result.
    """

    table: FileStoreTable
    producer: ProducerTraits
    snapshot_range: ReplayRange
    base_snapshot: Snapshot | None
    changing_snapshots: tuple[Snapshot, ...]
    last_snapshot: Snapshot

    @property
    def is_by_sequence_number(self) -> bool:
        """Whether changes are ordered by sequence number, rather than by snapshot and file."""
        by_snapshot = self.table.options[SEQUENCE_SNAPSHOT_ORDERING]
        return not (self.producer.by_compaction or by_snapshot)

    @property
    def may_forget_deletes(self) -> bool:
        """Whether a correct table may have rows that a replay of its changes lacks.

        With ``sequence.field`` a row may arrive after a delete that is newer by this field. If a
        compaction has dropped the delete, the row is live. A replay still has the delete, and omits
        the row.
        """
        return self.is_by_sequence_number and bool(self.table.schema.sequence_fields)

    def buckets(self, progress: Progress) -> Iterator[BucketReplay]:
        """Yield all buckets that have files in the base, the changes or the last version.

        Raises:
            CorruptFileError: a manifest is missing or cannot be read.
        """
        base_files = self._files_by_bucket(self.base_snapshot)
        last_files = self._files_by_bucket(self.last_snapshot)
        change_files, backward_buckets = self._change_files_by_bucket()
        buckets = sorted(base_files.keys() | last_files.keys() | change_files.keys())
        for done, bucket_id in enumerate(buckets):
            progress("buckets replayed", done, len(buckets))
            yield BucketReplay(
                bucket_id=bucket_id,
                base_files=base_files.get(bucket_id, ()),
                change_files=change_files.get(bucket_id, ()),
                last_files=last_files.get(bucket_id, ()),
                numbers_go_back=bucket_id in backward_buckets,
            )
        progress("buckets replayed", len(buckets), len(buckets))

    def _files_by_bucket(self, snapshot: Snapshot | None) -> dict[BucketId, list[DataFileMeta]]:
        """Return the files of a version that the recorded changes describe, by bucket.

        This omits levels that no compaction with a changelog has produced, and ``bucket-postpone``:
        their changes are not recorded yet.
        """
        level_min = full_level_min(self.producer, self.table.options.num_levels)
        live_entries = FileStoreScan(self.table).live(snapshot)
        return files_of_buckets(
            entry
            for entry in live_entries
            if entry.file.level >= level_min and entry.bucket != POSTPONED
        )

    def _change_files_by_bucket(self) -> tuple[dict[BucketId, list[DataFileMeta]], set[BucketId]]:
        """Return each bucket's files of changes, and the buckets whose sequence numbers go back."""
        change_files: dict[BucketId, list[DataFileMeta]] = {}
        backward_buckets: set[BucketId] = set()
        for snapshot in self.changing_snapshots:
            added_entries = [
                entry for entry in self._changed_entries(snapshot) if entry.kind is FileKind.ADD
            ]
            for bucket_id, files in files_of_buckets(added_entries).items():
                earlier_files = change_files.setdefault(bucket_id, [])
                max_earlier_number = max(
                    (file.max_sequence_number for file in earlier_files), default=-1
                )
                if min(file.min_sequence_number for file in files) <= max_earlier_number:
                    backward_buckets.add(bucket_id)
                earlier_files += files
        return change_files, backward_buckets

    def _changed_entries(self, snapshot: Snapshot) -> Iterable[ManifestEntry]:
        scan = FileStoreScan(self.table)
        # A change is recorded when its row leaves bucket-postpone.
        if self.table.kind_traits.postpones and not self.producer.writes_changelog:
            bucket_entries = (entry for entry in scan.delta(snapshot) if entry.bucket != POSTPONED)
            return [entry for entry in bucket_entries if entry.file.level == 0]
        match follow_up(
            snapshot, has_changelog=self.producer.writes_changelog, reads_overwrites=False
        ):
            case FollowUp.DELTA:
                return scan.delta(snapshot)
            case FollowUp.CHANGELOG:
                return scan.changelog(snapshot)
            case FollowUp.NOTHING:
                return ()


def _reason_unrecorded(
    table: FileStoreTable,
    snapshot: Snapshot,
    by_kind: Mapping[VersionKind, Mapping[int, Snapshot]],
    producer: ProducerTraits,
) -> str:
    """Return the reason why a snapshot's changes were not recorded; empty if they were.

    A rollback to a tag restores an expired snapshot without its changelog. That snapshot is the
    earliest then, so only the earliest is checked. stream_app's rollback removes the changelog's
    name from it; Paimon's leaves it.
    """
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        return "is an OVERWRITE without a changelog"
    snapshot_id, name = snapshot.snapshot_id, snapshot.changelog_manifest_list
    if not producer.writes_changelog or snapshot_id != min(
        by_kind[VersionKind.SNAPSHOT], default=0
    ):
        return ""
    tag = by_kind[VersionKind.TAG].get(snapshot_id)
    if name is not None:
        is_lost = not table.file_io.exists(table.paths.manifest(name))
    elif (
        producer.writes_on_flush
        and snapshot.commit_kind is CommitKind.APPEND
        and not table.kind_traits.postpones  # the move out of bucket-postpone writes the changelog
    ):
        is_lost = bool(snapshot.delta_record_count)
    else:
        is_lost = tag is not None and tag.changelog_manifest_list is not None
    return "came back from a tag, without its changelog" if is_lost else ""


def _recorded_changes(by_kind: dict[VersionKind, dict[int, Snapshot]]) -> dict[int, Snapshot]:
    """Return the snapshots, and the changelogs of expired ones, in the order of their numbers."""
    snapshots = by_kind[VersionKind.SNAPSHOT]
    earliest_id = min(snapshots, default=0)
    changelogs = by_kind[VersionKind.CHANGELOG].items()
    expired_snapshots = {
        snapshot_id: changes for snapshot_id, changes in changelogs if snapshot_id < earliest_id
    }
    return dict(sorted((expired_snapshots | snapshots).items()))


def plan_changelog_replay(table: FileStoreTable) -> ChangelogReplay | str:
    """Plan the longest possible replay of the changelog, or return the reason why none is possible.

    1. Check that the table's rows and changelog can be compared.
    2. Find the versions that have changes, and those from which a replay can begin.
    3. Choose the range of snapshots, and check how the last one's changelog is written.

    Raises:
        UnsupportedTableError: stream_app cannot merge the table's rows correctly.
        FileNotFoundError: a schema is missing.
        CorruptFileError: a schema cannot be read.
    """
    check_readable(table, merges_rows=True)  # step 1
    if table.options[RECORD_LEVEL_EXPIRE_TIME] is not None:
        return "rows of the table expire"
    if table.options[CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS]:
        return "its changelog leaves out updates of some columns"
    by_kind: dict[VersionKind, dict[int, Snapshot]] = {kind: {} for kind in VersionKind}  # step 2
    for version in named_versions(table):
        if version.snapshot is not None:
            by_kind[version.kind][version.snapshot.snapshot_id] = version.snapshot
    changing_snapshots = _recorded_changes(by_kind)
    bases = by_kind[VersionKind.TAG] | by_kind[VersionKind.SNAPSHOT]
    schema_of = table.known_schemas()
    engine = table.options.merge_engine
    producers = {
        snapshot_id: schema_of(snapshot.schema_id).core_options.changelog_producer
        for snapshot_id, snapshot in changing_snapshots.items()
    }
    # step 3
    snapshot_range = replay_range(
        [
            VersionChanges(
                snapshot_id=snapshot_id,
                reason_unrecorded=_reason_unrecorded(
                    table, snapshot, by_kind, producer_traits(producers[snapshot_id])
                ),
                producer=producers[snapshot_id],
            )
            for snapshot_id, snapshot in changing_snapshots.items()
        ],
        bases.keys(),
    )
    if isinstance(snapshot_range, str):
        return snapshot_range
    producer = producer_traits(producers[snapshot_range.last_id])
    if not traits_of(engine).keeps_newest and not producer.by_compaction:
        return f"rows are merged by merge-engine = {engine}"
    return ChangelogReplay(
        table=table,
        producer=producer,
        snapshot_range=snapshot_range,
        base_snapshot=bases.get(snapshot_range.base_id),
        changing_snapshots=tuple(
            snapshot
            for snapshot_id, snapshot in changing_snapshots.items()
            if snapshot_range.base_id < snapshot_id <= snapshot_range.last_id
        ),
        last_snapshot=changing_snapshots[snapshot_range.last_id],
    )
