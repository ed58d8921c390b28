"""Sends a trace of each epoch by OpenTelemetry's protocol (OTLP, over HTTP).

The endpoint for Prometheus exports the numbers. Headers, timeouts, samplers and batches follow
OpenTelemetry's own variables, such as ``OTEL_EXPORTER_OTLP_HEADERS``. The packages are the extra
`otel`; `app.launch.optional_packages` imports this module.

A report has durations, and the times at which the epoch began and was reported. A task reads and
decodes in turns, but the trace shows one span for each, with its total time. A compaction's span is
as long as its work, and ends with the commit that publishes it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, Tracer

from stream_app import __version__
from stream_app.app.observe.channels.listener import JobListener
from stream_app.clock import Clock
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.table.job.table_job import IdleReport

SpanAttributes = Mapping[str, str | int | float]
_LOG = logging.getLogger(__name__)
_REPORT_WAIT_S = 30.0
"""The seconds without a report of a further table after which an epoch's span ends.

Later reports still join the epoch's trace.
"""
_NANOS_OF_MILLI = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTime:
    """The name, times and attributes of a span; times are milliseconds since 1970 in UTC."""

    name: str
    start_ms: int
    end_ms: int
    attributes: SpanAttributes = field(default_factory=dict)


def common_spans(report: EpochReport, now_ms: int) -> Iterator[SpanTime]:
    """Yield the parts of an epoch that all tables share: read, decode, route, wait, write.

    Args:
        report: the report of the table that was committed first.
        now_ms: the time of the report.
    """
    durations, start_ms = report.durations, report.start_ms
    for name in ("read", "decode", "route"):
        end_ms = start_ms + _ms(durations.by_name[name])
        yield SpanTime(name=name, start_ms=start_ms, end_ms=end_ms)
        start_ms = end_ms
    write_end_ms = now_ms - _ms(durations.commit_s)
    write_start_ms = write_end_ms - _ms(durations.write_s)
    yield SpanTime(
        name="wait", start_ms=write_start_ms - _ms(durations.wait_s), end_ms=write_start_ms
    )
    yield SpanTime(name="write", start_ms=write_start_ms, end_ms=write_end_ms)


def commit_spans(table: str, report: EpochReport | IdleReport, now_ms: int) -> Iterator[SpanTime]:
    """Yield the spans of a table's commit, if it is an epoch's, and of the compactions in it."""
    if isinstance(report, EpochReport):
        counts = report.counts
        attributes: SpanAttributes = {
            "stream_app.table": table,
            "stream_app.messages": counts.message_count,
            "stream_app.changes": counts.change_count,
            "stream_app.bad_records": counts.bad_record_count,
            "stream_app.files": report.file_count,
            "stream_app.bytes": report.byte_count,
        }
        start_ms = now_ms - _ms(report.durations.commit_s)
        yield SpanTime(name="commit", start_ms=start_ms, end_ms=now_ms, attributes=attributes)
    for compaction in report.compactions:
        yield SpanTime(
            name="compaction",
            start_ms=now_ms - _ms(compaction.seconds),
            end_ms=now_ms,
            attributes={
                "stream_app.table": table,
                "stream_app.partition": compaction.partition,
                "stream_app.bucket": compaction.bucket,
                "stream_app.reason": compaction.reason,
                "stream_app.bytes_in": compaction.bytes_in,
                "stream_app.bytes_out": compaction.bytes_out,
            },
        )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


@dataclass(slots=True)
class _OpenEpoch:
    """An epoch whose span may get the reports of further tables.

    Attributes:
        end_ms, reported_at_s: the time of the newest report, by the wall clock and the steady one.
        table_count: the number of reports.
    """

    epoch: int
    root: Span
    end_ms: int
    reported_at_s: float
    table_count: int = 0
    is_ended: bool = False

    def add_table(self, now_ms: int, steady_s: float) -> None:
        self.table_count += 1
        self.end_ms = now_ms
        self.reported_at_s = steady_s

    def end(self) -> None:
        if not self.is_ended:
            self.is_ended = True
            self.root.set_attribute("stream_app.tables", self.table_count)
            self.root.end(self.end_ms * _NANOS_OF_MILLI)


@dataclass(slots=True)
class EpochTracer(JobListener):
    """A tracer of a job's epochs. OpenTelemetry's threads send its spans.

    The committer's thread calls `on_epoch`, and the stream's thread calls `on_heartbeat`.

    Attributes:
        endpoint: the collector, such as ``http://collector:4318``, or None to use OpenTelemetry's
            variables.
        job: the name of the service, unless ``OTEL_SERVICE_NAME`` is set.
    """

    endpoint: str | None
    job: str
    clock: Clock
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _provider: TracerProvider = field(init=False)
    _tracer: Tracer = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _open_epoch: _OpenEpoch | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        name = self.environ.get("OTEL_SERVICE_NAME", f"stream_app {self.job}")
        resource = Resource.create({"service.name": name, "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        endpoint = None if self.endpoint is None else f"{self.endpoint.rstrip('/')}/v1/traces"
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        self._tracer = self._provider.get_tracer("stream_app", __version__)

    def end(self) -> None:
        """Send the last spans; an error here does not affect the job's outcome."""
        try:
            with self._lock:
                self._end_open_epoch()
            self._provider.shutdown()
        except Exception:
            _LOG.warning("OTLP did not end well", exc_info=True)

    def on_epoch(self, table: str, report: EpochReport) -> None:
        """Add a table's part to the trace of the epoch."""
        if report.is_skipped:
            return
        with self._lock:
            if self._open_epoch is None or self._open_epoch.epoch != report.epoch:
                self._end_open_epoch()
                self._open_epoch = self._root_span(report)
            open_epoch = self._open_epoch
            now_ms = self.clock.now_ms()
            parent = trace.set_span_in_context(open_epoch.root)
            for span in commit_spans(table, report, now_ms):
                self._add_span(span, parent)
            open_epoch.add_table(now_ms, self.clock.steady_seconds())

    def on_idle_commit(self, table: str, report: IdleReport) -> None:
        """Send a separate trace for compactions that were committed between epochs."""
        now_ms = self.clock.now_ms()
        longest_s = max((compaction.seconds for compaction in report.compactions), default=0.0)
        root = self._tracer.start_span(
            "idle commit",
            start_time=(now_ms - _ms(longest_s)) * _NANOS_OF_MILLI,
            attributes={"stream_app.table": table},
        )
        for span in commit_spans(table, report, now_ms):
            self._add_span(span, trace.set_span_in_context(root))
        root.end(now_ms * _NANOS_OF_MILLI)

    def on_heartbeat(self) -> None:
        """End the span of an epoch that no further table reports."""
        with self._lock:
            open_epoch = self._open_epoch
            if (
                open_epoch
                and self.clock.steady_seconds() - open_epoch.reported_at_s > _REPORT_WAIT_S
            ):
                self._end_open_epoch()

    def _root_span(self, report: EpochReport) -> _OpenEpoch:
        root = self._tracer.start_span(
            "epoch",
            start_time=report.start_ms * _NANOS_OF_MILLI,
            attributes={"stream_app.epoch": report.epoch},
        )
        parent = trace.set_span_in_context(root)
        for span in common_spans(report, self.clock.now_ms()):
            self._add_span(span, parent)
        return _OpenEpoch(report.epoch, root, report.start_ms, self.clock.steady_seconds())

    def _add_span(self, span: SpanTime, parent: Any) -> None:
        child = self._tracer.start_span(
            span.name,
            parent,
            start_time=span.start_ms * _NANOS_OF_MILLI,
            attributes=dict(span.attributes),
        )
        child.end(span.end_ms * _NANOS_OF_MILLI)

    def _end_open_epoch(self) -> None:
        if self._open_epoch is not None:
            self._open_epoch.end()
