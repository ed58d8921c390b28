"""A real HTTP server that keeps the requests that it gets, and answers as a test says."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

_DEADLINE_S = 120.0


@dataclass(frozen=True)
class Posted:
    path: str
    headers: Mapping[str, str]
    body: bytes


def gunzipped_body(request: Posted) -> bytes:
    """Return the body, which a client may have packed."""
    is_gzip = request.headers.get("Content-Encoding") == "gzip"
    return gzip.decompress(request.body) if is_gzip else request.body


@dataclass
class HttpReceiver:
    """A server that answers its statuses one after another, and then 200.

    Attributes:
        place: where redirects lead.
    """

    port: int = 0
    place: str = "/elsewhere"
    statuses: list[int] = field(default_factory=list)
    requests: list[Posted] = field(default_factory=list)
    _came: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def take(self, request: Posted) -> int:
        with self._came:
            self.requests.append(request)
            self._came.notify_all()
            return self.statuses.pop(0) if self.statuses else 200

    def wait_for(self, count: int) -> list[Posted]:
        with self._came:
            assert self._came.wait_for(lambda: len(self.requests) >= count, _DEADLINE_S)
            return list(self.requests)


@contextmanager
def http_receiver(*statuses: int) -> Iterator[HttpReceiver]:
    http_server = HttpReceiver(statuses=list(statuses))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = http_server.take(Posted(self.path, dict(self.headers), body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.send_header("Location", http_server.place)  # means something with a 3xx alone
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        http_server.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield http_server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as http_server:
        yield http_server
