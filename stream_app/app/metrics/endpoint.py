"""The HTTP endpoint of a job: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from stream_app.app.metrics.health import JobHealth
from stream_app.errors import UsageError

_PLAIN = ("Content-Type", "text/plain; charset=utf-8")
Checks = Mapping[str, Callable[[], Sequence[str]]]
"""Path → the problems that make its answer a 503."""


@contextmanager
def serving(
    registry: CollectorRegistry, port: int | None, health: JobHealth | None = None
) -> Iterator[None]:
    """Serve on all interfaces within the block.

    Args:
        port: None: do not.
        health: answers ``/healthz`` and ``/readyz``; None: these are not there.

    Raises:
        UsageError: the port is not available.
    """
    if port is None:
        yield
        return
    checks = {} if health is None else {"/healthz": health.alive, "/readyz": health.ready}
    try:
        server = make_server("", port, _application(registry, checks), _Server, _Quiet)
    except OSError as error:
        raise UsageError(
            f"the metrics port {port} cannot be opened: {error.strerror}",
            fix="end the program that has it (perhaps this job, still running), or choose another",
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _application(registry: CollectorRegistry, checks: Checks) -> Any:
    metrics: Any = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
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


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Requests are not logged."""
