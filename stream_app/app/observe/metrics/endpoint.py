"""The HTTP endpoint of a job: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, make_wsgi_app

from stream_app.app.http import one_answer
from stream_app.app.http.guard import Guard, Limits, is_taken, limit_for_port, listening
from stream_app.app.observe.metrics.health import JobHealth
from stream_app.errors import UsageError

_PLAIN = ("Content-Type", "text/plain; charset=utf-8")
_CONNECTIONS = 64
Checks = Mapping[str, Callable[[], Sequence[str]]]
"""Path → the problems that make its answer a 503."""


@contextmanager
def serving(
    registry: CollectorRegistry,
    port: int | None,
    health: JobHealth | None = None,
    address: str = "0.0.0.0",
) -> Iterator[None]:
    """Serve within the block.

    Args:
        port: None: serve nothing.
        health: answers ``/healthz`` and ``/readyz``; None: these paths do not exist.
        address: to listen at.

    Raises:
        UsageError: the port or the address is not available.
    """
    if port is None:
        yield
        return
    checks = {} if health is None else {"/healthz": health.alive, "/readyz": health.ready}
    try:
        listener = listening(address, port)
    except OSError as error:
        fix = "end the program that has it (perhaps this job, still running), or choose another"
        raise UsageError(
            f"the metrics port {port} cannot be opened: {error.strerror}",
            where="" if is_taken(error) else f"stream.metrics-address = {address}",
            fix=fix if is_taken(error) else "choose an address of this machine, or another port",
        ) from None
    guard = Guard("the metrics port", Limits(connections=limit_for_port(_CONNECTIONS)))
    with one_answer.serving(listener, _application(registry, checks), guard):
        yield


def _application(registry: CollectorRegistry, checks: Checks) -> one_answer.Application:
    metrics: Any = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            scraped: Iterable[bytes] = metrics(environ, start)
            return scraped
        if path not in checks:  # a probe with a mistyped path must not succeed
            start("404 Not Found", [_PLAIN])
            return [f"there are {', '.join(['/metrics', *checks])}\n".encode()]
        problems = checks[path]()
        start("503 Service Unavailable" if problems else "200 OK", [_PLAIN])
        return ["".join(f"{line}\n" for line in problems or ["ok"]).encode()]

    return answer
