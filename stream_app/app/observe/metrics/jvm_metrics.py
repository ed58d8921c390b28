"""Collects metrics of Spark's JVM on the driver, and of its executors, at each scrape.

Source: Java `java.lang.management.ManagementFactory`; Spark `SparkStatusTracker.scala`; Linux,
proc(5).
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from stream_app.app.observe.metrics.collectors import APP_PREFIX
from stream_app.spark.driver.jvm_access import java_context, jvm


@dataclass(slots=True, eq=False)
class JvmCollector(Collector):
    """A collector of the JVM's metrics, which exist only between `attach` and `detach`.

    Attributes:
        label: the label of the job.
    """

    label: str
    _spark: SparkSession | None = field(init=False, default=None)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def attach(self, spark: SparkSession) -> None:
        """Begin to collect from a running session's JVM."""
        with self._lock:
            self._spark = spark

    def detach(self) -> None:
        """Stop collecting before Spark ends; waits for a running scrape."""
        with self._lock:
            self._spark = None

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families, or nothing without a JVM."""
        with self._lock:
            try:
                families = [] if self._spark is None else list(self._families(self._spark))
            except (Py4JError, OSError):
                families = []  # the JVM is gone, or is about to go
        yield from families

    def _families(self, spark: SparkSession) -> Iterator[Metric]:
        """Yield the metrics of the driver's JVM and of the executors at this moment."""
        java, context = jvm(spark).java, java_context(spark).sc()
        beans = java.lang.management.ManagementFactory
        heap = beans.getMemoryMXBean().getHeapMemoryUsage()
        yield self._gauge("jvm_heap_used_bytes", "Heap of the driver in use.", heap.getUsed())
        yield self._gauge("jvm_heap_max_bytes", "Most that it may become.", heap.getMax())
        resident = _resident_size(int(java.lang.ProcessHandle.current().pid()))
        if resident is not None:
            yield self._gauge(
                "jvm_resident_memory_bytes",
                "Memory of the driver's JVM in all, as the system counts it.",
                resident,
            )
        threads = beans.getThreadMXBean().getThreadCount()
        yield self._gauge("jvm_threads", "Threads of the driver's JVM.", threads)
        seconds = self._counter("jvm_gc_seconds", "Time of garbage collections.", "collector")
        collections = self._counter("jvm_gc_collections", "Garbage collections.", "collector")
        for bean in beans.getGarbageCollectorMXBeans():
            labels = [self.label, bean.getName()]
            seconds.add_metric(labels, bean.getCollectionTime() / 1000)
            collections.add_metric(labels, bean.getCollectionCount())
        yield from (seconds, collections)
        infos = list(context.statusTracker().getExecutorInfos())
        is_local = context.isLocal()
        yield self._gauge(
            "executors", "Executors of Spark; on one machine the driver is the only one.",
            max(1, len(infos)) if is_local else len(infos) - 1,
        )  # fmt: skip
        running_task_count = sum(info.numRunningTasks() for info in infos)
        yield self._gauge(
            "tasks_running", "Tasks that executors are working at.", running_task_count
        )

    def _gauge(self, name: str, meaning: str, value: float) -> Metric:
        family = GaugeMetricFamily(APP_PREFIX + name, meaning, labels=["table"])
        family.add_metric([self.label], value)
        return family

    def _counter(self, name: str, meaning: str, label: str) -> CounterMetricFamily:
        return CounterMetricFamily(APP_PREFIX + name, meaning, labels=["table", label])


def _resident_size(process_id: int) -> int | None:
    """Return a process's resident memory in bytes, or None on a system without /proc."""
    try:
        pages = Path(f"/proc/{process_id}/statm").read_text().split()[1]
    except OSError:
        return None
    return int(pages) * resource.getpagesize()
