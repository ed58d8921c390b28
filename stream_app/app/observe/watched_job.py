"""Everything that watches a running job, as its configuration says: numbers, health, notices.

`ingest_job` opens it first, tells it when Spark is there, and ends it before Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

from pyspark.sql import SparkSession

from stream_app.app.config.app_config import AppConfig
from stream_app.app.observe.events.event_log import EventLog
from stream_app.app.observe.metrics.endpoint import serving
from stream_app.app.observe.metrics.health import POLL_S, JobHealth
from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.app.observe.metrics.quarantine_watch import QuarantineWatch, watching
from stream_app.app.observe.monitoring.spark_numbers import SparkNumbers
from stream_app.app.observe.monitoring.watchers import watchers
from stream_app.app.ops.quarantine.kept_records import open_quarantine
from stream_app.clock import Clock
from stream_app.errors import UsageError
from stream_app.fileio.file_io_registry import is_local
from stream_app.fileio.local_file_io import local_path
from stream_app.message_formats import format_named
from stream_app.table.file_store_table import table_label

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class WatchedJob:
    """What watches a job.

    Attributes:
        log: gets the job's events and passes them on.
        for_spark: whether Spark's own metrics shall have the job's.
    """

    log: EventLog
    metrics: JobMetrics
    for_spark: bool
    _numbers: SparkNumbers | None = field(default=None)

    def begin(self, spark: SparkSession) -> None:
        """Spark's session is there."""
        self.metrics.jvm.attach(spark)
        if self.for_spark:
            numbers = SparkNumbers(spark, self.metrics.registry)
            try:
                numbers.begin()
            except Exception:  # what only watches must not end the job
                _LOG.warning("Spark does not take the job's numbers", exc_info=True)
            else:
                self._numbers = numbers

    def end(self) -> None:
        """Spark is about to end."""
        if self._numbers is not None:
            self._numbers.end()
        self.metrics.jvm.detach()


@contextmanager
def watched_job(config: AppConfig, clock: Clock) -> Iterator[WatchedJob]:
    """Watch a job within the block.

    Raises:
        UsageError: the port is taken, or a package is missing.
    """
    is_one, stream = config.sync is None, config.stream
    name = table_label(config.table.path) if is_one else config.name
    metrics = JobMetrics(name, clock)
    metrics.disks.folders = _local_folders(config)
    metrics.source.look_s = stream.trigger_ms / 1000 + POLL_S
    metrics.source.began(name)
    with ExitStack() as stack:
        health = JobHealth(
            clock,
            stream.max_staleness / 1000,
            metrics.source.state,
            trigger_s=stream.trigger_ms / 1000,
            hide=config.secrets.hide,
        )
        stack.enter_context(
            serving(metrics.registry, stream.metrics_port, health, stream.metrics_address)
        )
        listeners = stack.enter_context(
            watchers(
                stream, name, metrics.registry, clock,
                hide=config.secrets.hide, ends_by_itself=stream.is_available_now,
            )
        )  # fmt: skip
        log = EventLog(
            clock, metrics=metrics, message_format=format_named(config.source.format),
            health=health, listeners=listeners,
        )  # fmt: skip
        if stream.metrics_port is not None or stream.otlp_endpoint is not None:
            stack.enter_context(watching(_quarantine(config, clock, metrics)))
        yield WatchedJob(log, metrics, stream.spark_metrics)


def _local_folders(config: AppConfig) -> dict[str, Path]:
    """What the job writes on disks of this machine; what tasks of a cluster spill is elsewhere."""
    sync, stream = config.sync, config.stream
    warehouse = config.table.warehouse if sync is None else sync.warehouse
    found = {"warehouse": warehouse, "checkpoint": stream.checkpoint, "temporary": gettempdir()}
    if stream.quarantine is not None:
        found["quarantine"] = stream.quarantine
    return {
        name: Path(local_path(location)).absolute()
        for name, location in found.items()
        if is_local(location)
    }


def _quarantine(config: AppConfig, clock: Clock, metrics: JobMetrics) -> QuarantineWatch | None:
    location = config.stream.quarantine
    if location is None:
        return None
    try:
        quarantine = open_quarantine(location, config.file_system)
    except UsageError:
        return None  # only Spark reaches it
    return QuarantineWatch(quarantine, clock, metrics.quarantined)
