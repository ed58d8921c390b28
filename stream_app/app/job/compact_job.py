"""``stream-app compact`` in Spark's driver: compacts a table beside its writers.

``spark-submit`` starts it through `submit/compact.py`; ``stream-app compact`` builds that command
line. The table's own writers continue meanwhile. A compaction that conflicts with their commits is
dropped; a dropped full compaction is requested again.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from functools import partial

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stream_app.app.config.secrets import Secrets
from stream_app.app.config.stream_config import LogFormat
from stream_app.app.inspect.bucket_trees import due_compactions
from stream_app.app.job.compaction_summary import CompactionSummary
from stream_app.app.job.sorted_compaction import sort_partitions
from stream_app.app.observe.channels.listener import Listeners
from stream_app.app.observe.channels.signs_of_life import Activity
from stream_app.app.observe.compaction_observers import CompactionObservers, compaction_observers
from stream_app.app.observe.events.event_texts import report_line
from stream_app.app.table_setup.compaction_settings import CompactionSettings
from stream_app.app.table_setup.single_table_setup import warn_of_ignored_options
from stream_app.errors import CompactionError
from stream_app.model.bucket_id import BucketId
from stream_app.model.options.compaction_options import (
    COMPACTION_MAX_PARALLELISM,
    CONTINUOUS_DISCOVERY_INTERVAL,
)
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.process.log_fields import logging_about
from stream_app.spark.driver.jvm_watch import watched_session
from stream_app.spark.driver.session import start_session
from stream_app.spark.driver.stop_signals import stop_on_signals
from stream_app.spark.jobs.spark_compactions import SparkCompactExecutor, SparkCompactionQueue
from stream_app.table.compact.compaction_report import CompactionReport
from stream_app.table.job.table_job import IdleReport, TableJob
from stream_app.table.overwrite.postponed_move import move_postponed
from stream_app.table.versions.file_store_scan import FileStoreScan

_LOG = logging.getLogger(__name__)
_COMPACTING = Activity("compacting")


def compact(settings: CompactionSettings, secrets: Secrets) -> None:
    """Run a compaction job with the configured metrics and notifications."""
    with compaction_observers(settings, secrets) as observers:
        observers.signs.begin("Spark's session begins")
        run(settings, observers)


def run(settings: CompactionSettings, observers: CompactionObservers) -> None:
    """Compact until all compactions are done, or until the job is stopped.

    Raises:
        CompactionError: some buckets could not be compacted; the other buckets are compacted.
    """
    warn_of_ignored_options(settings.table)
    spark = start_session(f"stream_app compact {settings.table.location}", settings.spark_settings)
    stop_requested = threading.Event()
    with watched_session(spark, stop_requested):
        if settings.row_order is None:
            _merge_files(spark, stop_requested, settings, observers)
        else:
            _sort_rows(spark, settings)


def _sort_rows(spark: SparkSession, settings: CompactionSettings) -> None:
    compaction_queue = SparkCompactionQueue(
        spark, settings.table.options[COMPACTION_MAX_PARALLELISM]
    )
    try:
        for line in sort_partitions(
            settings, SparkCompactExecutor(compaction_queue, settings.table)
        ):
            print(line, flush=True)
    finally:
        compaction_queue.close()


def _merge_files(
    spark: SparkSession,
    stop_requested: threading.Event,
    settings: CompactionSettings,
    observers: CompactionObservers,
) -> None:
    """Run the table's compactions in Spark, and close what the run has opened."""
    table = settings.table.with_counter(observers.requests)
    compaction_queue = SparkCompactionQueue(spark, table.options[COMPACTION_MAX_PARALLELISM])
    make_executor = partial(SparkCompactExecutor, compaction_queue)
    table_job = TableJob(table, make_executor, identifier=BATCH_COMMIT_IDENTIFIER)
    stop_on_signals(spark, stop_requested)
    observers.signs.watch(lambda: None if settings.follows else _COMPACTING)
    try:
        table_job.open(f"compact-{uuid.uuid4()}")
        observers.collect(table_job, spark)
        with logging_about(table=table.label):
            CompactionRun(settings, table_job, stop_requested, observers.listeners).run()
    finally:
        table_job.upkeep.close()
        compaction_queue.close()
        observers.jvm.detach()


class CompactionRun:
    """A run of the command, which compacts one table."""

    def __init__(
        self,
        settings: CompactionSettings,
        table_job: TableJob,
        stop_requested: threading.Event,
        listeners: Listeners | None = None,
    ) -> None:
        self.settings = settings
        self.table_job = table_job
        self.stop_requested = stop_requested
        self.listeners = listeners or Listeners()
        self.summary = CompactionSummary()
        self._snapshot_id: int | None = None

    def run(self) -> None:
        """Compact once, or continuously if the settings follow the table, and print the summary.

        Raises:
            CompactionError: compactions of some buckets failed for good; the others are compacted.
        """
        clock = self.table_job.table.clock
        start_s = clock.steady_seconds()
        if self.settings.follows:
            self._compact_continuously()
        else:
            self._compact_once()
        seconds = clock.steady_seconds() - start_s
        coordinator = self.table_job.stream_commit.coordinator
        counts: dict[object, int] = dict(coordinator.back_pressure.sorted_run_counts())
        self._print(
            self.summary.text(counts, coordinator.dropped_compactions.dropped_count, seconds)
        )
        self._check_none_stuck()

    def _print(self, text: str, console: Console | None = None) -> None:
        """Print a line on stdout, or log it as a JSON record if the log is JSON."""
        if self._logs_json:
            _LOG.info(text)
        elif console is None:
            print(text, flush=True)
        else:
            console.print(text, highlight=False, soft_wrap=True)

    @property
    def _logs_json(self) -> bool:
        return self.settings.stream_config.log_format is LogFormat.JSON

    def _compact_once(self) -> None:
        """Move postponed rows, then run all compactions that are due, and show the progress."""
        settings = self.settings
        table = self.table_job.table
        stream_commit = self.table_job.stream_commit
        self._move_postponed_rows()
        buckets = self._load_changed_buckets()
        latest_snapshot = table.snapshots.latest()
        units = due_compactions(table, latest_snapshot, buckets, is_full=settings.is_full)
        if table.kind_traits.merges_by_key:
            self.summary.add_level0(FileStoreScan(table).live(latest_snapshot, buckets))
        snapshots = (
            stream_commit.iter_compact_fully(buckets)
            if settings.is_full
            else stream_commit.iter_compact_due()
        )
        with _progress(0 if self._logs_json else settings.terminal_width) as progress:
            task = progress.add_task("compacting", total=len(units))
            for report in self._reports(snapshots):
                self._print(report_line(report), progress.console)
                progress.advance(task)
        if not self.summary.compaction_count:
            self.table_job.upkeep.after_commit()  # upkeep may become due by time alone

    def _compact_continuously(self) -> None:
        _LOG.info("following %s, until Ctrl-C", self.table_job.table.location)
        interval_s = self.table_job.table.options[CONTINUOUS_DISCOVERY_INTERVAL] / 1000
        while not self.stop_requested.is_set():
            self._adopt_schema()
            self._move_postponed_rows()
            self._load_changed_buckets()
            for report in self._reports(
                self.table_job.stream_commit.iter_compact_due(expects_no_flush=False)
            ):
                self._print(report_line(report))
            self.table_job.upkeep.while_idle()
            self.listeners.call(lambda listener: listener.on_heartbeat())
            self.stop_requested.wait(interval_s)

    def _adopt_schema(self) -> None:
        """Switch to the table's latest schema, because the older one cannot compact its files."""
        if self.table_job.adopt():
            self._snapshot_id = None

    def _move_postponed_rows(self) -> None:
        """Move postponed rows into their buckets, where they are compacted afterwards."""
        table, partition_filter = self.table_job.table, self.settings.partition_filter
        if not table.kind_traits.postpones:
            return
        waiting_buckets = partition_filter.buckets(
            table, table.snapshots.latest(), is_postponed=True
        )
        moved_rows = move_postponed(table, {partition for partition, _ in waiting_buckets})
        if moved_rows is None:
            return
        if (conflict := moved_rows.outcome.conflict) is not None:
            _LOG.warning("postponed rows of %s stay where they are: %s", table.label, conflict)
            return
        self._print(
            f"postponed: {moved_rows.row_count:,} rows of {moved_rows.file_count} files "
            "have their buckets"
        )

    def _load_changed_buckets(self) -> set[BucketId]:
        """Load the buckets that have new files, or all that meet a condition on idle time."""
        table, stream_commit = self.table_job.table, self.table_job.stream_commit
        partition_filter = self.settings.partition_filter
        latest_snapshot = table.snapshots.latest()
        latest_id = None if latest_snapshot is None else latest_snapshot.snapshot_id
        if latest_id == self._snapshot_id and partition_filter.idle_ms is None:
            return set()
        self._snapshot_id = latest_id
        buckets = partition_filter.buckets(table, latest_snapshot)
        stream_commit.state.follow_and_load(buckets)
        if partition_filter.has_conditions:
            stream_commit.coordinator.restrict({partition for partition, _ in buckets})
        for bucket, count in stream_commit.coordinator.back_pressure.sorted_run_counts().items():
            self.summary.counts_before.setdefault(bucket, count)
        return buckets

    def _reports(self, snapshots: Iterator[Snapshot]) -> Iterator[CompactionReport]:
        """Yield a report for each compaction of the snapshots, until the job is stopped."""
        for snapshot in snapshots:
            report = self.table_job.idle_report(snapshot)
            self._notify_listeners(report)
            for compaction in report.compactions:
                self.summary.add(compaction)
                yield compaction
            self.table_job.upkeep.after_commit()
            if self.stop_requested.is_set():
                return

    def _notify_listeners(self, report: IdleReport) -> None:
        label = self.table_job.table.label
        self.listeners.call(lambda listener: listener.on_idle_commit(label, report))

    def _check_none_stuck(self) -> None:
        table, failures = self.table_job.table, self.table_job.stream_commit.coordinator.failures
        errors = {
            table.paths.bucket_folder(*bucket): error
            for bucket, error in failures.stuck_errors().items()
        }
        if errors:
            raise CompactionError(
                f"{len(errors)} buckets could not be compacted: "
                + "; ".join(f"{path}: {error}" for path, error in sorted(errors.items())),
                where=table.location,
                fix="remove these causes, and repeat the command; all other buckets are compacted",
            )


def _progress(terminal_width: int) -> Progress:
    """Return a progress bar, which is shown only on a terminal."""
    is_terminal = terminal_width > 0
    console = Console(force_terminal=is_terminal, width=terminal_width or None)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not is_terminal,
    )
