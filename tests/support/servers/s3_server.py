"""An S3 of its own: moto's server in this process, whose requests can be counted and disturbed.

Each bucket belongs to one test. Amazon promises that a PUT happens at once; moto's looks whether
there is an object and makes one a little later, so its PUTs wait for each other here.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

HOST = "127.0.0.1"
ACCESS_KEY = "AKIATESTOFSTREAMAPP"
SECRET_KEY = "known/secret+key+of+the+tests"
_numbers = itertools.count(1)


@dataclass
class S3Server:
    """A running server.

    Attributes:
        requests: method and path, with the query, of each request.
        ignores_conditions: be a store that takes every PUT.
        bytes_sent: what the answers to GET held since `counted` began.
        answers_lost: so many PUTs with a condition are done and answered by an error.
        valid_keys: requests of other access keys are refused as keys that have expired; None: none
            is refused.
        heads: gets what WSGI knows of each request; None: it is not wanted.
        app: what answers.
        tokens_seen: the session tokens of all requests so far.
        error: answers every request, as a status and a code, if it is given.
        error_at: it answers only those whose path holds this.
        before: gets method and path of each request, and may change all this.
    """

    port: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    ignores_conditions: bool = False
    answers_lost: int = 0
    bytes_sent: int = 0
    valid_keys: frozenset[str] | None = None
    error: tuple[int, str] | None = None
    error_at: str = ""
    before: Callable[[str, str], None] | None = None
    heads: list[dict[str, Any]] | None = None
    app: Callable[..., Iterable[bytes]] | None = None
    tokens_seen: set[str | None] = field(default_factory=set)
    _puts: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        """The server's URL."""
        return f"http://{HOST}:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """The options that a client needs."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key": ACCESS_KEY,
            "s3.secret-key": SECRET_KEY,
            "s3.path.style.access": "true",
        }

    def copy_to(self, location: str, folder: Path) -> None:
        """Copy the objects below ``s3://bucket/key`` to files in a folder."""
        bucket, _, key = location.removeprefix("s3://").partition("/")
        store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        for name, entry in store.get_bucket(bucket).keys.items():
            if name.startswith(f"{key}/"):
                path = folder / name.removeprefix(f"{key}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(entry.value)

    def new_bucket(self) -> str:
        """Return a bucket that nobody else has."""
        name = f"bucket-{next(_numbers)}"
        connection = HTTPConnection(HOST, self.port)
        connection.request("PUT", f"/{name}")
        assert connection.getresponse().status == 200
        connection.close()
        return name

    @contextmanager
    def counted(self) -> Iterator[list[tuple[str, str]]]:
        """Yield the requests from here to the end of the block."""
        self.requests.clear()
        self.bytes_sent = 0
        requests: list[tuple[str, str]] = []
        yield requests
        requests += self.requests

    def _refusal(self, environ: dict[str, Any]) -> tuple[int, str] | None:
        if self.before is not None:
            self.before(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        if self.error is not None and self.error_at in environ["PATH_INFO"]:
            return self.error
        match = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        if self.valid_keys is None or (match and match[1] in self.valid_keys):
            return None
        return 400, "ExpiredToken"

    def wrap(self, app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        """Return the server's application with the test's checks around it."""

        def serve(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            method, query = environ["REQUEST_METHOD"], environ["QUERY_STRING"]
            self.requests.append((method, environ["PATH_INFO"] + ("?" + query if query else "")))
            if self.heads is not None:
                self.heads.append(dict(environ))
            if "HTTP_AUTHORIZATION" in environ:
                self.tokens_seen.add(environ.get("HTTP_X_AMZ_SECURITY_TOKEN"))
            if refusal := self._refusal(environ):
                return _refused(method, *refusal, start)
            if method != "PUT":
                body = list(app(environ, start))
                self.bytes_sent += sum(map(len, body))
                return body
            with self._puts:
                has_condition = "HTTP_IF_NONE_MATCH" in environ
                if self.ignores_conditions:
                    environ.pop("HTTP_IF_NONE_MATCH", None)
                if has_condition and self.answers_lost:
                    self.answers_lost -= 1
                    list(app(environ, lambda *_: None))
                    start("500 Internal Server Error", [("Content-Length", "0")])
                    return [b""]
                return list(app(environ, start))

        self.app = serve
        return serve


def _refused(method: str, status: int, code: str, start: Callable[..., Any]) -> list[bytes]:
    """Return a refusal in Amazon's form; the answer to a HEAD has no text, others may tell keys."""
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>Refused: '
        f"{code}.</Message><AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId><Token-0>{SECRET_KEY}"
        "</Token-0><RequestId>1</RequestId></Error>"
    )
    body = b"" if method == "HEAD" else text.encode()
    start(f"{status} Refused", [("Content-Type", "application/xml")])
    return [body]


class _Silent(WSGIRequestHandler):
    def log(self, *args: object) -> None:
        pass


@contextmanager
def running_server() -> Iterator[S3Server]:
    """Run a server for the time of the block."""
    server = S3Server()
    app = server.wrap(DomainDispatcherApplication(create_backend_app))
    wsgi = make_server(HOST, 0, app, threaded=True, request_handler=_Silent)
    server.port = wsgi.server_address[1]
    thread = threading.Thread(target=wsgi.serve_forever, daemon=True)
    thread.start()
    yield server
    wsgi.shutdown()
    thread.join()
    wsgi.server_close()


@pytest.fixture(scope="session")
def s3_session() -> Iterator[S3Server]:
    """Yield one server for all tests."""
    with running_server() as server:
        yield server


@pytest.fixture
def s3(s3_session: S3Server) -> Iterator[S3Server]:
    """Yield the server in its initial state."""
    s3_session.tokens_seen.clear()
    yield s3_session
    s3_session.ignores_conditions = False
    s3_session.answers_lost = 0
    s3_session.valid_keys = s3_session.error = s3_session.before = s3_session.heads = None
    s3_session.error_at = ""
