"""A small HTTP server for programs: GET and HEAD, one request to a connection.

It needs no package, unlike the server of the pages. One thread with a loop holds all connections,
and a few threads answer by a WSGI application.

Source: RFC 9112, "HTTP/1.1".
"""

from __future__ import annotations

import asyncio
import io
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from stream_app.app.http.guard import BACKLOG, Guard

_LOG = logging.getLogger(__name__)
_HEAD_MAX = 16 << 10
_WORDS = 3
"""Method, target and version."""
_THREADS = 2
_PLAIN = "text/plain; charset=utf-8"
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application."""


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    target: str
    headers: dict[str, str]


@contextmanager
def serving(listener: socket.socket, application: Application, guard: Guard) -> Iterator[None]:
    """Serve within the block; closes the socket."""
    server = _Server(listener, application, guard)
    thread = threading.Thread(target=server.run, name=guard.name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.end()
        thread.join()


@dataclass(slots=True)
class _Server:
    listener: socket.socket
    application: Application
    guard: Guard
    _begun: threading.Event = field(default_factory=threading.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None
    _has_failed: bool = False

    def run(self) -> None:
        """Serve until `end` is called."""
        asyncio.run(self._serve())

    def end(self) -> None:
        """Let `run` return."""
        self._begun.wait()
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._ended.set)

    def _tell(self, error: Exception) -> None:
        if not self._has_failed:  # strangers may send requests without end
            self._has_failed = True
            _LOG.warning(
                "%s could not answer (the log says so once)", self.guard.name, exc_info=error
            )

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.guard.watch(self._loop)
        with ThreadPoolExecutor(_THREADS, f"{self.guard.name} answers") as threads:
            make = self.guard.around(lambda: _OneAnswer(self.application, self._tell, threads))
            server = await self._loop.create_server(make, sock=self.listener, backlog=BACKLOG)
            self._begun.set()
            await self._ended.wait()
            server.close()
            self.guard.close()


class _OneAnswer(asyncio.Protocol):
    """Reads a head, answers it, and closes the connection; a body is not read."""

    def __init__(
        self, application: Application, failed: Callable[[Exception], None], threads: Executor
    ) -> None:
        self._application = application
        self._failed = failed
        self._threads = threads
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answer is not None:
            return
        self._head += data
        head, end, _ = bytes(self._head).partition(b"\r\n\r\n")
        if not end:
            if len(self._head) > _HEAD_MAX:
                self._write("431 Request Header Fields Too Large", [], b"")
            return
        request = _parsed(head)
        if request is None:
            self._write("400 Bad Request", [], b"this is no request of HTTP\n")
        elif request.method not in ("GET", "HEAD"):
            self._write("405 Method Not Allowed", [("Allow", "GET, HEAD")], b"")
        else:
            self._answer = asyncio.get_running_loop().create_task(self._answered(request))

    def eof_received(self) -> bool:
        """Answer a client that has closed its sending side, such as `nc -N`."""
        return self._answer is not None

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None

    async def _answered(self, request: _Request) -> None:
        loop = asyncio.get_running_loop()
        try:
            status, headers, body = await loop.run_in_executor(
                self._threads, _of_application, self._application, request
            )
        except Exception as error:
            self._failed(error)
            status, headers, body = "500 Internal Server Error", [], b"see the log\n"
        self._write(status, headers, body, is_head=request.method == "HEAD")

    def _write(
        self, status: str, headers: list[tuple[str, str]], body: bytes, *, is_head: bool = False
    ) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        fields = {"Content-Type": _PLAIN, **dict(headers)}
        fields |= {"Content-Length": str(len(body)), "Connection": "close"}
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items())]
        self._transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if not is_head:
            self._transport.write(body)
        self._transport.close()


def _parsed(head: bytes) -> _Request | None:
    line, *rest = head.decode("latin-1").split("\r\n")
    words = line.split(" ")
    if len(words) != _WORDS or not words[1].startswith("/") or not words[2].startswith("HTTP/1."):
        return None
    pairs = (header.partition(":") for header in rest)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return _Request(words[0], words[1], headers)


def _of_application(
    application: Application, request: _Request
) -> tuple[str, list[tuple[str, str]], bytes]:
    path, _, query = request.target.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "PATH_INFO": unquote(path, "latin-1"),
        "QUERY_STRING": query,
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        **{f"HTTP_{name.upper().replace('-', '_')}": one for name, one in request.headers.items()},
    }
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start(status: str, headers: list[tuple[str, str]], *_: object) -> None:
        started.append((status, headers))

    body = b"".join(application(environ, start))
    status, headers = started[-1]
    return status, headers, body
