"""Starts the configured observers of a running job: metrics, health, notices.

The program of `ingest` opens them before anything else. `ingest_job` reports when Spark begins and
ends.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.secrets import Secrets, hiding_stream
from stream_app.app.config.stream_config import ENVIRONMENT_ADDRESS, StreamConfig
from stream_app.app.launch.optional_packages import openlineage_module
from stream_app.app.observe.channels.configured_listeners import configured_listeners
from stream_app.app.observe.channels.group_offset_committer import group_listeners
from stream_app.app.observe.channels.listener import JobListener
from stream_app.app.observe.events.event_log import EventLog
from stream_app.app.observe.metrics.health import OFFSET_REPORT_S, JobHealth
from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.app.observe.metrics.proof_watch import ProofWatch
from stream_app.app.observe.metrics.quarantine_watch import QuarantineWatch
from stream_app.app.observe.metrics.repeated_checks import repeated_checks
from stream_app.clock import Clock
from stream_app.epochs.task_errors import readable_error
from stream_app.errors import SparkOnlyError
from stream_app.fileio.local.local_file_io import local_path
from stream_app.fileio.store_registry import is_local
from stream_app.message_format_registry import format_named
from stream_app.process.local_disk import local_disk
from stream_app.quarantine.quarantine_folder import open_quarantine


@dataclass(frozen=True, slots=True)
class JobObservers:
    """The observers of a job.

    Attributes:
        events: receives the job's events, and passes them on.
        events_file: the file that gets a JSON line for each epoch and commit, or None.
        secrets: texts that the file must not contain.
    """

    events: EventLog
    metrics: JobMetrics
    events_file: Path | None
    secrets: Secrets

    @contextmanager
    def writing_events(self) -> Iterator[None]:
        """Within the block, append the events to their file."""
        if self.events_file is None:
            yield
            return
        with (
            self.events_file.open("a", encoding="utf-8") as file,
            self.events.writing(hiding_stream(file, self.secrets)),
        ):
            yield


@contextmanager
def job_observers(
    job_tables: JobTables,
    stream_config: StreamConfig,
    secrets: Secrets,
    clock: Clock,
    events_file: Path | None = None,
) -> Iterator[JobObservers]:
    """Within the block, run the observers of a job.

    Args:
        secrets: texts that no observer may show.
        events_file: the file that gets a JSON line for each epoch and commit; None: no file.

    Raises:
        UsageError: the port is taken, or a package is missing.
    """
    name = job_tables.name
    metrics = JobMetrics(
        name,
        clock,
        look_interval_s=stream_config.pause_s + OFFSET_REPORT_S,
        folders=_local_folders(job_tables.section.warehouse, stream_config),
    )
    metrics.source.note_start(metrics.label)
    with ExitStack() as stack:
        health = JobHealth(
            clock,
            stream_config.max_staleness / 1000,
            metrics.source.state,
            pause_s=stream_config.pause_s,
            hide=secrets.hide,
        )
        if stream_config.metrics_port is not None:
            # A server's modules are a twentieth of what a driver imports.
            endpoint = importlib.import_module("stream_app.app.observe.metrics.endpoint")
            port, address = stream_config.metrics_port, stream_config.metrics_address
            stack.enter_context(endpoint.serving_metrics(metrics.registry, port, health, address))
        lineage_listeners = _lineage_listeners(job_tables, stream_config, secrets, clock)
        listeners = stack.enter_context(
            configured_listeners(
                stream_config, name, clock,
                hide=secrets.hide, ends_by_itself=stream_config.is_available_now,
                other_listeners=(
                    *stack.enter_context(group_listeners(job_tables.source)),
                    *stack.enter_context(lineage_listeners),
                ),
            )
        )  # fmt: skip
        proofs = ProofWatch(clock)
        events = EventLog(
            clock, metrics=metrics, message_format=format_named(job_tables.source.format),
            health=health, listeners=listeners, proofs=proofs,
        )  # fmt: skip
        if stream_config.metrics_port is not None:
            stack.enter_context(repeated_checks(proofs.check_tables, "proof-watch"))
            watch = _quarantine_watch(job_tables, stream_config, clock, metrics)
            if watch is not None:
                stack.enter_context(repeated_checks(watch.count_records, "quarantine-watch"))
        yield JobObservers(events, metrics, events_file, secrets)


@contextmanager
def _lineage_listeners(
    job_tables: JobTables, stream_config: StreamConfig, secrets: Secrets, clock: Clock
) -> Iterator[Sequence[JobListener]]:
    """Within the block, send the run's lineage if the configuration names a service.

    Raises:
        UsageError: a package is missing.
    """
    if stream_config.openlineage_url is None:
        yield ()
        return
    sender = openlineage_module().LineageSender(
        url=None
        if stream_config.openlineage_url == ENVIRONMENT_ADDRESS
        else stream_config.openlineage_url,
        namespace=stream_config.openlineage_namespace,
        is_batch=stream_config.is_available_now,
        job_tables=job_tables,
        clock=clock,
        hide=secrets.hide,
    )
    sender.begin()
    try:
        yield (sender,)
    except BaseException as error:
        sender.end(secrets.hide(str(readable_error(error))))
        raise
    sender.end(None)


def _local_folders(warehouse: str, stream_config: StreamConfig) -> dict[str, Path]:
    """Return the folders that the job writes on this machine. A cluster's tasks spill elsewhere."""
    locations = {
        "warehouse": warehouse,
        "checkpoint": stream_config.checkpoint,
        "temporary": str(local_disk()),
    }
    if stream_config.quarantine is not None:
        locations["quarantine"] = stream_config.quarantine
    return {
        name: Path(local_path(location)).absolute()
        for name, location in locations.items()
        if is_local(location)
    }


def _quarantine_watch(
    job_tables: JobTables, stream_config: StreamConfig, clock: Clock, metrics: JobMetrics
) -> QuarantineWatch | None:
    if stream_config.quarantine is None:
        return None
    try:
        quarantine = open_quarantine(stream_config.quarantine, job_tables.file_system)
    except SparkOnlyError:
        return None
    return QuarantineWatch(quarantine, clock, metrics.set_unresolved_records)
