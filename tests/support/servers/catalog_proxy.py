"""Servers before an Iceberg REST catalog: one hands requests on, another asks for logins first."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request, "
    r"SignedHeaders=([^,]+), Signature=([0-9a-f]+)"
)
_PASSED_ON = ("Content-Type", "X-Iceberg-Access-Delegation")


class CatalogProxy:
    """A proxy that passes requests to a catalog; close it."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _hand_on(self) -> None:
                outer.hand_on(self)

            do_GET = do_POST = do_HEAD = do_DELETE = _hand_on  # noqa: N815 - the library asks for these

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def hand_on(self, request: BaseHTTPRequestHandler) -> None:
        self.hand_on_body(request, body_of(request))

    def hand_on_body(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        answer = requests.request(
            request.command, f"{self._uri}{request.path}", data=body, headers=headers, timeout=60
        )
        kind = answer.headers.get("Content-Type", "application/json")
        respond(request, answer.status_code, answer.content, kind)


class Standstill(CatalogProxy):
    """A proxy whose first request with a chosen method and end of its path never returns."""

    def __init__(self, uri: str, method: str, ending: str) -> None:
        self.is_reached = threading.Event()
        self._ends = threading.Event()
        self._method, self._ending = method, ending
        super().__init__(uri)

    def close(self) -> None:
        self._ends.set()
        super().close()

    def hand_on(self, request: BaseHTTPRequestHandler) -> None:
        if request.command == self._method and request.path.endswith(self._ending):
            self.is_reached.set()
            self._ends.wait()
            return
        super().hand_on(request)


@dataclass(frozen=True)
class SigningKey:
    """A key of AWS, and what signatures by it must be for."""

    access_key: str
    secret_key: str
    region: str
    service: str

    def has_signed(self, request: BaseHTTPRequestHandler, body: bytes, uri: str) -> bool:
        """Return whether a request has the signature that botocore computes by this key."""
        parts = _AUTHORIZATION.fullmatch(request.headers.get("Authorization", ""))
        if parts is None or parts.group(1, 2, 3) != (self.access_key, self.region, self.service):
            return False
        signed_headers = {name: request.headers[name] for name in parts[4].split(";")}
        content = hashlib.sha256(body).hexdigest()
        if signed_headers.get("x-amz-content-sha256", content) != content:
            return False
        signed_request = AWSRequest(
            request.command, uri + request.path, headers=signed_headers, data=body
        )
        signed_request.context["timestamp"] = signed_headers["x-amz-date"]
        signer = SigV4Auth(Credentials(self.access_key, self.secret_key), self.service, self.region)
        text = signer.string_to_sign(signed_request, signer.canonical_request(signed_request))
        return bool(signer.signature(text, signed_request) == parts[5])


@dataclass
class Logins:
    """The logins that a guarded catalog accepts.

    Attributes:
        tokens: those that let in.
        credential: ``id:secret``, for which POST to /login gives a token.
        scope: what such a login must ask for.
        key: requests must be signed by it instead; None: they need a token.
        is_reader: a login may change nothing.
    """

    tokens: set[str] = field(default_factory=set)
    credential: str = ""
    scope: str = "catalog"
    key: SigningKey | None = None
    is_reader: bool = False


class GuardedCatalog(CatalogProxy):
    """A proxy that passes on the requests with a valid login."""

    def __init__(self, uri: str, logins: Logins) -> None:
        self.logins = logins
        super().__init__(uri)

    def hand_on(self, request: BaseHTTPRequestHandler) -> None:
        body, logins = body_of(request), self.logins
        if request.path == "/login":
            self._log_in(request, body)
        elif request.path == "/page":  # another server
            respond(request, 200, b"<html></html>", "text/html")
        elif logins.key is not None and not logins.key.has_signed(request, body, self.uri):
            _refuse(request, 403, "ForbiddenException", "the signature does not match")
        elif logins.key is None and request.headers.get("Authorization") not in {
            f"Bearer {token}" for token in logins.tokens
        }:
            _refuse(request, 401, "NotAuthorizedException", "the token is not valid")
        elif logins.is_reader and request.command == "POST":
            _refuse(request, 403, "ForbiddenException", "a reader changes nothing")
        else:
            self.hand_on_body(request, body)

    def _log_in(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
        credential = f"{form.get('client_id')}:{form.get('client_secret')}"
        if credential != self.logins.credential:
            answer = {"error": "invalid_client", "error_description": "nobody knows this secret"}
            _answer(request, 401, answer)
        elif form.get("scope") != self.logins.scope:
            _answer(request, 400, {"error": "invalid_scope"})
        else:
            token = uuid.uuid4().hex
            self.logins.tokens.add(token)
            _answer(request, 200, {"access_token": token, "token_type": "bearer"})


def body_of(request: BaseHTTPRequestHandler) -> bytes:
    return request.rfile.read(int(request.headers.get("Content-Length", 0)))


def respond(request: BaseHTTPRequestHandler, status: int, content: bytes, kind: str) -> None:
    request.send_response(status)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(content)


def _refuse(request: BaseHTTPRequestHandler, code: int, kind: str, message: str) -> None:
    _answer(request, code, {"error": {"message": message, "type": kind, "code": code}})


def _answer(request: BaseHTTPRequestHandler, status: int, answer: Any) -> None:
    respond(request, status, json.dumps(answer).encode(), "application/json")
