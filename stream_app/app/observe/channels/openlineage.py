"""Reports to a lineage service what a job reads and writes, with OpenLineage's own client.

A run of the job is a run of OpenLineage. Its events say START, RUNNING, and COMPLETE or FAIL.
Each has the topics with their offsets, and the tables with what the run has written so far. So a
lost event does no harm. The packages are the extra `openlineage`, and
`app.launch.optional_packages` imports this module.

A separate thread sends one event at a time. Meanwhile no RUNNING event is created.

Source: OpenLineage's specification 1-2-0 and its naming of datasets.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

import attr
from openlineage.client import OpenLineageClient, set_producer
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    RunFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    documentation_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
    storage_dataset,
)
from openlineage.client.uuid import generate_new_uuid

from stream_app import __version__
from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.observe.channels.listener import JobListener
from stream_app.cdc.computed.column_definition import parse_definition
from stream_app.cdc.computed.column_functions import function_of
from stream_app.checkpoint.job_state import JobWarning
from stream_app.clock import Clock
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.errors import UsageError
from stream_app.model.job_epoch import Offsets
from stream_app.model.options.file_options import FILE_FORMAT
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.topic_name import cluster_and_name
from stream_app.table.job.table_job import TableJob

PAUSE_S = 60.0
"""The minimum time between two RUNNING events."""
LAST_WAIT_S = 15.0
"""How long an ending job waits for its last event."""
_PRODUCER = f"urn:stream_app:{__version__}"
_DIRECT = "DIRECT"


@attr.define
class KafkaOffsetsFacet(DatasetFacet):
    """The offsets at which the job continues, by the number of the topic's partition."""

    offsets: dict[str, int] = attr.field(factory=dict)


@dataclass(slots=True)
class WrittenChanges:
    """The changes and files that a run has written into a table so far.

    Attributes:
        topics: the topics whose records the table got.
        snapshot_id: the snapshot of its newest commit, or None without a commit in this run.
    """

    table_job: TableJob
    topics: set[str] = field(default_factory=set)
    change_count: int = 0
    file_count: int = 0
    byte_count: int = 0
    snapshot_id: int | None = None

    def add(self, report: EpochReport) -> None:
        """Add one epoch."""
        self.topics.update(topic for topic, _ in report.counts.ends)
        self.change_count += report.counts.change_count
        self.file_count += report.file_count
        self.byte_count += report.byte_count
        if report.snapshots:
            self.snapshot_id = report.snapshots[-1].snapshot_id


class _EventSender:
    """A sender of events, one after the other in a separate thread.

    Attributes:
        problem: why the last event was not sent, or None if it was.

    Raises:
        UsageError: on construction; the client refuses its settings.
    """

    def __init__(self, url: str | None) -> None:
        transport = {} if url is None else {"transport": {"type": "http", "url": url}}
        # Its default is the repository of the folder in which the job was started.
        no_repository = {"facets": {"source_code_location": {"disabled": True}}}
        try:
            self._client = OpenLineageClient(config={**transport, **no_repository})
        except Exception as error:  # its transports raise errors of many kinds
            raise UsageError(
                f"OpenLineage's client cannot be made: {error}",
                where="stream.openlineage-url",
                fix="name the address of a service, or correct the client's variables and file",
            ) from error
        self.problem: str | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="openlineage")
        self._sending: Future[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether an event is being sent."""
        return self._sending is not None and not self._sending.done()

    def submit(self, event: RunEvent) -> Future[None]:
        """Send an event after those that were submitted before."""
        self._sending = self._thread.submit(self._send, event)
        return self._sending

    def close(self, last_event: RunEvent) -> None:
        """Send the last event, and wait for it for a while."""
        try:
            self.submit(last_event).result(LAST_WAIT_S)
            self._client.close(LAST_WAIT_S)
        except Exception as error:
            self.problem = str(error) or type(error).__name__
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _send(self, event: RunEvent) -> None:
        try:
            self._client.emit(event)
            self.problem = None
        except Exception as error:  # its transports raise errors of many kinds
            self.problem = str(error) or type(error).__name__


@dataclass(slots=True, kw_only=True)
class LineageSender(JobListener):
    """A sender of one run's lineage, which it creates from the job's events.

    The committer's thread calls `on_epoch`, and the stream's thread calls `on_heartbeat`.

    Attributes:
        url: the service, such as ``http://marquez:5000``, or None to use the client's own settings.
        namespace: the job's namespace.
        is_batch: whether the job ends when its source is drained.
        hide: replaces the configuration's secrets in a text.

    Raises:
        UsageError: on construction; the client refuses its settings.
    """

    url: str | None
    namespace: str
    is_batch: bool
    job_tables: JobTables
    clock: Clock
    hide: Callable[[str], str] = str
    _sender: _EventSender = field(init=False)
    _sent_at_s: float | None = field(init=False, default=None)
    _has_unsent_changes: bool = field(init=False, default=False)
    _run: Run = field(init=False)
    _offsets: Offsets = field(init=False, default_factory=dict)
    _changes_of_tables: dict[str, WrittenChanges] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        set_producer(_PRODUCER)
        self._sender = _EventSender(self.url)
        engine = processing_engine_run.ProcessingEngineRunFacet(
            version=__version__, name="stream_app"
        )
        facets: dict[str, RunFacet] = {"processing_engine": engine}
        self._run = Run(str(generate_new_uuid()), facets)

    def begin(self) -> None:
        """Send START."""
        self._sender.submit(self._event(RunState.START, self._run))

    def end(self, problem: str | None) -> None:
        """Send the event of the job's end, and wait for it for a while.

        Args:
            problem: the error that ends the job, without secrets, or None if it ends as requested.
        """
        self._sender.close(self._last_event(problem))
        self.log_problem()

    def _last_event(self, problem: str | None) -> RunEvent:
        run, state = self._run, RunState.COMPLETE
        if problem is not None:
            error = error_message_run.ErrorMessageRunFacet(problem, "Python")
            run = Run(run.runId, {**(run.facets or {}), "errorMessage": error})
            state = RunState.FAIL
        with self._lock:
            return self._event(state, run)

    def on_table(self, table: str, table_job: TableJob) -> None:
        """Register a table of the job."""
        with self._lock:
            self._changes_of_tables.setdefault(table, WrittenChanges(table_job))

    def on_epoch(self, table: str, report: EpochReport) -> None:
        """Add a table's report of an epoch."""
        with self._lock:
            if not report.is_skipped and table in self._changes_of_tables:
                self._changes_of_tables[table].add(report)
                self._has_unsent_changes = True

    def on_progress(self, progress: SourceProgress) -> None:
        """Record the offsets at which an epoch ends."""
        with self._lock:
            self._offsets = progress.end_offsets

    def on_heartbeat(self) -> None:
        """Send a RUNNING event if one is due."""
        now_s = self.clock.steady_seconds()
        is_due = self._sent_at_s is None or now_s - self._sent_at_s >= PAUSE_S
        if not (self._has_unsent_changes and is_due) or self._sender.is_busy:
            return
        with self._lock:
            event = self._event(RunState.RUNNING, self._run)
            self._has_unsent_changes = False
            self._sent_at_s = now_s
        self._sender.submit(event)

    def problem(self) -> JobWarning | None:
        """Return a warning if the service did not accept the last event, or None."""
        if self._sender.problem is None:
            return None
        return JobWarning(
            problem="OpenLineage's service did not take an event, and the job continues: "
            f"{self.hide(self._sender.problem)}",
            fix="correct stream.openlineage-url, or leave it out; the next event has what is lost",
        )

    def _event(self, state: RunState, run: Run) -> RunEvent:
        processing_type = "BATCH" if self.is_batch else "STREAMING"
        job_facets: dict[str, JobFacet] = {
            "jobType": job_type_job.JobTypeJobFacet(processing_type, "STREAM_APP", "JOB")
        }
        source_config = self.job_tables.source
        return RunEvent(
            eventType=state,
            eventTime=_iso_time(self.clock.now_ms()),
            run=run,
            job=Job(self.namespace, self.job_tables.name, job_facets),
            producer=_PRODUCER,
            inputs=list(_inputs(source_config, self._offsets)),
            outputs=[
                self._output(name, changes)
                for name, changes in sorted(self._changes_of_tables.items())
            ],
        )

    def _output(self, name: str, changes: WrittenChanges) -> OutputDataset:
        """Return the written table, with facets of its schema, version, lineage and statistics."""
        table = changes.table_job.table
        schema = table.schema
        facets: dict[str, DatasetFacet] = {
            "schema": _schema_facet(schema),
            "storage": storage_dataset.StorageDatasetFacet("paimon", table.options[FILE_FORMAT]),
            "columnLineage": self._column_lineage(name, changes, schema),
        }
        if schema.comment:
            facets["documentation"] = documentation_dataset.DocumentationDatasetFacet(
                schema.comment
            )
        if changes.snapshot_id is not None:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
                str(changes.snapshot_id)
            )
        counts = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=changes.change_count, size=changes.byte_count, fileCount=changes.file_count
        )
        namespace, path = dataset_name(table.location)
        return OutputDataset(
            namespace, path, facets=facets, outputFacets={"outputStatistics": counts}
        )

    def _column_lineage(
        self, name: str, changes: WrittenChanges, schema: TableSchema
    ) -> column_lineage_dataset.ColumnLineageDatasetFacet:
        """Return each column's origin in the topics from which the table has records."""
        name_in_job = self.job_tables.name_in_job(name) or name
        config = self.job_tables.table_config(name_in_job, schema.fields)
        definitions = {item.name: item for item in map(parse_definition, config.computed_columns)}
        prefix = config.metadata_column_prefix
        metadata_names = {f"{prefix}{key}" for key in config.metadata_columns}
        fields = {}
        for column in schema.fields:
            if column.name in metadata_names:
                continue
            origin = column.name
            transformation = column_lineage_dataset.Transformation(_DIRECT, "IDENTITY")
            if (definition := definitions.get(column.name)) is not None:
                if not function_of(definition).reads_column:
                    continue
                origin = definition.arguments[0]
                transformation = column_lineage_dataset.Transformation(
                    _DIRECT, "TRANSFORMATION", definition.call
                )
            fields[column.name] = column_lineage_dataset.Fields(
                [
                    column_lineage_dataset.InputField(namespace, topic, origin, [transformation])
                    for namespace, topic in _origins(self.job_tables.source, changes.topics)
                ]
            )
        return column_lineage_dataset.ColumnLineageDatasetFacet(fields)


def dataset_name(location: str) -> tuple[str, str]:
    """Return the namespace and name of a folder: ``("s3://bucket", "lake/shop.db/orders")``."""
    parts = urlsplit(location)
    if parts.netloc:
        return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")
    return "file", parts.path


def topic_namespace(bootstrap_servers: str) -> str:
    """Return the namespace of topics: the first server, as the specification names a cluster."""
    return f"kafka://{bootstrap_servers.partition(',')[0].strip()}"


def _origins(source_config: SourceConfig, topics: set[str]) -> Iterator[tuple[str, str]]:
    if source_config.kind is SourceKind.FILES:
        yield dataset_name(source_config.path or "")
        return
    servers = {cluster.name: cluster.bootstrap_servers for cluster in source_config.kafka_clusters}
    for topic in sorted(topics):
        cluster, name = cluster_and_name(topic)
        # A checkpoint may name a cluster that was removed from the configuration.
        yield topic_namespace(servers.get(cluster, cluster)), name


def _inputs(source_config: SourceConfig, offsets: Offsets) -> Iterator[InputDataset]:
    topics = sorted(offsets.keys() | set(source_config.topic_names))
    origins = _origins(source_config, set(topics))
    for (namespace, name), topic in itertools.zip_longest(origins, topics):
        next_offsets = offsets.get(topic, {})
        facets: dict[str, DatasetFacet] = {}
        if next_offsets:
            facets["kafkaOffsets"] = KafkaOffsetsFacet(offsets=dict(next_offsets))
        yield InputDataset(namespace, name, facets=facets)


def _schema_facet(schema: TableSchema) -> schema_dataset.SchemaDatasetFacet:
    fields = [
        schema_dataset.SchemaDatasetFacetFields(
            column.name, str(column.data_type), column.description
        )
        for column in schema.fields
    ]
    return schema_dataset.SchemaDatasetFacet(fields)


def _iso_time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
