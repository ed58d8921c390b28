"""Keeps a job's metrics for Prometheus.

`event_log` updates them. Each scrape reads the metrics of compactions afresh, so that it shows an
epoch that waits. Each job has a registry of its own: nothing is global.

Source: Prometheus, "Metric and label naming"; Paimon `operation/metrics/CompactionMetrics.java`.
"""

from __future__ import annotations

import copy
import platform
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from stream_app import __version__
from stream_app.app.inspect.table_facts import newest_source_time_ms
from stream_app.app.load.load_progress import LoadProgress
from stream_app.app.observe.metrics.collectors import (
    APP_PREFIX,
    DiskCollector,
    LoadCollector,
    StoreCollector,
    TablesCollector,
    callback_samples,
    compaction_samples,
    expiry_samples,
)
from stream_app.app.observe.metrics.health import OFFSET_REPORT_S
from stream_app.app.observe.metrics.jvm_metrics import JvmCollector
from stream_app.app.observe.metrics.source_metrics import SourceMetrics
from stream_app.cdc.bad_reasons import REASON_KINDS
from stream_app.cdc.column_drift import DriftKind
from stream_app.checkpoint.held_table import HeldTable
from stream_app.clock import Clock, SystemClock
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.format.snapshot_properties.proof_json import proof_of
from stream_app.model.row_kind import RowKind
from stream_app.model.snapshot import Snapshot
from stream_app.quarantine.quarantine_writer import QuarantineReport
from stream_app.table.compact.compaction_report import CompactionReport

TABLE_LABELS_MAX = 200
"""The maximum number of tables with a label of their own; each adds dozens of time series."""
OTHER_TABLES = "(others)"
_COUNTERS = (
    ("epochs", "Epochs that were committed."),
    ("driver_epochs", "Those of them that the driver itself ran, without tasks of Spark."),
    ("messages", "Messages that were read."),
    ("changes", "Changes that were written."),
    ("skipped_messages", "Messages that mean no row."),
    ("bad_records", "Records that could not be stored."),
    ("decoder_errors", "Bad records at which the decoder failed: a bug, to be reported."),
)
"""Counters of an epoch without further labels."""
_SECONDS = (0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
"""Upper bounds of the histogram's buckets, from small epochs to those that wait for compactions."""


class JobMetrics:
    """The metrics of one job.

    Attributes:
        label: the label of all metrics: ``database.table``, or ``database`` for a job of many
            tables.
        name: the name of one of many tables, which may share their label; empty for the job itself.
        registry: the registry that `serving_metrics` serves.
        compactions, maintenance, callbacks, store, jvm, disks, loads: numbers, read at each scrape.
        source: the distance of the tables behind their source.
    """

    def __init__(
        self,
        label: str,
        clock: Clock | None = None,
        *,
        look_interval_s: float = OFFSET_REPORT_S,
        folders: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        """Start all numbers at 0.

        Args:
            look_interval_s: the maximum time between two checks of the source, outside of epochs.
            folders: purpose → folder, whose disk's free space `DiskCollector` reads.
        """
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.label, self.name = label, ""
        self.registry = CollectorRegistry()
        self.compactions = TablesCollector(compaction_samples)
        self.maintenance = TablesCollector(expiry_samples)
        self.callbacks = TablesCollector(callback_samples)
        self.source = SourceMetrics(self._gauge, clock or SystemClock(), look_interval_s)
        self.store, self.jvm = StoreCollector(self.label), JvmCollector(self.label)
        self.disks, self.loads = DiskCollector(self.label, folders), LoadCollector()
        table_collectors = (self.compactions, self.maintenance, self.callbacks)
        for collector in (*table_collectors, self.store, self.jvm, self.disks, self.loads):
            self.registry.register(collector)
        ProcessCollector(registry=self.registry)
        _export_versions(self.registry)
        self._labels: set[str] = set()
        self._newest_run: list[tuple[int, int]] = []  # one list, for the copies of `of_table` too
        self._held_tables: dict[str, set[str]] = defaultdict(set)
        self._make_counters()
        self._seconds = self._histogram(
            "epoch_seconds",
            "Duration of an epoch, by part: wait, read, decode, route, write, commit.",
            "part",
        )
        self._compaction_seconds = self._histogram(
            "compaction_duration_seconds", "Duration of a compaction that was committed."
        )
        self._committed = self._gauge(
            "last_commit_timestamp_seconds", "When the latest snapshot was committed."
        )
        self._proven = self._gauge(
            "proven_timestamp_seconds", "When a comparison found the table equal to its source."
        )
        self._records = self._gauge("table_records", "Records in the files of the latest snapshot.")
        self._held = self._gauge(
            "held_tables", "Tables held back by an error while the others continue."
        )
        self._quarantine = self._gauge(
            "quarantine_records", "Records in quarantine with which nothing was done yet."
        )

    def _make_counters(self) -> None:
        self._counters = {name: self._counter(name, meaning) for name, meaning in _COUNTERS}
        self._operations = self._table_counter("records", "Changes that were written.", "operation")
        for kind in RowKind:
            self._operations.labels(self.label, kind.short)
        self._task_seconds = self._table_counter(
            "task_seconds", "Time of tasks for messages, by part: read, decode.", "part"
        )
        self._reasons = self._table_counter(
            "bad_records_by_reason",
            "Records that could not be stored, by kind of reason.",
            "reason",
        )
        for reason in REASON_KINDS:
            self._reasons.labels(self.label, reason)
        self._violations = self._table_counter(
            "expectation_violations",
            "Records that break an expectation.",
            "expectation",
            "action",
        )
        self._columns = {
            kind: self._table_counter(f"{kind.value}_column_records", meaning, "column")
            for kind, meaning in (
                (DriftKind.UNKNOWN, "Records with a column that the table does not have."),
                (DriftKind.MISSING, "Records without a column of the table."),
                (DriftKind.CUT, "Records with a time whose last digits a column cuts off."),
            )
        }
        self._snapshots = self._table_counter("snapshots", "Snapshots that were committed.", "kind")

    def of_table(self, name: str) -> JobMetrics:
        """Return the metrics of one of many tables. Tables beyond the limit share a label.

        Args:
            name: the table's name, without its database.
        """
        table_metrics = copy.copy(self)
        label = f"{self.label}.{name}"
        if label not in self._labels and len(self._labels) >= TABLE_LABELS_MAX:
            label = f"{self.label}.{OTHER_TABLES}"
        self._labels.add(label)
        table_metrics.label, table_metrics.name = label, name
        return table_metrics

    def read_load_from(self, read_progress: Callable[[], LoadProgress]) -> None:
        """Read the progress of a first load from this function at each scrape."""
        self.loads.read_from(
            lambda: [
                (self.label if name == self.label else self.of_table(name).label, ranges)
                for name, ranges in read_progress().of_tables.items()
            ]
        )

    def note_held_table(self, name: str, held_table: HeldTable | None) -> None:
        """Record a held table, and count the tables of its label that an error holds back."""
        label = self.of_table(name).label
        names = self._held_tables[label]
        is_held = held_table is not None and held_table.has_failed
        (names.add if is_held else names.discard)(name)
        self._held.labels(label).set(len(names))
        self.source.note_held_table(label, name, held_table)

    def note_open_table(self, snapshots: Sequence[Snapshot], topics: Collection[str]) -> None:
        """Record that the table is opened, before its first epoch of this run.

        Args:
            snapshots: the table's latest snapshots, newest first.
            topics: the topics from which the table has messages.
        """
        self.source.note_open_table(self.label, self.name, newest_source_time_ms(snapshots), topics)
        if snapshots:
            self._set_latest_snapshot(snapshots[0])

    def count_unassigned_messages(self, quarantine_report: QuarantineReport) -> None:
        """Count quarantined messages that belong to no table."""
        record_count = sum(quarantine_report.reasons.values())
        self._counters["bad_records"].labels(self.label).inc(record_count)
        self._count_reasons(quarantine_report)

    def set_unresolved_records(self, counts: Mapping[str, int]) -> None:
        """Set the number of unresolved records in the quarantine.

        Args:
            counts: table → its unresolved records; '' has those of the job's only table, or of no
                table.
        """
        totals: dict[str, int] = defaultdict(int)
        for name, count in counts.items():
            totals[self.of_table(name).label if name else self.label] += count
        for label, count in totals.items():
            self._quarantine.labels(label).set(count)

    def count_epoch(self, report: EpochReport) -> None:
        """Count a committed epoch."""
        if report.is_skipped:
            return
        counts = report.counts
        for name, count in (
            ("epochs", 1),
            ("driver_epochs", int(report.ran_in_driver)),
            ("messages", counts.message_count),
            ("changes", counts.change_count),
            ("skipped_messages", counts.skipped_count),
            ("bad_records", counts.bad_record_count),
            ("decoder_errors", counts.decoder_error_count),
        ):
            self._counters[name].labels(self.label).inc(count)
        for kind in RowKind:
            # A refused row may have got another kind from `rowkind.field` than it was counted as.
            self._operations.labels(self.label, kind.short).inc(max(0, counts.kind_counts[kind]))
        for part, seconds in (("read", counts.read_s), ("decode", counts.decode_s)):
            self._task_seconds.labels(self.label, part).inc(seconds)
        for violation, sighting in counts.violations.items():
            self._violations.labels(self.label, *violation).inc(sighting.record_count)
        if report.quarantine_report:
            self._count_reasons(report.quarantine_report)
        self._add_part_seconds(report)
        self.source.note_commit(self.label, self.name, counts.ends)
        self.count_commits(report.snapshots, report.compactions)

    def _count_reasons(self, quarantine_report: QuarantineReport) -> None:
        for reason, count in quarantine_report.reasons.items():
            self._reasons.labels(self.label, reason).inc(count)

    def _add_part_seconds(self, report: EpochReport) -> None:
        """Add an epoch's seconds before the commit once for all tables, to the job's metrics."""
        durations, epoch_run = dict(report.durations.by_name), (report.epoch, report.start_ms)
        self._seconds.labels(self.label, "commit").observe(durations.pop("commit"))
        if self._newest_run != [epoch_run]:
            self._newest_run[:] = [epoch_run]
            for part, seconds in durations.items():
                self._seconds.labels(self.store.label, part).observe(seconds)

    def count_commits(
        self, snapshots: Sequence[Snapshot], compactions: Sequence[CompactionReport]
    ) -> None:
        """Count published snapshots and their compactions."""
        for snapshot in snapshots:
            self._snapshots.labels(self.label, snapshot.commit_kind.value).inc()
            self._set_latest_snapshot(snapshot)
        for compaction in compactions:
            self._compaction_seconds.labels(self.label).observe(compaction.seconds)

    def _set_latest_snapshot(self, snapshot: Snapshot) -> None:
        self._committed.labels(self.label).set(snapshot.time_ms / 1000)
        self.note_proof(snapshot)
        if snapshot.total_record_count is not None:
            self._records.labels(self.label).set(snapshot.total_record_count)

    def note_proof(self, latest_snapshot: Snapshot | None) -> None:
        """Record the time of the latest snapshot's proof, if the snapshot has one."""
        if (proof := proof_of(latest_snapshot)) is not None:
            self._proven.labels(self.label).set(proof.time_ms / 1000)

    def note_decoder(self, decoder: str) -> None:
        """Record the decoder of the job's messages; it is empty if the format has only one."""
        if decoder:
            meaning = "1, with the decoder of the job's messages."
            self._gauge("decoder_info", meaning, "decoder").labels(self.label, decoder).set(1)

    def count_drift(self, drift_kind: DriftKind, name: str, record_count: int) -> None:
        """Count records with a kind of column drift. The column names must be few."""
        self._columns[drift_kind].labels(self.label, name).inc(record_count)

    def note_progress(self, progress: SourceProgress, time_ms: int) -> None:
        """Record the state of the source that the stream reports at this time."""
        self.source.note_progress(self.label, progress, time_ms)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(APP_PREFIX + name, meaning, ["table", *labels], registry=self.registry)

    def _histogram(self, name: str, meaning: str, *labels: str) -> Histogram:
        return Histogram(
            APP_PREFIX + name, meaning, ["table", *labels], buckets=_SECONDS, registry=self.registry
        )

    def _table_counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(APP_PREFIX + name, meaning, ["table", *labels], registry=self.registry)

    def _counter(self, name: str, meaning: str) -> Counter:
        counter = Counter(APP_PREFIX + name, meaning, ["table"], registry=self.registry)
        counter.labels(self.label)  # creates the sample with value 0
        return counter


def _export_versions(registry: CollectorRegistry) -> None:
    names = ["version", "python"]
    build = Gauge(APP_PREFIX + "build_info", "1, with the versions.", names, registry=registry)
    build.labels(__version__, platform.python_version()).set(1)
