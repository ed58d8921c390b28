"""Computes the changes of one snapshot as manifest entries that are ready to write.

An append or a compaction knows its changes beforehand. The deletes of an overwrite depend on the
snapshot on which it is based.

Source: Paimon `operation/commit/ManifestEntryChanges.java`,
`operation/commit/OverwriteChangesProvider.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from stream_app.model.bucket_id import POSTPONED, BucketId
from stream_app.model.checksum.sum_record import SumRecord
from stream_app.model.files.bucket_change import BucketChange, LookupFiles
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan

NextSumRecord = Callable[[SumRecord], SumRecord]
"""Makes the record of the checksum of all rows from the record of the snapshot below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChanges:
    """The changes of one snapshot.

    Attributes:
        entries: the entries of data files; all DELETEs precede all ADDs, as Paimon's expiry
            requires.
        changelog: the entries of changelog files.
        index_entries: the entries of the index files that bucket changes name; DELETEs also come
            first.
        bucket_lookups: the buckets and files in which compactions looked up rows.
        statistics_file: the name of the statistics file; None inherits the latest snapshot's file
            if it is still valid.
        is_of_all: whether the commit replaces all rows of the table.
        next_sum_record: computes the checksum of the table's rows from the base snapshot's record.
            None derives it from the commit's files.
    """

    entries: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    index_entries: tuple[IndexManifestEntry, ...] = ()
    bucket_lookups: tuple[tuple[BucketId, LookupFiles], ...] = ()
    statistics_file: str | None = None
    is_of_all: bool = False
    next_sum_record: NextSumRecord | None = None

    @property
    def record_count(self) -> int:
        """The number of rows that the table gains; negative if it loses rows."""
        return sum(
            entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
            for entry in self.entries
        )


def changes_of_buckets(bucket_changes: Sequence[BucketChange], total_buckets: int) -> CommitChanges:
    """Return the manifest entries of the files that buckets gain and lose.

    Args:
        total_buckets: the option ``bucket``, for changes that do not name the number of buckets.
    """
    removed_entries = (
        _entries(total_buckets, FileKind.DELETE, change, change.removed_files)
        for change in bucket_changes
    )
    added_entries = (
        _entries(total_buckets, FileKind.ADD, change, change.added_files)
        for change in bucket_changes
    )
    changelog_entries = (
        _entries(total_buckets, FileKind.ADD, change, change.changelog_files)
        for change in bucket_changes
    )
    return CommitChanges(
        entries=tuple(chain(*removed_entries, *added_entries)),
        changelog=tuple(chain(*changelog_entries)),
        index_entries=tuple(chain.from_iterable(change.index_entries for change in bucket_changes)),
        bucket_lookups=tuple(
            (change.bucket_id, change.lookup_files)
            for change in bucket_changes
            if change.lookup_files
        ),
    )


def changes_of_overwrite(
    table: FileStoreTable,
    base_snapshot: Snapshot | None,
    partitions: Collection[bytes] | None,
    bucket_changes: Sequence[BucketChange],
    *,
    keeps_postponed: bool = False,
) -> CommitChanges:
    """Return changes that delete all data and index files of partitions, and add new files.

    Args:
        base_snapshot: the snapshot that is overwritten.
        partitions: serialized partitions; None: the whole table.
        keeps_postponed: whether the files of ``bucket-postpone`` stay.
    """
    scan = FileStoreScan(table)
    live_entries = (
        scan.live(base_snapshot) if partitions is None else scan.live_in(base_snapshot, partitions)
    )
    if keeps_postponed:
        live_entries = [entry for entry in live_entries if entry.bucket != POSTPONED]
    index = table.manifests.read_index_manifest(
        base_snapshot.index_manifest if base_snapshot else None
    )
    added_changes = changes_of_buckets(bucket_changes, table.options.bucket)
    removed_index = (
        entry.as_delete() for entry in index if partitions is None or entry.partition in partitions
    )
    return CommitChanges(
        entries=(*(entry.as_delete() for entry in live_entries), *added_changes.entries),
        index_entries=(*removed_index, *added_changes.index_entries),
        is_of_all=partitions is None,
    )


def _entries(
    total_buckets: int, file_kind: FileKind, change: BucketChange, files: Sequence[DataFileMeta]
) -> Iterator[ManifestEntry]:
    own_total = change.total_buckets
    for file in files:
        yield ManifestEntry(
            kind=file_kind,
            partition=change.partition,
            bucket=change.bucket,
            total_buckets=total_buckets if own_total is None else own_total,
            file=file,
        )
