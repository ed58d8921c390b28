"""Collects metrics from a running job at each scrape, for the registry of `job_metrics`.

Source: Paimon `operation/metrics/CompactionMetrics.java`.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stream_app.app.load.load_progress import LoadedRanges
from stream_app.fileio.counted_file_io import ERRORS, REQUEST_KINDS, RequestCounter
from stream_app.filestore.local_copies.lookup_copies import (
    COPIED_BYTES,
    EVENTS,
    copies_size,
    local_copies_folder,
)
from stream_app.table.commit.commit_callbacks import CallbackProblem
from stream_app.table.compact.compaction_metrics import CompactionMetrics
from stream_app.table.job.table_maintenance import MaintenanceMetrics

APP_PREFIX = "stream_app_"
"""The prefix of each metric's name."""
_Metrics = TypeVar("_Metrics")
CALLBACK_PROBLEMS = (
    "What lags behind the latest snapshot: Iceberg's metadata, the catalog's list of partitions."
)


class TablesCollector(Collector, Generic[_Metrics]):
    """A collector of the metrics of all tables, in the thread of a scrape."""

    def __init__(self, samples_of: Callable[[_Metrics], Iterable[_MetricSample]]) -> None:
        self._samples_of = samples_of
        self._readers: list[tuple[str, Callable[[], _Metrics | None]]] = []

    def add(self, label: str, read_metrics: Callable[[], _Metrics | None]) -> None:
        """Add a table by its label. `read_metrics` returns None as long as there are no metrics."""
        self._readers.append((label, read_metrics))

    def collect(self) -> Iterator[Metric]:
        """Yield metric families with a sample for each label."""
        table_metrics = [(label, read_metrics()) for label, read_metrics in list(self._readers)]
        yield from _families(
            (label, sample)
            for label, metrics in table_metrics
            if metrics is not None
            for sample in self._samples_of(metrics)
        )


@dataclass(slots=True, eq=False)
class StoreCollector(Collector):
    """A collector of requests to the store, and of local copies of its files, for a whole job.

    Attributes:
        label: the label of the job.
        requests: counts the requests, and the events of local copies.
        copies: the folder of local copies.
    """

    label: str
    requests: RequestCounter = field(default_factory=RequestCounter)
    copies: Path = field(default_factory=local_copies_folder)

    def collect(self) -> Iterator[Metric]:
        """Yield a sample for each kind, also for kinds with a count of 0."""
        total = self.requests.total()
        for name, ending, meaning in (
            ("store_requests", "", "Requests to the store of the tables."),
            ("store_errors", ERRORS, "Requests to that store that ended with an error."),
        ):
            family = CounterMetricFamily(APP_PREFIX + name, meaning, labels=["table", "kind"])
            for kind in REQUEST_KINDS:
                family.add_metric([self.label, kind], total.get(kind + ending, 0))
            yield family
        yield from self._copy_families(total)

    def _copy_families(self, total: Mapping[str, int]) -> Iterator[Metric]:
        name = APP_PREFIX + "lookup_copies"
        family = CounterMetricFamily(
            name, "Lookups by local copies of files, by event.", labels=["table", "event"]
        )
        for event in EVENTS:
            label = event.removeprefix("lookup_")
            family.add_metric([self.label, label], total.get(event, 0))
        yield family
        samples = (
            _MetricSample("lookup_copied_bytes", total.get(COPIED_BYTES, 0),
                    "Bytes of the local copies that were made.", is_counter=True),
            _MetricSample("lookup_disk_bytes", copies_size(self.copies),
                    "Bytes of the local copies on the driver's machine."),
        )  # fmt: skip
        yield from _families((self.label, sample) for sample in samples)


class LoadCollector(Collector):
    """A collector of the key ranges of a first load, read at each scrape; empty without a load."""

    def __init__(self) -> None:
        self._read_ranges: Callable[[], Iterable[tuple[str, LoadedRanges]]] = tuple

    def read_from(self, read_ranges: Callable[[], Iterable[tuple[str, LoadedRanges]]]) -> None:
        """Read the tables' ranges, by their labels, from this function at each scrape."""
        self._read_ranges = read_ranges

    def collect(self) -> Iterator[Metric]:
        """Yield a sample for each label."""
        loaded_name, total_name = "load_ranges_done", "load_ranges"
        yield from _families(
            (label, sample)
            for label, ranges in self._read_ranges()
            for sample in (
                _MetricSample(
                    total_name, ranges.total_count, "Key ranges of the table's first load."
                ),
                _MetricSample(
                    loaded_name, ranges.loaded_count, "Those of them that are in the table."
                ),
            )
        )


@dataclass(slots=True, eq=False)
class DiskCollector(Collector):
    """A collector of the free space of the disks to which a job on this machine writes.

    Attributes:
        label: the label of the job.
        folders: purpose → folder; for a missing folder its nearest existing parent counts.
    """

    label: str
    folders: Mapping[str, Path] = field(default_factory=dict)

    def collect(self) -> Iterator[Metric]:
        """Yield a sample for each folder."""
        free_family = self._family("disk_free_bytes", "Free space of the disk of a folder.")
        size = self._family("disk_size_bytes", "Size of that disk.")
        for name, folder in self.folders.items():
            try:
                existing_folder = next(
                    (path for path in (folder, *folder.parents) if path.exists()), None
                )
                usage = None if existing_folder is None else shutil.disk_usage(existing_folder)
            except OSError:
                continue  # a hanging mount must not hide the other metrics
            if usage is not None:
                free_family.add_metric([self.label, name], usage.free)
                size.add_metric([self.label, name], usage.total)
        yield from (free_family, size)

    def _family(self, name: str, meaning: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(APP_PREFIX + name, meaning, labels=["table", "folder"])


@dataclass(frozen=True, slots=True)
class _MetricSample:
    """The value of a metric for one table.

    Attributes:
        combine: combines the values of several tables that share a label.
    """

    name: str
    value: float
    meaning: str
    is_counter: bool = False
    combine: Callable[[Iterable[float]], float] = sum


def callback_samples(problems: Sequence[CallbackProblem]) -> Iterator[_MetricSample]:
    """Yield the lag of views behind the latest snapshot, under its Prometheus names."""
    yield _MetricSample("callback_problems", len(problems), CALLBACK_PROBLEMS)


def expiry_samples(maintenance: MaintenanceMetrics) -> Iterator[_MetricSample]:
    """Yield the samples of expiry under their Prometheus names."""
    for name, value, meaning in (
        ("snapshots_expired", maintenance.snapshots_expired, "Snapshots that have expired."),
        ("partitions_expired", maintenance.partitions_expired, "Partitions dropped for their age."),
        ("expired_files", maintenance.file_count, "Files that expiry has deleted."),
        ("expired_bytes", maintenance.byte_count, "Bytes that expiry has deleted."),
        ("expire_failed", maintenance.failures, "Expiries that ended with an error."),
        ("expire_seconds", maintenance.run_s, "Time that expiry has taken."),
    ):
        yield _MetricSample(name, value, meaning, is_counter=True)


def compaction_samples(metrics: CompactionMetrics) -> Iterator[_MetricSample]:
    """Yield the samples of compactions under their Prometheus names."""
    for name, value, meaning, combine in (
        ("buckets", metrics.buckets, "Buckets that the job has touched.", sum),
        ("level0_files_max", metrics.level0_files_max, "Most files of level 0 in a bucket.", max),
        ("level0_files", metrics.level0_files, "Files of level 0 of those buckets.", sum),
        ("sorted_runs_max", metrics.sorted_runs_max, "Most sorted runs in a bucket.", max),
        ("sorted_runs", metrics.sorted_runs, "Sorted runs of those buckets.", sum),
        ("waiting_rows", metrics.waiting_rows,
         "Rows of those buckets that wait for a compaction before any reader gets them.", sum),
        ("table_files", metrics.file_count, "Data files of the latest snapshot.", sum),
        ("table_bytes", metrics.byte_count, "Bytes of those data files.", sum),
        ("compaction_queue_age_seconds", metrics.oldest_queued_age_s,
         "Age of the oldest compaction that waits for a thread; 0: none.", max),
        ("compaction_running_age_seconds", metrics.oldest_running_age_s,
         "Age of the oldest compaction that is worked at; 0: none.", max),
        ("compactions_queued", metrics.queued_count, "Compactions that wait for a thread.", sum),
        ("compactions_running", metrics.running_count, "Compactions that are worked at.", sum),
        ("write_amplification_ratio", metrics.write_amplification,
         "Bytes written by flushes and compactions for each flushed byte.", max),
    ):  # fmt: skip
        if value is not None:
            yield _MetricSample(name, value, meaning, combine=combine)
    for name, value, meaning in (
        ("compaction_seconds", metrics.run_s, "Time that compactions have worked."),
        ("compactions_begun", metrics.begun_count, "Compactions that were asked for."),
        ("compactions_completed", metrics.completed_count, "Compactions that were committed."),
        ("compactions_failed", metrics.failed_count, "Compactions that ended with an error."),
        (
            "compactions_dropped",
            metrics.dropped_count,
            "Compactions that another writer has overtaken.",
        ),
        ("compaction_read_bytes", metrics.bytes_in, "Bytes that compactions have read."),
        ("compaction_written_bytes", metrics.bytes_out, "Bytes that compactions have written."),
        ("flushed_bytes", metrics.flushed_byte_count, "Bytes of data files of level 0 committed."),
        ("back_pressure_seconds", metrics.waited_s, "Time that epochs waited for compaction."),
    ):
        yield _MetricSample(name, value, meaning, is_counter=True)


def _families(labelled_samples: Iterable[tuple[str, _MetricSample]]) -> Iterator[Metric]:
    """Yield one family for each name, with one sample for each label."""
    samples_by_name: dict[str, dict[str, list[_MetricSample]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for label, sample in labelled_samples:
        samples_by_name[sample.name][label].append(sample)
    for name, by_label in samples_by_name.items():
        first_sample = next(iter(by_label.values()))[0]
        family: Metric
        family_type = CounterMetricFamily if first_sample.is_counter else GaugeMetricFamily
        family = family_type(APP_PREFIX + name, first_sample.meaning, labels=["table"])
        for label, samples in by_label.items():
            family.add_metric([label], first_sample.combine(sample.value for sample in samples))
        yield family
