"""A job's numbers for Prometheus, and the HTTP endpoint that serves them.

`event_log` fills them. Each scrape reads the compaction numbers afresh, so that a waiting epoch
shows before it ends. Each job has a registry of its own: nothing is global.

Source: Prometheus, "Metric and label naming"; Paimon `operation/metrics/CompactionMetrics.java`.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
TABLE_LABELS_MAX = 200
"""Tables with numbers of their own: each is some dozens of time series."""
OTHER_TABLES = "(others)"
_EPOCH_SECONDS = (0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
"""Upper bounds of the histogram: from a few rows to an epoch that waits for compaction."""

CompactionSource = Callable[[], CompactionMetrics | None]


@dataclass(slots=True)
class JobMetrics:
    """The numbers of one job.

    Attributes:
        table: ``database.table``, the label of all numbers; of a job of many tables ``database``,
            for the numbers of the whole job.
        registry: what `serving` serves.
        compactions, maintenance: numbers that each scrape reads afresh.
    """

    table: str
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    compactions: CompactionCollector = field(init=False)
    maintenance: MaintenanceCollector = field(init=False)
    _labels: set[str] = field(init=False, default_factory=set)
    _held_tables: dict[str, set[str]] = field(init=False, default_factory=lambda: defaultdict(set))
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
    _held: Gauge = field(init=False)

    def __post_init__(self) -> None:
        self.compactions, self.maintenance = CompactionCollector(), MaintenanceCollector()
        self.registry.register(self.compactions)
        self.registry.register(self.maintenance)
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

        self._held = Gauge(
            PREFIX + "held_tables",
            "Tables held back by an error while the others go on.",
            ["table"],
            registry=self.registry,
        )

    def of_table(self, name: str) -> JobMetrics:
        """The numbers of one of many tables; the tables beyond the first have one label together.

        Args:
            name: of the table; the label has the database too.
        """
        of_one = copy.copy(self)
        label = f"{self.table}.{name}"
        if label not in self._labels and len(self._labels) >= TABLE_LABELS_MAX:
            label = f"{self.table}.{OTHER_TABLES}"
        self._labels.add(label)
        of_one.table = label
        return of_one

    def held(self, name: str, *, is_held: bool) -> None:
        """Whether a table is held back by an error; the tables of one label are counted."""
        label = self.of_table(name).table
        names = self._held_tables[label]
        (names.add if is_held else names.discard)(name)
        self._held.labels(label).set(len(names))

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


@dataclass(slots=True, eq=False)
class CompactionCollector(Collector):
    """Numbers about the compactions of all tables, collected in the thread of a scrape."""

    _sources: list[tuple[str, CompactionSource]] = field(default_factory=list)

    def add(self, table: str, source: CompactionSource) -> None:
        """Take in a table by its label; the source gives None while there are no numbers."""
        self._sources.append((table, source))

    def collect(self) -> Iterator[Metric]:
        """Families with a sample for each label."""
        found = [(table, source()) for table, source in list(self._sources)]
        yield from _families(
            (table, each)
            for table, metrics in found
            if metrics is not None
            for each in _compaction_numbers(metrics)
        )


@dataclass(slots=True, eq=False)
class MaintenanceCollector(Collector):
    """Numbers about the expiry of all tables, collected in the thread of a scrape."""

    _sources: list[tuple[str, Callable[[], MaintenanceMetrics]]] = field(default_factory=list)

    def add(self, table: str, source: Callable[[], MaintenanceMetrics]) -> None:
        """Take in a table by its label."""
        self._sources.append((table, source))

    def collect(self) -> Iterator[Metric]:
        """Families with a sample for each label."""
        yield from _families(
            (table, each)
            for table, source in list(self._sources)
            for each in _maintenance_numbers(source())
        )


@dataclass(frozen=True, slots=True)
class _Number:
    """A number of one table.

    Attributes:
        together: how the numbers of several tables become one.
    """

    name: str
    value: float
    meaning: str
    is_counter: bool = False
    together: Callable[[Iterable[float]], float] = sum


def _maintenance_numbers(done: MaintenanceMetrics) -> Iterator[_Number]:
    for name, value, meaning in (
        ("snapshots_expired", done.snapshots_expired, "Snapshots that have expired."),
        ("partitions_expired", done.partitions_expired, "Partitions dropped for their age."),
        ("expired_files", done.files, "Files that expiry has deleted."),
        ("expired_bytes", done.bytes, "Bytes that expiry has deleted."),
        ("expire_failed", done.failures, "Expiries that ended with an error."),
        ("expire_seconds", done.seconds, "Time that expiry has taken."),
    ):
        yield _Number(name, value, meaning, is_counter=True)


def _compaction_numbers(metrics: CompactionMetrics) -> Iterator[_Number]:
    """The compaction numbers under their Prometheus names."""
    for name, value, meaning, together in (
        ("buckets", metrics.buckets, "Buckets that the job has touched.", sum),
        ("level0_files_max", metrics.level0_files_max, "Most files of level 0 in a bucket.", max),
        ("level0_files_avg", metrics.level0_files_avg, "Files of level 0 in a bucket, the mean.",
         max),
        ("sorted_runs_max", metrics.sorted_runs_max, "Most sorted runs in a bucket.", max),
        ("compactions_queued", metrics.queued, "Compactions that wait for a thread.", sum),
        ("compactions_running", metrics.running, "Compactions that are worked at.", sum),
        ("compaction_avg_seconds", metrics.seconds_avg, "Mean duration of the last compactions.",
         max),
        ("write_amplification_ratio", metrics.write_amplification,
         "Bytes written by flushes and compactions for each flushed byte.", max),
    ):  # fmt: skip
        if value is not None:
            yield _Number(name, value, meaning, together=together)
    for name, value, meaning in (
        ("compactions_begun", metrics.begun, "Compactions that were asked for."),
        ("compactions_completed", metrics.completed, "Compactions that were committed."),
        ("compactions_failed", metrics.failed, "Compactions that ended with an error."),
        ("compactions_dropped", metrics.dropped, "Compactions that another writer has overtaken."),
        ("compaction_read_bytes", metrics.bytes_in, "Bytes that compactions have read."),
        ("compaction_written_bytes", metrics.bytes_out, "Bytes that compactions have written."),
        ("compaction_seconds", metrics.seconds, "Time that compactions have worked."),
        ("flushed_bytes", metrics.flushed_bytes, "Bytes of data files of level 0 committed."),
        ("back_pressure_seconds", metrics.waited_s, "Time that epochs waited for compaction."),
    ):
        yield _Number(name, value, meaning, is_counter=True)


def _families(numbers: Iterable[tuple[str, _Number]]) -> Iterator[Metric]:
    """One family for each name, one sample for each label."""
    by_name: dict[str, dict[str, list[_Number]]] = defaultdict(lambda: defaultdict(list))
    for table, number in numbers:
        by_name[number.name][table].append(number)
    for name, by_table in by_name.items():
        first = next(iter(by_table.values()))[0]
        family: Metric
        kind = CounterMetricFamily if first.is_counter else GaugeMetricFamily
        family = kind(PREFIX + name, first.meaning, labels=["table"])
        for table, found in by_table.items():
            family.add_metric([table], first.together(each.value for each in found))
        yield family


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
