"""``stream-app compact`` in Spark's driver: compacts a table beside its writers.

``spark-submit`` starts it through `submit/compact.py`; ``stream-app compact`` builds that command
line. The table's own writers run on. A compaction that loses a conflict is dropped, and a full
compaction is requested again.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stream_app.app.config.secrets import Secrets
from stream_app.app.config.stream_config import LogFormat
from stream_app.app.observe.events.event_texts import report_line
from stream_app.app.observe.metrics.collectors import (
    StoreCollector,
    TablesCollector,
    callback_numbers,
    compaction_numbers,
    expiry_numbers,
)
from stream_app.app.observe.metrics.endpoint import serving
from stream_app.app.observe.metrics.jvm_metrics import JvmCollector
from stream_app.app.observe.monitoring.listener import Listeners
from stream_app.app.observe.monitoring.signs_of_life import Activity, SignsOfLife, signs_of_life
from stream_app.app.observe.monitoring.watchers import watchers
from stream_app.app.ops.inspect.bucket_trees import planned_compactions
from stream_app.app.tables.compaction_request import CompactJob
from stream_app.app.tables.one_table import warn_of_ignored_options
from stream_app.app.text.listing import size_text
from stream_app.errors import CompactionError
from stream_app.log_facts import about
from stream_app.model.bucket_id import BucketId
from stream_app.model.options.compaction_options import (
    COMPACTION_MAX_PARALLELISM,
    CONTINUOUS_DISCOVERY_INTERVAL,
)
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.spark.compact_jobs import SparkCompactExecutor, SparkCompactions
from stream_app.spark.jvm_watch import ending_with_jvm
from stream_app.spark.session import start_session
from stream_app.spark.stop_signals import stop_on_signals
from stream_app.table.compact.report import CompactionReport
from stream_app.table.job.table_job import IdleReport, TableJob
from stream_app.table.versions.file_store_scan import FileStoreScan

_LOG = logging.getLogger("stream_app")
_COMPACTING = Activity("compacting")


@dataclass(slots=True)
class CompactionSummary:
    """Totals of a run so far; sizes in bytes."""

    runs_before: dict[object, int] = field(default_factory=dict)
    units: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    level0_bytes: int = 0
    upgraded: int = 0

    def add(self, report: CompactionReport) -> None:
        """Count a finished unit."""
        self.units += 1
        self.files_in += report.files_in
        self.files_out += report.files_out
        self.bytes_in += report.bytes_in
        self.bytes_out += report.bytes_out
        self.upgraded += report.upgraded

    def text(self, runs: dict[object, int], dropped: int, seconds: float) -> str:
        """Formats the totals as two or three lines.

        Args:
            runs: sorted runs of each bucket afterwards.
        """
        before, after = self.runs_before.values(), runs.values()
        lines = [
            f"{self.units} compactions in {seconds:.1f} s: {self.files_in} files "
            f"({size_text(self.bytes_in)}) → {self.files_out} files "
            f"({size_text(self.bytes_out)}), {self.upgraded} files moved up as they are",
        ]
        if runs:
            lines.append(
                f"sorted runs of {len(runs)} buckets: {sum(before)} → {sum(after)}, at most "
                f"{max(before)} → {max(after)} in one"
            )
        if self.level0_bytes:
            amplification = self.bytes_out / self.level0_bytes
            lines.append(
                f"write amplification: {amplification:.2f} (written, for each byte of level 0)"
            )
        if dropped:
            lines.append(
                f"dropped: {dropped} compactions, because another writer had changed the bucket"
            )
        return "\n".join(lines)


def watched(job: CompactJob, secrets: Secrets) -> None:
    """Run the job, with the configured metrics and notices."""
    registry, clock = CollectorRegistry(), job.table.clock
    stream = job.stream
    name = f"compact {job.table.label}"
    with (
        serving(registry, job.metrics_port, None, stream.metrics_address),
        watchers(
            stream, name, clock, hide=secrets.hide, ends_by_itself=not job.follow
        ) as listeners,
        signs_of_life(clock) as signs,
    ):
        signs.begin("Spark's session begins")
        run(job, registry, signs, listeners)


def run(
    job: CompactJob, registry: CollectorRegistry, signs: SignsOfLife, listeners: Listeners
) -> None:
    """Compact until all compactions are done, or until the job is stopped.

    Args:
        registry: gets metrics of the compactions.
        signs: get the current activity.
        listeners: get the commits.

    Raises:
        CompactionError: some buckets could not be compacted; the others are.
    """
    warn_of_ignored_options(job.table)
    spark = start_session(f"stream_app compact {job.table.location}", job.spark)
    stop_requested = threading.Event()
    with ending_with_jvm(spark, stop_requested):
        _run_in(spark, stop_requested, job, registry, signs, listeners)


def _run_in(
    spark: SparkSession,
    stop_requested: threading.Event,
    job: CompactJob,
    registry: CollectorRegistry,
    signs: SignsOfLife,
    listeners: Listeners,
) -> None:
    label = job.table.label
    store, jvm = StoreCollector(label), JvmCollector(label)
    table = job.table.counted(store.requests)
    compactions = SparkCompactions(spark, table.options[COMPACTION_MAX_PARALLELISM])
    executor_of = partial(SparkCompactExecutor, compactions)
    work = TableJob(table, executor_of, identifier=BATCH_COMMIT_IDENTIFIER)
    stop_on_signals(spark, stop_requested)
    signs.at_work = lambda: None if job.follow else _COMPACTING
    try:
        work.open(f"compact-{uuid.uuid4()}")
        compacted, expired = TablesCollector(compaction_numbers), TablesCollector(expiry_numbers)
        callbacks = TablesCollector(callback_numbers)
        compacted.add(label, work.compaction_metrics)
        expired.add(label, work.upkeep.metrics)
        callbacks.add(label, work.callback_problems)
        jvm.attach(spark)
        for collector in (compacted, expired, callbacks, store, jvm):
            registry.register(collector)
        with about(table=label):
            _Compaction(job, work, stop_requested, listeners).run()
    finally:
        work.close()
        compactions.close()
        jvm.detach()
        spark.stop()


class _Compaction:
    """The compactions of a run."""

    def __init__(
        self,
        job: CompactJob,
        work: TableJob,
        stop_requested: threading.Event,
        listeners: Listeners | None = None,
    ) -> None:
        self.job = job
        self.work = work
        self.stop_requested = stop_requested
        self.listeners = listeners or Listeners()
        self.summary = CompactionSummary()
        self._snapshot_id: int | None = None

    def run(self) -> None:
        clock = self.work.table.clock
        began = clock.steady_seconds()
        if self.job.follow:
            self._follow()
        else:
            self._once()
        seconds, coordinator = clock.steady_seconds() - began, self.work.committer.coordinator
        runs: dict[object, int] = dict(coordinator.back_pressure.sorted_runs())
        self._say(self.summary.text(runs, coordinator.dropped.total, seconds))
        self._check_stuck()

    def _say(self, text: str, console: Console | None = None) -> None:
        """Print a line for people on stdout; in a log of JSON lines it is one of them."""
        if self._logs_json:
            _LOG.info(text)
        elif console is None:
            print(text, flush=True)
        else:
            console.print(text, highlight=False, soft_wrap=True)

    @property
    def _logs_json(self) -> bool:
        return self.job.stream.log_format is LogFormat.JSON

    def _once(self) -> None:
        job, table, committer = self.job, self.work.table, self.work.committer
        buckets = self._touch()
        latest = table.snapshots.latest()
        units = planned_compactions(table, latest, buckets, full=job.full)
        self.summary.level0_bytes = sum(
            entry.file.file_size
            for entry in FileStoreScan(table).live(latest, buckets)
            if entry.file.level == 0 and table.kind.merges_by_key
        )
        steps = committer.compacting_whole(buckets) if job.full else committer.draining()
        with _progress(0 if self._logs_json else job.terminal_width) as progress:
            task = progress.add_task("compacting", total=len(units))
            for report in self._reports(steps):
                self._say(report_line(report), progress.console)
                progress.advance(task)
        if not self.summary.units:
            self.work.upkeep.after_commit()  # upkeep may become due by time alone

    def _follow(self) -> None:
        _LOG.info("following %s, until Ctrl-C", self.work.table.location)
        interval = self.work.table.options[CONTINUOUS_DISCOVERY_INTERVAL] / 1000
        while not self.stop_requested.is_set():
            self._adopt()
            self._touch()
            for report in self._reports(self.work.committer.draining(rests=False)):
                self._say(report_line(report))
            self.work.upkeep.while_idle()
            self.listeners.tell(lambda listener: listener.looked())
            self.stop_requested.wait(interval)

    def _adopt(self) -> None:
        """Continue with the table's newest schema, whose files the older one cannot compact."""
        if self.work.adopt():
            self._snapshot_id = None

    def _touch(self) -> set[BucketId]:
        """Load buckets with new files; with a condition on idle time, also those that meet it."""
        table, committer, choice = self.work.table, self.work.committer, self.job.choice
        latest = table.snapshots.latest()
        number = None if latest is None else latest.snapshot_id
        if number == self._snapshot_id and choice.idle_ms is None:
            return set()
        self._snapshot_id = number
        buckets = choice.buckets(table, latest)
        committer.touch(buckets)
        if choice.is_a_choice:
            committer.coordinator.restrict({partition for partition, _ in buckets})
        for bucket, runs in committer.coordinator.back_pressure.sorted_runs().items():
            self.summary.runs_before.setdefault(bucket, runs)
        return buckets

    def _reports(self, steps: Iterator[Snapshot]) -> Iterator[CompactionReport]:
        for snapshot in steps:
            report = self.work.idle_report(snapshot)
            self._tell(report)
            for compaction in report.compactions:
                self.summary.add(compaction)
                yield compaction
            self.work.upkeep.after_commit()
            if self.stop_requested.is_set():
                return

    def _tell(self, report: IdleReport) -> None:
        label = self.work.table.label
        self.listeners.tell(lambda listener: listener.idle_commit(label, report))

    def _check_stuck(self) -> None:
        table, failures = self.work.table, self.work.committer.coordinator.failures
        stuck = {table.paths.bucket(*bucket): error for bucket, error in failures.stuck().items()}
        if stuck:
            raise CompactionError(
                f"{len(stuck)} buckets could not be compacted: "
                + "; ".join(f"{path}: {error}" for path, error in sorted(stuck.items())),
                where=table.location,
                fix="see the errors above; all other buckets are compacted",
            )


def _progress(terminal_width: int) -> Progress:
    """Show a bar below the lines on a terminal; otherwise the lines alone."""
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
