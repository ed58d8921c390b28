"""A job's numbers for Prometheus, and the HTTP endpoint that serves them.

`event_log` fills them. Each scrape reads the compaction numbers afresh, so that a waiting epoch
shows before it ends. Each job has a registry of its own: nothing is global.

Source: Prometheus, "Metric and label naming"; Paimon `operation/metrics/CompactionMetrics.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stream_app.cdc.bad_reasons import REASON_KINDS
from stream_app.cdc.column_drift import DriftKind
from stream_app.errors import UsageError
from stream_app.model.snapshot import Snapshot
from stream_app.spark.ingest.streaming_query import SourceProgress
from stream_app.spark.ingest.table_feed import EpochReport
from stream_app.table.compact.metrics import CompactionMetrics
from stream_app.table.job.table_maintenance import MaintenanceMetrics

PREFIX = "stream_app_"
_EPOCH_SECONDS = (0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
"""Upper bounds of the histogram: from a few rows to an epoch that waits for compaction."""

CompactionSource = Callable[[], CompactionMetrics | None]


@dataclass(slots=True)
class JobMetrics:
    """The numbers of one job.

    Attributes:
        table: ``database.table``, the label of all numbers.
        registry: what `serving` serves.
    """

    table: str
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    _epochs: Counter = field(init=False)
    _messages: Counter = field(init=False)
    _changes: Counter = field(init=False)
    _skipped: Counter = field(init=False)
    _bad: Counter = field(init=False)
    _decoder_errors: Counter = field(init=False)
    _reasons: Counter = field(init=False)
    _columns: Mapping[DriftKind, Counter] = field(init=False)
    _snapshots: Counter = field(init=False)
    _seconds: Histogram = field(init=False)
    _lag: Gauge = field(init=False)
    _looked: Gauge = field(init=False)

    def __post_init__(self) -> None:
        self._epochs = self._counter("epochs", "Epochs that were committed.")
        self._messages = self._counter("messages", "Messages that were read.")
        self._changes = self._counter("changes", "Changes that were written.")
        self._skipped = self._counter("skipped_messages", "Messages that mean no row.")
        self._bad = self._counter("bad_records", "Records that could not be decoded.")
        self._decoder_errors = self._counter(
            "decoder_errors", "Bad records at which the decoder failed: a bug, to be reported."
        )
        self._reasons = self._labelled(
            "bad_records_by_reason",
            "Records that could not be decoded, by kind of reason.",
            "reason",
        )
        for reason in REASON_KINDS:
            self._reasons.labels(self.table, reason)
        self._columns = {
            kind: self._labelled(f"{kind.value}_column_records", meaning, "column")
            for kind, meaning in (
                (DriftKind.UNKNOWN, "Records with a column that the table does not have."),
                (DriftKind.MISSING, "Records without a column of the table."),
            )
        }
        self._snapshots = Counter(
            PREFIX + "snapshots",
            "Snapshots that were committed.",
            ["table", "kind"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            PREFIX + "epoch_seconds",
            "Duration of an epoch, by part: wait, write, commit.",
            ["table", "part"],
            buckets=_EPOCH_SECONDS,
            registry=self.registry,
        )
        self._lag = Gauge(
            PREFIX + "lag_messages",
            "Messages of the source that are not read yet.",
            ["table"],
            registry=self.registry,
        )

        self._looked = Gauge(
            PREFIX + "source_looked_timestamp_seconds",
            "When Spark last told how far the source was read, also if there was nothing new.",
            ["table"],
            registry=self.registry,
        )

    def epoch(self, report: EpochReport) -> None:
        """An epoch is committed."""
        if report.skipped:
            return
        counts = report.counts
        self._epochs.labels(self.table).inc()
        self._messages.labels(self.table).inc(counts.messages)
        self._changes.labels(self.table).inc(counts.changes)
        self._skipped.labels(self.table).inc(counts.skipped)
        self._bad.labels(self.table).inc(counts.bad)
        self._decoder_errors.labels(self.table).inc(counts.decoder_errors)
        for reason, count in report.set_aside.reasons.items() if report.set_aside else ():
            self._reasons.labels(self.table, reason).inc(count)
        parts = {"wait": report.wait_s, "write": report.write_s, "commit": report.commit_s}
        for part, seconds in parts.items():
            self._seconds.labels(self.table, part).observe(seconds)
        self.committed(report.snapshots)

    def committed(self, snapshots: Sequence[Snapshot]) -> None:
        """Snapshots were published."""
        for snapshot in snapshots:
            self._snapshots.labels(self.table, snapshot.commit_kind.value).inc()

    def column(self, kind: DriftKind, name: str, records: int) -> None:
        """Records with an unknown column, or without one of the table; names must be few."""
        self._columns[kind].labels(self.table, name).inc(records)

    def progress(self, progress: SourceProgress, time_ms: int) -> None:
        """Spark has reported the source's state at this time."""
        self._looked.labels(self.table).set(time_ms / 1000)
        if progress.lag is not None:
            self._lag.labels(self.table).set(progress.lag)

    def _labelled(self, name: str, meaning: str, label: str) -> Counter:
        return Counter(PREFIX + name, meaning, ["table", label], registry=self.registry)

    def _counter(self, name: str, meaning: str) -> Counter:
        counter = Counter(PREFIX + name, meaning, ["table"], registry=self.registry)
        counter.labels(self.table)  # creates the sample with value 0
        return counter


@dataclass(frozen=True, slots=True)
class CompactionCollector(Collector):
    """Numbers about compactions, for a registry; collected in the thread of a scrape.

    Attributes:
        source: gives None while there are none.
    """

    table: str
    source: CompactionSource

    def collect(self) -> Iterator[Metric]:
        """Families with one sample each."""
        metrics = self.source()
        if metrics is not None:
            yield from compaction_families(self.table, metrics)


@dataclass(frozen=True, slots=True)
class MaintenanceCollector(Collector):
    """Numbers about expiry, for a registry; collected in the thread of a scrape."""

    table: str
    source: Callable[[], MaintenanceMetrics]

    def collect(self) -> Iterator[Metric]:
        """Families with one sample each."""
        done = self.source()
        counters = {
            "snapshots_expired": (done.snapshots_expired, "Snapshots that have expired."),
            "partitions_expired": (done.partitions_expired, "Partitions dropped for their age."),
            "expired_files": (done.files, "Files that expiry has deleted."),
            "expired_bytes": (done.bytes, "Bytes that expiry has deleted."),
            "expire_failed": (done.failures, "Expiries that ended with an error."),
            "expire_seconds": (done.seconds, "Time that expiry has taken."),
        }
        yield from _counters(self.table, counters)


def compaction_families(table: str, metrics: CompactionMetrics) -> Iterator[Metric]:
    """The compaction numbers under their Prometheus names."""
    gauges = {
        "buckets": (metrics.buckets, "Buckets that the job has touched."),
        "level0_files_max": (metrics.level0_files_max, "Most files of level 0 in a bucket."),
        "level0_files_avg": (metrics.level0_files_avg, "Files of level 0 in a bucket, the mean."),
        "sorted_runs_max": (metrics.sorted_runs_max, "Most sorted runs in a bucket."),
        "compactions_queued": (metrics.queued, "Compactions that wait for a thread."),
        "compactions_running": (metrics.running, "Compactions that are worked at."),
        "compaction_avg_seconds": (metrics.seconds_avg, "Mean duration of the last compactions."),
    }
    if metrics.write_amplification is not None:
        gauges["write_amplification_ratio"] = (
            metrics.write_amplification,
            "Bytes written by flushes and compactions for each flushed byte.",
        )
    counters = {
        "compactions_begun": (metrics.begun, "Compactions that were asked for."),
        "compactions_completed": (metrics.completed, "Compactions that were committed."),
        "compactions_failed": (metrics.failed, "Compactions that ended with an error."),
        "compactions_dropped": (metrics.dropped, "Compactions that another writer has overtaken."),
        "compaction_read_bytes": (metrics.bytes_in, "Bytes that compactions have read."),
        "compaction_written_bytes": (metrics.bytes_out, "Bytes that compactions have written."),
        "compaction_seconds": (metrics.seconds, "Time that compactions have worked."),
        "flushed_bytes": (metrics.flushed_bytes, "Bytes of data files of level 0 committed."),
        "back_pressure_seconds": (metrics.waited_s, "Time that epochs waited for compaction."),
    }
    for name, (value, meaning) in gauges.items():
        gauge = GaugeMetricFamily(PREFIX + name, meaning, labels=["table"])
        gauge.add_metric([table], value)
        yield gauge
    yield from _counters(table, counters)


def _counters(table: str, counters: Mapping[str, tuple[float, str]]) -> Iterator[Metric]:
    for name, (value, meaning) in counters.items():
        counter = CounterMetricFamily(PREFIX + name, meaning, labels=["table"])
        counter.add_metric([table], value)
        yield counter


@contextmanager
def serving(registry: CollectorRegistry, port: int | None) -> Iterator[None]:
    """Serve ``http://…:port/metrics`` on all interfaces within the block; None: do not.

    Raises:
        UsageError: the port is not available.
    """
    if port is None:
        yield
        return
    try:
        server, thread = start_http_server(port, registry=registry)
    except OSError as error:
        raise UsageError(
            f"the metrics port {port} cannot be opened: {error.strerror}",
            fix="end the program that has it (perhaps this job, still running), or choose another",
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def table_label(location: str) -> str:
    """``db.t`` for a table at ``…/db.db/t``."""
    *_, database, name = ["", *location.rstrip("/").split("/")]
    return f"{database.removesuffix('.db')}.{name}"
