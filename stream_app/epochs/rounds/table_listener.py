"""The events of one table of a running job, and the port of those that observe them.

`table_feed` has a table's listener, and `app.observe` implements it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.model.snapshot import Snapshot
from stream_app.quarantine.quarantine_writer import QuarantineReport
from stream_app.table.compact.compaction_metrics import CompactionMetrics
from stream_app.table.compact.compaction_report import CompactionReport
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import IdleReport


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """The result of an epoch for one table.

    Attributes:
        is_skipped: whether the table had the epoch already.
        quarantine_report: the bad records, or None without any.
        ran_in_driver: whether the driver itself ran the epoch, without tasks of Spark.
        start_ms: when reading began, in ms since 1970, in UTC.
        sorted_run_histogram: number of sorted runs → number of buckets that have it.
        compactions: the reports of the compactions that the epoch published.
        metrics: the figures of all compactions of this run, at the epoch's end.
    """

    epoch: int
    is_skipped: bool = False
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    quarantine_report: QuarantineReport | None = None
    bucket_count: int = 0
    file_count: int = 0
    byte_count: int = 0
    ran_in_driver: bool = False
    durations: EpochSeconds = field(default_factory=EpochSeconds)
    start_ms: int = 0
    snapshots: tuple[Snapshot, ...] = ()
    sorted_run_histogram: Mapping[int, int] = field(default_factory=dict)
    compactions: tuple[CompactionReport, ...] = ()
    metrics: CompactionMetrics = field(default_factory=CompactionMetrics)


class TableListener(Protocol):
    """The receiver of one table's events."""

    def on_open_table(self, table: FileStoreTable, topics: Collection[str]) -> None:
        """Handle that the table is opened: before its first epoch of this run, or after a failure.

        Args:
            topics: those that have brought it messages, as the checkpoint remembers.
        """
        ...

    def on_epoch(self, report: EpochReport) -> None:
        """Handle that an epoch is committed."""
        ...

    def on_idle_commit(self, report: IdleReport) -> None:
        """Handle that a compaction was committed between epochs."""
        ...
