"""Decides which committed rows wait for a compaction before readers see them.

Readers of some tables skip level 0, and compactions write some changelogs. In such a table the
epoch's rows wait until its compaction is committed. A file's level shows whether its rows wait, so
metadata suffices.

A starting or idle job selects the buckets to compact by this visibility. Status, pages, metrics and
`check` use it to count waiting rows.

Source: Paimon `CoreOptions.java` (`batchScanSkipLevel0`),
`table/source/snapshot/FullCompactedStartingScanner.java`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Protocol

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.manifest_entry import ManifestEntry, files_of_buckets
from stream_app.model.options.core_options import CoreOptions

UNCOUNTED_S = 10.0
"""Seconds for which the rows of the newest epoch are not counted: their compaction has begun."""


class Visibility(enum.Enum):
    """The levels at which a row is visible to readers, and its change is visible to followers."""

    ANY_LEVEL = "any level"
    ABOVE_LEVEL_0 = "above level 0"
    HIGHEST_LEVEL = "the highest level"


def visibility_of(options: CoreOptions, *, merges_by_key: bool) -> Visibility:
    """Return the visible levels of a table."""
    if not merges_by_key:
        return Visibility.ANY_LEVEL
    if options.producer.writes_on_full_compaction:
        return Visibility.HIGHEST_LEVEL
    return (
        Visibility.ABOVE_LEVEL_0
        if options.hides_level0 or options.producer.writes_by_lookup
        else Visibility.ANY_LEVEL
    )


class RowsOfLevel(Protocol):
    """A file or a sorted run of one level."""

    @property
    def level(self) -> int:
        """The level."""
        ...

    @property
    def row_count(self) -> int:
        """The number of rows, including deletes."""
        ...


def waiting_row_count(files: Iterable[RowsOfLevel], visibility: Visibility, num_levels: int) -> int:
    """Return the number of waiting rows in one bucket's live files or runs, including deletes.

    Args:
        num_levels: the number in the table's options; files may be on higher levels.
    """
    match visibility:
        case Visibility.ANY_LEVEL:
            return 0
        case Visibility.ABOVE_LEVEL_0:
            visible_level_min = 1
        case Visibility.HIGHEST_LEVEL:
            files = list(files)
            visible_level_min = max([num_levels - 1, *(file.level for file in files)])
    return sum(file.row_count for file in files if file.level < visible_level_min)


def waiting_buckets(
    live_entries: Iterable[ManifestEntry], visibility: Visibility, num_levels: int
) -> Mapping[BucketId, int]:
    """Return the buckets with waiting rows, and the number of these rows.

    Args:
        live_entries: the live files of a table, or of some buckets.
    """
    if visibility is Visibility.ANY_LEVEL:
        return {}
    counts = {
        bucket_id: waiting_row_count(files, visibility, num_levels)
        for bucket_id, files in files_of_buckets(live_entries).items()
    }
    return {bucket_id: count for bucket_id, count in counts.items() if count}


def reported_row_count(waiting_count: int, *, newest_count: int, age_s: float) -> int:
    """Return the number of waiting rows to report.

    Args:
        waiting_count: the number of all waiting rows.
        newest_count: the maximum number of waiting rows from the newest epoch.
        age_s: the seconds since that epoch's commit.
    """
    return waiting_count if age_s >= UNCOUNTED_S else max(0, waiting_count - newest_count)


def readers_text(visibility: Visibility) -> str:
    """Return which readers lack the waiting rows."""
    return (
        "followers of the changelog"
        if visibility is Visibility.HIGHEST_LEVEL
        else "readers or followers"
    )


def waiting_fix(*, is_write_only: bool) -> str:
    """Return the remedy that makes waiting rows visible to readers and followers."""
    if is_write_only:
        return (
            "the table's job is write-only: run `stream-app compact TABLE --follow` beside it, or "
            "`stream-app compact TABLE` once"
        )
    return (
        "a job that runs compacts them: start it, and see the log if they continue waiting; or run "
        "`stream-app compact TABLE`"
    )


def waiting_text(row_count: int) -> str:
    """Return the note about waiting rows, for all reports."""
    return (
        "1 row waits for a compaction"
        if row_count == 1
        else f"{row_count:,} rows wait for a compaction"
    )
