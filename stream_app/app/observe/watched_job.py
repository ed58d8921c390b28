"""Joins the observers of a running job, as configured: numbers, health, notices.

The program of `ingest` opens it first. `ingest_job` tells the numbers when Spark begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.observe.events.event_log import EventLog
from stream_app.app.observe.metrics.endpoint import serving
from stream_app.app.observe.metrics.health import POLL_S, JobHealth
from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.app.observe.metrics.quarantine_watch import QuarantineWatch, watching
from stream_app.app.observe.monitoring.group_offsets import group_listeners
from stream_app.app.observe.monitoring.watchers import watchers
from stream_app.app.ops.quarantine.quarantine_folder import open_quarantine
from stream_app.clock import Clock
from stream_app.errors import UsageError
from stream_app.fileio.file_io_registry import is_local
from stream_app.fileio.local_file_io import local_path
from stream_app.local_disk import local_disk
from stream_app.message_formats import format_named


@dataclass(frozen=True, slots=True)
class WatchedJob:
    """The observers of a job.

    Attributes:
        events: gets the job's events and passes them on.
    """

    events: EventLog
    metrics: JobMetrics


@contextmanager
def watched_job(config: AppConfig, clock: Clock) -> Iterator[WatchedJob]:
    """Watch a job within the block.

    Raises:
        UsageError: the port is taken, or a package is missing.
    """
    stream, name = config.stream, config.tables.name
    metrics = JobMetrics(name, clock)
    metrics.disks.folders = _local_folders(config.tables.section.warehouse, stream)
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
                stream, name, clock,
                hide=config.secrets.hide, ends_by_itself=stream.is_available_now,
                others=stack.enter_context(group_listeners(config.source)),
            )
        )  # fmt: skip
        events = EventLog(
            clock, metrics=metrics, message_format=format_named(config.source.format),
            health=health, listeners=listeners,
        )  # fmt: skip
        if stream.metrics_port is not None:
            stack.enter_context(watching(_quarantine(config, clock, metrics)))
        yield WatchedJob(events, metrics)


def _local_folders(warehouse: str, stream: StreamConfig) -> dict[str, Path]:
    """The folders that the job writes on this machine; a cluster's tasks spill elsewhere."""
    locations = {
        "warehouse": warehouse,
        "checkpoint": stream.checkpoint,
        "temporary": str(local_disk()),
    }
    if stream.quarantine is not None:
        locations["quarantine"] = stream.quarantine
    return {
        name: Path(local_path(location)).absolute()
        for name, location in locations.items()
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
