"""Serves the HTTP endpoint of a job: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_app.app.http.asgi_server import Application, AsgiMessage, Receive, Send, Server
from stream_app.app.http.connection_guard import (
    Guard,
    PortLimits,
    is_port_taken,
    open_listener,
    port_connections_max,
)
from stream_app.app.observe.metrics.health import JobHealth
from stream_app.errors import UsageError

_LOG = logging.getLogger(__name__)
_TEXT_HEADERS = {"content-type": "text/plain; charset=utf-8"}
_Response = tuple[int, Mapping[str, str], bytes]
"""The status, headers and body of a response."""
_CONNECTIONS_MAX = 64
Checks = Mapping[str, Callable[[], Sequence[str]]]
"""Path → the problems that turn its response into a 503."""


@contextmanager
def serving_metrics(
    registry: CollectorRegistry,
    port: int | None,
    health: JobHealth | None = None,
    address: str = "0.0.0.0",
) -> Iterator[None]:
    """Serve the endpoint within the block.

    Args:
        port: the port, or None to serve nothing.
        health: decides the responses of ``/healthz`` and ``/readyz``; None omits these paths.
        address: the address to listen at.

    Raises:
        UsageError: the port or the address is not available.
    """
    if port is None:
        yield
        return
    checks = {} if health is None else {"/healthz": health.alive, "/readyz": health.ready}
    try:
        listener = open_listener(address, port)
    except OSError as error:
        where = f"stream.metrics-address = {address}"
        fix = "choose an address of this machine"
        if is_port_taken(error):
            where, fix = "", "end the program that has it (perhaps this job, still running)"
        raise UsageError(
            f"the metrics port {port} cannot be opened: {error.strerror}",
            where=where,
            fix=f"{fix}, or choose another port",
        ) from None
    guard = Guard(
        "the metrics port", PortLimits(connections_max=port_connections_max(_CONNECTIONS_MAX))
    )
    with Server(_application(registry, checks), guard).serving(listener):
        yield


def _application(registry: CollectorRegistry, checks: Checks) -> Application:
    """Return the ASGI application; it logs the first failure of each path, and answers 500."""
    failed_paths: set[str] = set()

    def response_or_failure(scope: AsgiMessage) -> _Response:
        try:
            return _response(registry, checks, scope)
        except Exception as error:
            if scope["path"] not in failed_paths:  # a scraper asks each few seconds
                failed_paths.add(scope["path"])
                _LOG.exception("%s cannot be answered (the log says so once)", scope["path"])
            return 500, _TEXT_HEADERS, f"{type(error).__name__}: see the job's log\n".encode()

    async def send_response(scope: AsgiMessage, _: Receive, send: Send) -> None:
        # In a thread: a slow scrape must not delay a probe.
        status, headers, body = await asyncio.to_thread(response_or_failure, scope)
        fields = {**headers, "content-length": str(len(body))}
        pairs = [(name.encode(), value.encode()) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})

    return send_response


def _response(registry: CollectorRegistry, checks: Checks, scope: AsgiMessage) -> _Response:
    if scope["method"] not in ("GET", "HEAD"):
        return 405, {"allow": "GET, HEAD"}, b""
    path = scope["path"]
    if path == "/metrics":
        return _metrics(registry, scope)
    if path not in checks:  # a probe with a mistyped path must not succeed
        return 404, _TEXT_HEADERS, f"there are {', '.join(['/metrics', *checks])}\n".encode()
    problems = checks[path]()
    body = "".join(f"{line}\n" for line in problems or ["ok"]).encode()
    return 503 if problems else 200, _TEXT_HEADERS, body


def _metrics(registry: CollectorRegistry, scope: AsgiMessage) -> _Response:
    request_headers = {
        name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
    }
    encode, content_type = choose_encoder(request_headers.get("accept", ""))
    names = parse_qs(scope["query_string"].decode("latin-1")).get("name[]")
    body = encode(registry.restricted_registry(names) if names else registry)
    headers = {"content-type": content_type}
    if "gzip" in request_headers.get("accept-encoding", ""):
        return 200, {**headers, "content-encoding": "gzip"}, gzip.compress(body)
    return 200, headers, body
