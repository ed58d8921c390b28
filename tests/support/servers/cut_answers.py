"""A link to an HTTP server that loses a chosen request or its answer, as a bad network does."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.support.servers.lossy_link import Loss

BUSY = 503


@dataclass
class CutAnswers:
    """A proxy that strikes the next request to a path with the `ending` once.

    Attributes:
        loss: of the answer, or of the request; None: the server serves the request, and something
            before it answers 503.
    """

    url: str
    ending: str = ""
    loss: Loss | None = None
    struck: int = 0

    def strike(self, ending: str, loss: Loss | None) -> None:
        self.ending, self.loss = ending, loss

    def strikes(self, path: str) -> bool:
        is_struck = bool(self.ending) and path.endswith(self.ending)
        if is_struck:
            self.ending, self.struck = "", self.struck + 1
        return is_struck


@contextmanager
def cut_answers(target: str) -> Iterator[CutAnswers]:
    """Yield a link to the server at a URL."""
    link = CutAnswers("")
    parts = urlsplit(target)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._forward(is_struck=link.strikes(self.path))

        def do_POST(self) -> None:
            self._forward(is_struck=link.strikes(self.path))

        def _forward(self, *, is_struck: bool) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.close_connection = True
            if is_struck and link.loss is Loss.REQUEST:
                return
            server = http.client.HTTPConnection(str(parts.hostname), parts.port)
            headers = {key: v for key, v in self.headers.items() if key != "Host"}
            server.request(self.command, self.path, body or None, headers)
            answer = server.getresponse()
            content = answer.read()
            server.close()
            if is_struck and link.loss is Loss.ANSWER:
                return
            self.send_response(BUSY if is_struck else answer.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    link.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield link
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
