"""Decides which files of a version Iceberg's readers see, and the changes between two versions.

Iceberg's readers merge no rows. So a file of a table with a key is visible if no other visible file
has an older or newer row of its keys:

* with deletion vectors that Iceberg knows: above level 0, because the vectors mark replaced rows,
* without: at the highest level, which has one row of each key.

Source: Paimon `iceberg/IcebergCommitCallback.java`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import DELETION_VECTORS_BITMAP64
from stream_app.model.options.iceberg_options import METADATA_ICEBERG_FORMAT_VERSION

VECTORS_VERSION = 3
"""The first format of Iceberg with deletion vectors in Puffin files."""


@dataclass(frozen=True, slots=True)
class IcebergLevels:
    """The levels whose files are visible, from `level_min` on."""

    level_min: int

    def is_visible(self, entry: ManifestEntry) -> bool:
        """Return whether a file is visible."""
        return entry.file.level >= self.level_min


def iceberg_levels(options: CoreOptions, *, merges_by_key: bool) -> IcebergLevels:
    """Return the levels of a table that Iceberg's readers see."""
    if not merges_by_key:
        return IcebergLevels(0)
    return IcebergLevels(1 if publishes_vectors(options) else options.num_levels - 1)


def publishes_vectors(options: CoreOptions) -> bool:
    """Return whether the table's deletion vectors are published to Iceberg's readers."""
    has_64_bits = options.merges_by_vectors and options[DELETION_VECTORS_BITMAP64]
    return has_64_bits and options[METADATA_ICEBERG_FORMAT_VERSION] >= VECTORS_VERSION


@dataclass(frozen=True, slots=True)
class UnseenRows:
    """The rows that Iceberg's readers of the latest version do not see.

    Attributes:
        row_count: the number of rows in unseen files; several may be versions of one row.
        bucket_count: the number of buckets with unseen files.
        seen_time_ms: the oldest creation time, over these buckets, of the newest visible file, by
            the local clock. None if a bucket has no visible file, or nothing is unseen.
    """

    row_count: int
    bucket_count: int
    seen_time_ms: int | None


def unseen_rows(live_entries: Iterable[ManifestEntry], levels: IcebergLevels) -> UnseenRows:
    """Count the rows of a snapshot's live files that Iceberg's readers do not see."""
    row_counts: Counter[BucketId] = Counter()
    visible_times_ms: dict[BucketId, int] = {}
    for entry in live_entries:
        bucket_id = entry.bucket_id
        if levels.is_visible(entry):
            visible_times_ms[bucket_id] = max(
                visible_times_ms.get(bucket_id, 0), entry.file.creation_time_ms or 0
            )
        else:
            row_counts[bucket_id] += entry.file.row_count
    newest_visible_times_ms = [visible_times_ms.get(bucket_id, 0) for bucket_id in row_counts]
    return UnseenRows(
        row_counts.total(), len(row_counts), min(newest_visible_times_ms, default=0) or None
    )


@dataclass(frozen=True, slots=True)
class VisibleChanges:
    """The files, by path, that a version adds to an earlier one and removes from it."""

    added_entries: Mapping[str, ManifestEntry]
    removed_paths: frozenset[str]


def visible_changes(
    entries: Iterable[ManifestEntry],
    levels: IcebergLevels,
    path_of: Callable[[ManifestEntry], str],
) -> VisibleChanges:
    """Return the changes of one or more snapshots, without files that only changed their level.

    Args:
        entries: the entries of the snapshots' deltas in any order, because a file is added and
            deleted only once per level.
    """
    balances: Counter[str] = Counter()
    entries_by_path: dict[str, ManifestEntry] = {}
    for entry in entries:
        if levels.is_visible(entry):
            path = path_of(entry)
            balances[path] += 1 if entry.kind is FileKind.ADD else -1
            entries_by_path[path] = entry
    return VisibleChanges(
        added_entries={
            path: entries_by_path[path] for path, count in balances.items() if count > 0
        },
        removed_paths=frozenset(path for path, count in balances.items() if count < 0),
    )
