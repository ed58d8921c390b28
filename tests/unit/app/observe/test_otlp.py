"""A receiver of OpenTelemetry's protocol gets the job's traces by real requests."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.observe.channels.configured_listeners import configured_listeners
from stream_app.app.observe.channels.otlp import EpochTracer
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.errors import StorageError
from stream_app.table.compact.compaction_report import CompactionReport
from tests.support.servers.http_receiver import HttpReceiver, gunzipped_body, http_receiver
from tests.support.tables.small_table import StandingClock

BEGAN_MS = 1_000_000
COMPACTION = CompactionReport(
    partition="dt=1", bucket=2, reason="size ratio", levels=(0, 0), output_level=5, files_in=2,
    bytes_in=3072, files_out=1, bytes_out=2048, upgraded=0, seconds=0.5,
)  # fmt: skip


def a_report(epoch: int) -> EpochReport:
    """Read in 1 s, decoded in 2.5 s, routed in 0.5 s; waited 1 s, wrote 2 s, committed in 0.5 s."""
    parts = EpochSeconds(
        wait_s=1.0, read_s=1.0, decode_s=2.5, route_s=0.5, write_s=2.0, commit_s=0.5
    )
    return EpochReport(
        epoch=epoch, counts=DecodeCounts(message_count=10), durations=parts, start_ms=BEGAN_MS,
        compactions=(COMPACTION,),
    )  # fmt: skip


def body_of(receiver: HttpReceiver, path: str) -> bytes:
    """Return the body of the only request to a path."""
    [posted_request] = [request for request in receiver.requests if request.path == path]
    return gunzipped_body(posted_request)


def test_an_epoch_is_a_trace_of_its_parts(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")  # one request has all spans
    clock = StandingClock(BEGAN_MS)
    tracer = EpochTracer(receiver.url, "shop", clock, {})
    clock.sleep(7.5)
    tracer.on_epoch("shop.orders", a_report(3))
    clock.sleep(1)
    tracer.on_epoch("shop.items", a_report(3))
    tracer.on_epoch("shop.old", EpochReport(epoch=3, is_skipped=True))
    clock.sleep(31)
    tracer.on_heartbeat()
    tracer.on_epoch("shop.late", a_report(3))  # its span is in the same trace
    tracer.end()
    [of_resource] = ExportTraceServiceRequest.FromString(
        body_of(receiver, "/v1/traces")
    ).resource_spans
    [scope] = of_resource.scope_spans
    spans: list[Span] = list(scope.spans)
    [root] = [span for span in spans if not span.parent_span_id]
    assert (root.name, {span.trace_id for span in spans}) == ("epoch", {root.trace_id})
    assert times_of([root]) == [("epoch", 0.0, 8.5)]
    assert attributes_of(root) == {"stream_app.epoch": 3, "stream_app.tables": 2}
    children = [span for span in spans if span.parent_span_id]
    assert {child.parent_span_id for child in children} == {root.span_id}
    assert times_of(children) == [
        ("read", 0.0, 1.0),
        ("decode", 1.0, 3.5),
        ("route", 3.5, 4.0),
        ("wait", 4.0, 5.0),
        ("write", 5.0, 7.0),
        ("commit", 7.0, 7.5),
        ("compaction", 7.0, 7.5),
        ("commit", 8.0, 8.5),
        ("compaction", 8.0, 8.5),
        ("commit", 39.0, 39.5),
        ("compaction", 39.0, 39.5),
    ]
    commit = children[5]
    assert attributes_of(commit)["stream_app.messages"] == 10
    assert {request.path for request in receiver.requests} == {"/v1/traces"}


@pytest.mark.slow
def test_traces_that_cannot_be_sent_do_not_change_how_the_job_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The job ends with its own error; the log tells of the traces."""

    def job() -> None:
        stream = StreamConfig(otlp_endpoint="http://127.0.0.1:1")
        with configured_listeners(
            stream, "shop", StandingClock(), hide=str, ends_by_itself=True
        ) as listeners:
            listeners.call(lambda listener: listener.on_epoch("shop.orders", a_report(0)))
            raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="the disk is full"):
        job()
    assert "export" in caplog.text


def times_of(spans: list[Span]) -> list[tuple[str, float, float]]:
    """Seconds since the epoch began."""

    def seconds(nanos: int) -> float:
        return (nanos / 1e6 - BEGAN_MS) / 1000

    return [
        (span.name, seconds(span.start_time_unix_nano), seconds(span.end_time_unix_nano))
        for span in spans
    ]


def attributes_of(span: Span) -> dict[str, int]:
    return {attribute.key: attribute.value.int_value for attribute in span.attributes}


def test_the_endpoint_may_come_from_opentelemetrys_variables(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    tracer = EpochTracer(None, "shop", StandingClock(), {"OTEL_SERVICE_NAME": "mine"})
    tracer.on_epoch("shop.orders", a_report(0))
    tracer.end()
    [request] = receiver.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/traces", "Bearer abc")
    [spans] = ExportTraceServiceRequest.FromString(body_of(receiver, "/v1/traces")).resource_spans
    resource = {
        attribute.key: attribute.value.string_value for attribute in spans.resource.attributes
    }
    assert (resource["service.name"], resource["deployment.environment"]) == ("mine", "test")


@pytest.mark.parametrize("status", [307, 308])
def test_the_key_goes_to_the_endpoint_alone(
    receiver: HttpReceiver, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=abc")
    with http_receiver(status) as endpoint:
        endpoint.place = f"{receiver.url}/v1/traces"
        tracer = EpochTracer(endpoint.url, "shop", StandingClock(BEGAN_MS), {})
        tracer.on_epoch("shop.orders", a_report(0))
        tracer.end()
        assert {request.path for request in endpoint.requests} == {"/v1/traces"}
        assert {request.headers["api-key"] for request in endpoint.requests} == {"abc"}
    assert receiver.requests == []
