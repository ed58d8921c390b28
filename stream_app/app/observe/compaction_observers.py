"""Starts the configured observers of ``stream-app compact``: metrics, notices, signs of life.

`compact_job` opens it, and reports its table and Spark once both run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from stream_app.app.config.secrets import Secrets
from stream_app.app.observe.channels.configured_listeners import configured_listeners
from stream_app.app.observe.channels.listener import Listeners
from stream_app.app.observe.channels.signs_of_life import SignsOfLife, signs_of_life
from stream_app.app.observe.metrics.collectors import (
    StoreCollector,
    TablesCollector,
    callback_samples,
    compaction_samples,
    expiry_samples,
)
from stream_app.app.observe.metrics.endpoint import serving_metrics
from stream_app.app.observe.metrics.jvm_metrics import JvmCollector
from stream_app.app.table_setup.compaction_settings import CompactionSettings
from stream_app.fileio.counted_file_io import RequestCounter
from stream_app.table.job.table_job import TableJob


@dataclass(frozen=True, slots=True)
class CompactionObservers:
    """The observers of a job that compacts a table.

    Attributes:
        registry: receives metrics of the compactions.
        signs: receive the current activity.
        listeners: receive the commits.
        store: the numbers of requests to the store.
        jvm: the numbers of Spark's JVM.
    """

    registry: CollectorRegistry
    signs: SignsOfLife
    listeners: Listeners
    store: StoreCollector
    jvm: JvmCollector

    @property
    def requests(self) -> RequestCounter:
        """The counter of requests for the job's table."""
        return self.store.requests

    def collect(self, table_job: TableJob, spark: SparkSession) -> None:
        """Begin to collect metrics of an open table, and of Spark."""
        label = table_job.table.label
        compactions, expiry = TablesCollector(compaction_samples), TablesCollector(expiry_samples)
        callbacks = TablesCollector(callback_samples)
        compactions.add(label, table_job.compaction_metrics)
        expiry.add(label, table_job.upkeep.metrics)
        callbacks.add(label, table_job.callback_problems)
        self.jvm.attach(spark)
        for collector in (compactions, expiry, callbacks, self.store, self.jvm):
            self.registry.register(collector)


@contextmanager
def compaction_observers(
    settings: CompactionSettings, secrets: Secrets
) -> Iterator[CompactionObservers]:
    """Within the block, run the observers of a job that compacts a table.

    Args:
        secrets: texts that no observer may show.

    Raises:
        UsageError: the port is taken, or a package is missing.
    """
    registry, clock, label = CollectorRegistry(), settings.table.clock, settings.table.label
    stream_config = settings.stream_config
    with (
        serving_metrics(registry, settings.metrics_port, None, stream_config.metrics_address),
        configured_listeners(
            stream_config,
            f"compact {label}",
            clock,
            hide=secrets.hide,
            ends_by_itself=not settings.follows,
        ) as listeners,
        signs_of_life(clock) as signs,
    ):
        yield CompactionObservers(
            registry, signs, listeners, StoreCollector(label), JvmCollector(label)
        )
