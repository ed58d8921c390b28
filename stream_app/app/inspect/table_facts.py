"""Reads facts from a table's latest snapshot, and caches them until the next snapshot.

The web page refreshes a list of many tables each second. For an unchanged table the cache
reads only the hint of the latest snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from stream_app.clock import Clock
from stream_app.format.snapshot_properties.proof_json import proof_of
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.job_epoch import JobEpoch
from stream_app.model.snapshot import SOURCE_TIME_PROPERTY, Snapshot
from stream_app.table.commit.recorded_epochs import newest_epochs
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.waiting_row_count import count_waiting_rows

_VALID_S = 60.0
"""Seconds for which cached facts are valid while the latest snapshot keeps its number.

The table may have been damaged, or rolled back and written again."""
_READ_SNAPSHOTS_MAX = 5
"""The number of snapshots to search for the source's time, which a compaction does not record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """Facts about a table at its latest snapshot.

    Attributes:
        snapshot_id, time_ms: the snapshot's number and time, or None without a snapshot.
        source_time_ms: the time of the table's newest message, in ms since 1970, or None if no
            snapshot records it.
        epochs: commit user → the newest epoch of its job; empty unless a job asks.
        row_count: the number of physical rows of any kind, or None if unknown.
        sorted_run_count: the number of sorted runs of the bucket that has most of them, or None if
            not counted.
        waiting_row_count: the number of rows that wait for a compaction; 0 if not counted.
        proof_time_ms: when a check found the table equal to its source, in ms since 1970, or None.
        proven_at: the source's position in that check.
        proven_without: the columns that the check did not compare, or None.
    """

    snapshot_id: int | None = None
    time_ms: int | None = None
    source_time_ms: int | None = None
    epochs: Mapping[str, JobEpoch] = field(default_factory=dict)
    row_count: int | None = None
    sorted_run_count: int | None = None
    waiting_row_count: int = 0
    proof_time_ms: int | None = None
    proven_at: str | None = None
    proven_without: str | None = None


def table_facts(table: FileStoreTable, *, is_of_job: bool, counts_runs: bool = True) -> TableFacts:
    """Read the facts from the table's latest snapshots.

    Args:
        is_of_job: whether a job asks, which may read more snapshots.
        counts_runs: whether to read manifests, for the sorted runs and waiting rows.

    Raises:
        CorruptFileError: a metadata file is missing or damaged.
    """
    snapshots = latest_snapshots(table)
    if not snapshots:
        return TableFacts()
    latest_snapshot = snapshots[0]
    proof = proof_of(latest_snapshot)
    live_entries = FileStoreScan(table).live(latest_snapshot) if is_of_job and counts_runs else None
    return TableFacts(
        snapshot_id=latest_snapshot.snapshot_id,
        time_ms=latest_snapshot.time_ms,
        source_time_ms=newest_source_time_ms(snapshots),
        epochs=newest_epochs(table.snapshots) if is_of_job else {},
        row_count=latest_snapshot.total_record_count,
        sorted_run_count=None if live_entries is None else sorted_run_count_max(live_entries),
        waiting_row_count=count_waiting_rows(table, latest_snapshot, live_entries)
        if counts_runs
        else 0,
        proof_time_ms=None if proof is None else proof.time_ms,
        proven_at=None if proof is None else proof.position,
        proven_without=None if proof is None else proof.left_out_text,
    )


def latest_snapshots(table: FileStoreTable) -> list[Snapshot]:
    """Return a few snapshots, newest first, which suffice to find the source's time."""
    return list(islice(table.snapshots.backwards(), _READ_SNAPSHOTS_MAX))


def newest_source_time_ms(snapshots: Iterable[Snapshot]) -> int | None:
    """Return the time of the newest message in these snapshots, in ms since 1970, or None."""
    return next(filter(None, map(_snapshot_source_time_ms, snapshots)), None)


def _snapshot_source_time_ms(snapshot: Snapshot) -> int | None:
    """Return the time of a snapshot's newest message; for another engine, its watermark."""
    source_time = (snapshot.properties or {}).get(SOURCE_TIME_PROPERTY)
    if source_time is not None and source_time.isdecimal():
        return int(source_time)
    watermark = snapshot.watermark
    # After a bounded source Flink's watermark is the maximum of a long.
    is_time = watermark is not None and 0 < watermark <= snapshot.time_ms
    return watermark if is_time else None


def freshness_s(now_ms: int, source_time_ms: int | None, lag: int | None) -> int | None:
    """Return how far a table is behind its source, in seconds, or None if unknown.

    Args:
        lag: the number of messages that the table lacks; None if unknown, and then the newest
            message's age counts.
    """
    if lag == 0:
        return 0
    return None if source_time_ms is None else max(0, now_ms - source_time_ms) // 1000


def sorted_run_count_max(live_entries: Iterable[ManifestEntry]) -> int:
    """Return the largest number of sorted runs in a bucket.

    Each file of level 0 is a sorted run.
    """
    runs_of: dict[BucketId, set[str | int]] = {}
    for entry in live_entries:
        run = entry.file.level or entry.file.file_name
        runs_of.setdefault(entry.bucket_id, set()).add(run)
    return max(map(len, runs_of.values()), default=0)


@dataclass(slots=True)
class _CachedFacts:
    """The facts of a table at its latest snapshot, and the time at which they were read."""

    table: FileStoreTable
    latest_id: int | None
    facts: TableFacts
    read_at_s: float

    def is_valid(self, now_s: float) -> bool:
        is_recent = now_s - self.read_at_s < _VALID_S
        return is_recent and self.table.snapshots.latest_id() == self.latest_id


@dataclass(slots=True)
class FactsCache:
    """A cache of the facts of many tables, for any thread.

    Attributes:
        open: opens a table by its folder.
        is_of_job: whether a job asks; see `table_facts`.
        counts_runs: returns whether to count the sorted runs of the table in a folder.
    """

    open: Callable[[str], FileStoreTable]
    clock: Clock
    is_of_job: bool = False
    counts_runs: Callable[[str], bool] = lambda _path: True
    _cached_facts: dict[str, _CachedFacts] = field(init=False, default_factory=dict)

    def facts(self, path: str) -> TableFacts:
        """Return the facts of the table in a folder, from the cache if they are still valid.

        Raises:
            TableNotFoundError: the folder has no table.
            StreamAppError, OSError: the table cannot be read.
        """
        now_s = self.clock.steady_seconds()
        cached_facts = self._cached_facts.get(path)
        if cached_facts is not None and cached_facts.is_valid(now_s):
            return cached_facts.facts
        self._cached_facts.pop(path, None)
        table = self.open(path)
        # Read the number before the facts: if a snapshot follows, the next call reads again.
        latest_id = table.snapshots.latest_id()
        facts = table_facts(table, is_of_job=self.is_of_job, counts_runs=self.counts_runs(path))
        self._cached_facts[path] = _CachedFacts(table, latest_id, facts, now_s)
        return facts
