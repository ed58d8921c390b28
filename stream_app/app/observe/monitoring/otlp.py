"""Sends a job's metrics, and a trace of each epoch, by OpenTelemetry's protocol (OTLP, over HTTP).

The metrics are those of the endpoint for Prometheus. Everything else follows OpenTelemetry's own
variables, such as ``OTEL_EXPORTER_OTLP_HEADERS`` and ``OTEL_METRIC_EXPORT_INTERVAL``. The packages
are the extra `otel`; `app.launch.extra` imports this module.

Source: OpenTelemetry, "OTLP Specification" and "Prometheus and OpenMetrics Compatibility".
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, Tracer
from prometheus_client import CollectorRegistry

from stream_app import __version__
from stream_app.app.observe.monitoring.listener import JobListener
from stream_app.app.observe.monitoring.otlp_metrics import metrics_data
from stream_app.app.observe.monitoring.span_times import SpanTime, commit_spans, common_spans
from stream_app.clock import Clock
from stream_app.errors import UsageError
from stream_app.spark.ingest.table_feed import EpochReport
from stream_app.table.job.table_job import IdleReport

_LOG = logging.getLogger(__name__)
_INTERVAL, _INTERVAL_MS, _INTERVAL_MS_MAX = "OTEL_METRIC_EXPORT_INTERVAL", 60_000, 86_400_000
_SETTLED_S = 30.0
"""An epoch of many tables reports them one after another; after so long without one its span ends.

What comes later is in its trace all the same.
"""
_NS = 1_000_000


@dataclass(slots=True)
class _OpenEpoch:
    epoch: int
    root: Span
    ends_ms: int
    reported_at: float
    tables: int = 0
    is_ended: bool = False


@dataclass(slots=True)
class Telemetry(JobListener):
    """Sends metrics from a thread of its own, and spans by OpenTelemetry's.

    The thread that commits calls `epoch`; the one that watches the query calls `looked`.

    Attributes:
        endpoint: such as ``http://collector:4318``; None: as OpenTelemetry's variables say.
        job: the name of the service, unless ``OTEL_SERVICE_NAME`` is set.

    Raises:
        UsageError: the interval of metrics is not a time.
    """

    endpoint: str | None
    job: str
    registry: CollectorRegistry
    clock: Clock
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _resource: Resource = field(init=False)
    _metrics: OTLPMetricExporter | None = field(init=False)
    _provider: TracerProvider | None = field(init=False)
    _tracer: Tracer = field(init=False)
    _began_ns: int = field(init=False)
    _interval_s: float = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _open: _OpenEpoch | None = field(init=False, default=None)
    _ended: threading.Event = field(init=False, default_factory=threading.Event)
    _thread: threading.Thread | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._interval_s = _interval_s(self.environ)
        name = self.environ.get("OTEL_SERVICE_NAME", f"stream_app {self.job}")
        self._resource = Resource.create({"service.name": name, "service.version": __version__})
        at = None if self.endpoint is None else self.endpoint.rstrip("/")
        self._metrics = self._provider = None
        if self._sends("METRICS"):
            self._metrics = OTLPMetricExporter(endpoint=at and f"{at}/v1/metrics")
        if self._sends("TRACES"):
            self._provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
            exporter = OTLPSpanExporter(endpoint=at and f"{at}/v1/traces")
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        provider = self._provider or trace.NoOpTracerProvider()
        self._tracer = provider.get_tracer("stream_app", __version__)
        self._began_ns = self.clock.now_ms() * _NS

    def _sends(self, signal: str) -> bool:
        return self.environ.get(f"OTEL_{signal}_EXPORTER", "otlp") != "none"

    def begin(self) -> None:
        """Start sending metrics."""
        if self._metrics is not None:
            self._thread = threading.Thread(target=self._export_all, name="otlp", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Send the last spans and metrics; what fails here is not the outcome of the job."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self.export()
        try:
            with self._lock:
                self._settle()
            if self._metrics is not None:
                self._metrics.shutdown()
            if self._provider is not None:
                self._provider.shutdown()
        except Exception:
            _LOG.warning("OTLP did not end well", exc_info=True)

    def export(self) -> None:
        """Send the metrics of this moment; the job goes on without, if that fails."""
        if self._metrics is None:
            return
        try:
            now_ns = self.clock.now_ms() * _NS
            data = metrics_data(self.registry.collect(), self._resource, self._began_ns, now_ns)
            self._metrics.export(data)
        except Exception:
            _LOG.warning("metrics could not be sent by OTLP", exc_info=True)

    def epoch(self, table: str, report: EpochReport) -> None:
        """Add a table's part to the trace of the epoch."""
        if report.skipped or self._provider is None:
            return
        with self._lock:
            if self._open is None or self._open.epoch != report.epoch:
                self._settle()
                self._open = self._root(report)
            opened, now_ms = self._open, self.clock.now_ms()
            parent = trace.set_span_in_context(opened.root)
            for span in commit_spans(table, report, now_ms):
                self._add(span, parent)
            opened.tables += 1
            opened.ends_ms, opened.reported_at = now_ms, self.clock.steady_seconds()

    def idle_commit(self, table: str, report: IdleReport) -> None:
        """Compactions that were committed between epochs: a trace of their own."""
        if self._provider is not None:
            facts = {"stream_app.table": table}
            now_ms = self.clock.now_ms()
            began_ms = now_ms - round(max((c.seconds for c in report.compactions), default=0) * 1e3)
            root = self._tracer.start_span(
                "idle commit", start_time=began_ms * _NS, attributes=facts
            )
            for span in commit_spans(table, report, now_ms):
                self._add(span, trace.set_span_in_context(root))
            root.end(now_ms * _NS)

    def looked(self) -> None:
        """End the span of an epoch that no further table reports."""
        with self._lock:
            opened = self._open
            if opened and self.clock.steady_seconds() - opened.reported_at > _SETTLED_S:
                self._settle()

    def _root(self, report: EpochReport) -> _OpenEpoch:
        root = self._tracer.start_span(
            "epoch", start_time=report.began_ms * _NS, attributes={"stream_app.epoch": report.epoch}
        )
        parent = trace.set_span_in_context(root)
        for span in common_spans(report, self.clock.now_ms()):
            self._add(span, parent)
        return _OpenEpoch(report.epoch, root, report.began_ms, self.clock.steady_seconds())

    def _add(self, span: SpanTime, parent: Any) -> None:
        made = self._tracer.start_span(
            span.name, parent, start_time=span.begin_ms * _NS, attributes=dict(span.facts)
        )
        made.end(span.end_ms * _NS)

    def _settle(self) -> None:
        opened = self._open
        if opened is not None and not opened.is_ended:
            opened.is_ended = True
            opened.root.set_attribute("stream_app.tables", opened.tables)
            opened.root.end(opened.ends_ms * _NS)

    def _export_all(self) -> None:
        while not self._ended.wait(self._interval_s):
            self.export()


def _interval_s(environ: Mapping[str, str]) -> float:
    told = environ.get(_INTERVAL) or _INTERVAL_MS
    try:
        interval_ms = float(told)
    except ValueError:
        interval_ms = math.nan
    if not 0 < interval_ms <= _INTERVAL_MS_MAX:
        raise UsageError(
            f"{_INTERVAL} is {told!r}, which is no time between two exports",
            where="the environment",
            fix=f"set it to milliseconds, such as {_INTERVAL_MS}, or unset it",
        )
    return interval_ms / 1000
