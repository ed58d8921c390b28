"""Plans a streaming read: optionally an initial version, then each later snapshot's changes.

1. `begin` finds the position at which a start mode begins.
2. `step` plans from a position as far as snapshots and limits allow. Its end is where the next step
   begins, and the only state that a reader must keep.
3. `splits` plans again the splits between two positions. It gives the same splits in the same
   order, as long as the condition and the table's options for splits stay the same.
4. `stream_read` reads the splits, in this process or another.

The planner never waits: if nothing is new, a step has no splits and ends where it begins.

Source: Paimon `table/source/DataTableStreamScan.java`,
`table/source/snapshot/*StartingScanner.java`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.model.bucket_id import POSTPONED
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.data_split import DataSplit, StreamContent, StreamSplit
from stream_app.model.files.manifest_entry import ManifestEntry, files_of_buckets
from stream_app.model.options.compaction_options import FULL_COMPACTION_DELTA_COMMITS
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.scan_options import (
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    STREAMING_READ_APPEND_OVERWRITE,
    STREAMING_READ_OVERWRITE,
)
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from stream_app.model.traits.merge_engine import traits_of
from stream_app.planning.buckets.postponed_order import files_in_write_order
from stream_app.planning.read.stream_start import StartMode, StreamStart, start_of_options
from stream_app.planning.read.stream_step import (
    AdmittedSplits,
    FollowUp,
    StepLimits,
    StreamPosition,
    StreamStep,
    follow_up,
    full_level_min,
)
from stream_app.table.conditions.row_filter import RowFilter
from stream_app.table.conditions.scan_pruning import scan_pruning
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.followed_snapshot import (
    earliest_changes_id,
    followed_snapshot,
    snapshot_or_changelog,
)
from stream_app.table.read.incremental_read import IncrementalRead
from stream_app.table.read.split_scan import SplitScan
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.read_refusals import check_changes_readable
from stream_app.table.versions.time_travel import ms_since_1970

NO_LIMITS = StepLimits()


@dataclass(frozen=True, slots=True)
class StreamScan:
    """A planner of one table's streaming read.

    Attributes:
        row_filter: the condition that a row must fulfil; None: all. It also tests old rows of
            updates.
    """

    table: FileStoreTable
    row_filter: RowFilter | None = None

    def __post_init__(self) -> None:
        check_changes_readable(self.table)
        if self.table.kind_traits.merges_by_key and self.table.options[STREAMING_READ_OVERWRITE]:
            raise UnsupportedTableError(
                "streaming-read-overwrite = true: stream_app does not compute what an OVERWRITE "
                "snapshot changed",
                where=self.table.location,
                fix="follow the table with Paimon's own readers, or set the option to false",
            )

        engine = self.table.options.merge_engine
        shows_changes = traits_of(engine).keeps_newest or self.table.options.writes_changelog
        if self.table.kind_traits.merges_by_key and not shows_changes:
            raise UnsupportedTableError(
                f"merge-engine = {engine}: no changelog shows how a new file changes the rows",
                where=self.table.location,
                fix="follow a table with changelog-producer = lookup or full-compaction; with "
                "input, the changelog has the rows as they arrived",
            )

    def begin(self, start: StreamStart) -> StreamPosition:
        """Return the position at which a read begins; without snapshots it precedes the first.

        Raises:
            UsageError: the snapshot for from-snapshot-full does not exist yet.
        """
        snapshots = self.table.snapshots
        earliest_id, latest_id = snapshots.earliest_id(), snapshots.latest_id()
        if earliest_id is None or latest_id is None:
            return StreamPosition(snapshot_id=max(start.snapshot_id or 1, 1))
        match start.mode:
            case StartMode.LATEST:
                return StreamPosition(snapshot_id=latest_id + 1)
            case StartMode.LATEST_FULL:
                return self._full_position(latest_id)
            case StartMode.COMPACTED_FULL:
                return self._full_position(self._newest_full_compaction(earliest_id, latest_id))
            case StartMode.FROM_TIMESTAMP:
                assert start.timestamp_ms is not None
                return StreamPosition(snapshot_id=self._first_snapshot_since(start.timestamp_ms))
            case StartMode.FROM_SNAPSHOT:
                assert start.snapshot_id is not None
                first_changes_id = earliest_changes_id(self.table) or earliest_id
                return StreamPosition(snapshot_id=max(start.snapshot_id, first_changes_id))
            case StartMode.FROM_SNAPSHOT_FULL:
                assert start.snapshot_id is not None
                if start.snapshot_id > latest_id:
                    raise UsageError(
                        f"snapshot {start.snapshot_id} does not exist yet, the latest is "
                        f"{latest_id}",
                        where=self.table.location,
                        fix="give an earlier one",
                    )
                return self._full_position(max(start.snapshot_id, earliest_id))

    def step(self, start: StreamPosition, limits: StepLimits = NO_LIMITS) -> StreamStep:
        """Return the splits to read from a position on.

        Raises:
            UsageError: the snapshot has expired, or is ahead of the table. The error names the
                first readable snapshot.
            CorruptFileError: a manifest is missing or cannot be read.
        """
        position = start
        admitted_splits = AdmittedSplits(limits)
        next_splits: list[StreamSplit] = []
        while not admitted_splits.is_full:
            splits = self._splits_of(position)
            if splits is None:
                break
            remaining_splits = splits[position.index :]
            admitted_splits, count = admitted_splits.admit(remaining_splits)
            next_splits += remaining_splits[:count]
            if count < len(remaining_splits):
                position = position.after(count)
                break
            position = position.next_snapshot()
        return StreamStep(start=start, end=position, splits=tuple(next_splits))

    def splits(self, start: StreamPosition, end: StreamPosition) -> list[StreamSplit]:
        """Return the splits between two positions that steps returned.

        Raises:
            UsageError: a snapshot between them has expired.
            CorruptFileError: a manifest is missing or cannot be read.
        """
        position = start
        chosen_splits: list[StreamSplit] = []
        while position.is_before(end):
            splits = self._splits_of(position)
            if splits is None:
                raise UsageError(
                    f"snapshot {position.snapshot_id} does not exist",
                    where=self.table.location,
                    fix="begin again, because a table that was rolled back or recreated reuses its "
                    "numbers",
                )
            end_index = end.index if position.is_in(end) else len(splits)
            chosen_splits += splits[position.index : end_index]
            position = position.next_snapshot()
        return chosen_splits

    def _splits_of(self, position: StreamPosition) -> list[StreamSplit] | None:
        """Return all splits of a position's snapshot; None if it is not committed yet."""
        snapshot = followed_snapshot(
            self.table, position.snapshot_id, reads_all_rows=position.is_full
        )
        if snapshot is None:
            return None
        if position.is_full:
            level_min = full_level_min(self.table.options.producer, self.table.options.num_levels)
            scan = SplitScan(self.table, self.row_filter, level_min=level_min)
            row_splits = [
                _split(split, StreamContent.ROWS, snapshot) for split in scan.splits(snapshot)
            ]
            return row_splits + self._raw_splits(self._postponed_entries(snapshot), snapshot)
        return self._raw_splits(self._changes(snapshot), snapshot)

    def _postponed_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the ``bucket-postpone`` files that an initial read must include.

        With a changelog it includes none, because a later snapshot has these rows as changes.
        """
        if not self.table.kind_traits.postpones or self.table.options.writes_changelog:
            return []
        pruning = scan_pruning(self.row_filter, self.table)
        live_entries = FileStoreScan(self.table).live(snapshot, pruning=pruning)
        return [entry for entry in live_entries if entry.bucket == POSTPONED]

    def _changes(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the files with a snapshot's changes."""
        incremental_read = IncrementalRead(self.table, None, self.row_filter)
        reads_overwrites = self.table.options[STREAMING_READ_APPEND_OVERWRITE]
        match follow_up(
            snapshot,
            has_changelog=self.table.options.writes_changelog,
            reads_overwrites=reads_overwrites and not self.table.kind_traits.merges_by_key,
        ):
            case FollowUp.DELTA:
                return incremental_read.added_entries(snapshot)
            case FollowUp.CHANGELOG:
                return incremental_read.changelog_entries(snapshot)
            case FollowUp.NOTHING:
                return []

    def _raw_splits(self, entries: list[ManifestEntry], snapshot: Snapshot) -> list[StreamSplit]:
        splits = []
        for (partition, bucket), files in files_of_buckets(entries).items():
            ordered_files = files_in_write_order(files) if bucket == POSTPONED else files
            for group in self._groups(ordered_files):
                split = DataSplit(
                    snapshot_id=snapshot.snapshot_id,
                    schema_id=self.table.schema.schema_id,
                    partition=partition,
                    bucket=bucket,
                    files=group,
                    is_raw=True,
                )
                splits.append(_split(split, StreamContent.CHANGES, snapshot))
        return splits

    def _groups(self, files: list[DataFileMeta]) -> Iterable[tuple[DataFileMeta, ...]]:
        """Group files into splits. Changes of a key stay in one split, in order."""
        if self.table.kind_traits.merges_by_key:
            return [tuple(files)]
        return [group.files for group in SplitScan(self.table).groups(files)]

    def _full_position(self, snapshot_id: int) -> StreamPosition:
        return StreamPosition(snapshot_id=snapshot_id, is_full=True)

    def _newest_full_compaction(self, earliest_id: int, latest_id: int) -> int:
        commit_count = self.table.options[FULL_COMPACTION_DELTA_COMMITS]
        if self.table.options.producer.writes_on_full_compaction and commit_count is None:
            commit_count = 1
        for snapshot in self.table.snapshots.backwards(down_to=earliest_id):
            identifier = snapshot.commit_identifier
            is_full = (
                not commit_count
                or identifier % commit_count == 0
                or identifier == BATCH_COMMIT_IDENTIFIER
            )
            if snapshot.commit_kind is CommitKind.COMPACT and is_full:
                return snapshot.snapshot_id
        return latest_id

    def _first_snapshot_since(self, time_ms: int) -> int:
        """Return the number of the first snapshot that is not older than a time."""
        earliest_id = earliest_changes_id(self.table)
        latest_id = self.table.snapshots.latest_id()
        assert earliest_id is not None
        assert latest_id is not None
        snapshot_ids = range(earliest_id, latest_id + 1)
        return earliest_id + bisect.bisect_left(
            snapshot_ids,
            time_ms,
            key=lambda snapshot_id: snapshot_or_changelog(self.table, snapshot_id).time_ms,
        )


def start_of_table(options: CoreOptions) -> StreamStart:
    """Return the start that the table's options define.

    Raises:
        UsageError: the mode is not for streaming reads, or an option that it needs is missing.
    """
    time_ms = options[SCAN_TIMESTAMP_MILLIS]
    text = options[SCAN_TIMESTAMP]
    if time_ms is None and text:
        time_ms = ms_since_1970(text)
    return start_of_options(options, time_ms)


def _split(split: DataSplit, content: StreamContent, snapshot: Snapshot) -> StreamSplit:
    return StreamSplit(split=split, content=content, commit_time_ms=snapshot.time_ms)
