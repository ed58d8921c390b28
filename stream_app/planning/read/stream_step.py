"""Decides how far one step of a streaming read goes, and which files of a snapshot it reads.

A position is between two splits of the stream, so that a step can end within a snapshot that
exceeds the limits. Splits have the same order each time they are planned.

Source: Paimon `spark/sources/PaimonSourceOffset.scala`, `StreamHelper.scala`,
`spark/sources/PaimonReadLimits.scala`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.errors import UsageError
from stream_app.model.files.data_split import StreamSplit
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.model.traits.changelog_producer import ProducerTraits


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """The position of the next read.

    Attributes:
        snapshot_id: the number of the next snapshot.
        index: the number of its splits that were read.
        is_full: whether all of its rows are read, or only its changes.
    """

    snapshot_id: int
    index: int = 0
    is_full: bool = False

    @property
    def last_read(self) -> int:
        """The latest snapshot that was read at least in part, or skipped."""
        is_begun = self.is_full or self.index > 0
        return self.snapshot_id if is_begun else self.snapshot_id - 1

    def next_snapshot(self) -> StreamPosition:
        """Return the position after all splits of this snapshot."""
        return StreamPosition(snapshot_id=self.snapshot_id + 1)

    def after(self, split_count: int) -> StreamPosition:
        """Return the position after `split_count` further splits of the same snapshot."""
        return StreamPosition(
            snapshot_id=self.snapshot_id, index=self.index + split_count, is_full=self.is_full
        )

    def is_before(self, other: StreamPosition) -> bool:
        """Return whether this position precedes another one of the same stream."""
        return (self.snapshot_id, self.index) < (other.snapshot_id, other.index)

    def is_in(self, other: StreamPosition) -> bool:
        """Return whether both positions are within the same snapshot."""
        return (self.snapshot_id, self.is_full) == (other.snapshot_id, other.is_full)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """The limits of a step; None: no limit.

    A split that exceeds a limit is read alone.

    Attributes:
        snapshots_max: the number of snapshots, with or without changes.
        files_max, rows_max: the numbers of files and of their rows, before merges and filters.
        bytes_max: the bytes of files.
    """

    snapshots_max: int | None = None
    files_max: int | None = None
    bytes_max: int | None = None
    rows_max: int | None = None

    def __post_init__(self) -> None:
        for name in ("snapshots_max", "files_max", "bytes_max", "rows_max"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} = {value} is below 1", fix="give 1 or more, or None")


@dataclass(frozen=True, slots=True)
class AdmittedSplits:
    """The splits that a step has accepted."""

    limits: StepLimits
    snapshot_count: int = 0
    file_count: int = 0
    byte_count: int = 0
    row_count: int = 0

    @property
    def is_full(self) -> bool:
        """Whether not even a split of one row fits."""
        limits = self.limits
        pairs = (
            (self.snapshot_count, limits.snapshots_max),
            (self.file_count, limits.files_max),
            (self.byte_count, limits.bytes_max),
            (self.row_count, limits.rows_max),
        )
        return any(bound is not None and count >= bound for count, bound in pairs)

    def admit(self, splits: Sequence[StreamSplit]) -> tuple[AdmittedSplits, int]:
        """Accept splits of the next snapshot, in order, while they fit.

        Returns:
            The new state, and the number of accepted splits.
        """
        limits = self.limits
        count = 0
        file_count, byte_count, row_count = self.file_count, self.byte_count, self.row_count
        for stream_split in splits:
            split = stream_split.split
            totals = (
                file_count + len(split.files),
                byte_count + split.file_size,
                row_count + split.row_count,
            )
            bounds = (limits.files_max, limits.bytes_max, limits.rows_max)
            exceeds = any(
                bound is not None and total > bound
                for total, bound in zip(totals, bounds, strict=True)
            )
            if exceeds and file_count:
                break
            file_count, byte_count, row_count = totals
            count += 1
        return AdmittedSplits(
            limits, self.snapshot_count + 1, file_count, byte_count, row_count
        ), count


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStep:
    """The splits between two positions; empty if nothing is new."""

    start: StreamPosition
    end: StreamPosition
    splits: tuple[StreamSplit, ...]


class FollowUp(enum.Enum):
    """The files that contain a snapshot's changes, by the changelog producer."""

    NOTHING = "nothing"
    DELTA = "delta"
    CHANGELOG = "changelog"


def follow_up(snapshot: Snapshot, *, has_changelog: bool, reads_overwrites: bool) -> FollowUp:
    """Return which files contain a snapshot's changes.

    With a changelog these are the changelog files, for all kinds of snapshots. Without one they are
    the new files of APPEND snapshots, because a compaction changes no row.

    Args:
        has_changelog: whether the table has a ``changelog-producer``.
        reads_overwrites: ``streaming-read-append-overwrite`` of a table without a primary key.
    """
    if reads_overwrites and snapshot.commit_kind is CommitKind.OVERWRITE:
        return FollowUp.DELTA
    if has_changelog:
        has_files = snapshot.changelog_manifest_list is not None
        return FollowUp.CHANGELOG if has_files else FollowUp.NOTHING
    return FollowUp.DELTA if snapshot.commit_kind is CommitKind.APPEND else FollowUp.NOTHING


def full_level_min(producer: ProducerTraits, num_levels: int) -> int:
    """Return the lowest level that an initial read includes.

    Lower levels have no changelog yet. Their rows become changes when they are compacted.

    Source: Paimon `table/source/DataTableStreamScan.java#tryFirstPlan`.
    """
    if producer.writes_by_lookup:
        return 1
    return num_levels - 1 if producer.writes_on_full_compaction else 0
