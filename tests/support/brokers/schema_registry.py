"""A schema registry of the tests' own: a real HTTP server with Confluent's answers.

No registry can be installed from the package registries, so this one serves what the client asks.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import fastavro


@dataclass
class Registry:
    """Schemas by number, and how often each was asked for.

    Attributes:
        refusals: statuses that requests for a number get first, each with a place to go to.
        logins: of all requests.
        guids: the number of a schema, by its GUID.
        subjects: schemas to which others refer, by subject and version.
    """

    url: str = ""
    login: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    requested_ids: list[int] = field(default_factory=list)
    refusals: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    logins: list[str | None] = field(default_factory=list)
    subjects: dict[str, dict[str, Any]] = field(default_factory=dict)
    guids: dict[str, int] = field(default_factory=dict)

    def add(self, schema: Any, **more: Any) -> int:
        """Return the number of a new schema."""
        number = 1000 + len(self.schemas)
        self.schemas[number] = answer_of(schema, **more)
        return number

    def without_number(self, path: str) -> Any:
        """Return the answer at a path that has no number, or None: there is nothing."""
        if path.startswith("/schemas/guids/"):
            numbers = [number for guid, number in self.guids.items() if guid in path]
            return [{"context": ".", "id": number} for number in numbers] or None
        return self.subjects.get(path)

    def refer(self, name: str, schema: Any, **more: Any) -> dict[str, Any]:
        """Return a reference to a new schema under this name."""
        self.subjects[f"/subjects/{name}/versions/1"] = answer_of(schema, **more)
        return {"name": name, "subject": name, "version": 1}


def answer_of(schema: Any, **more: Any) -> dict[str, Any]:
    """Return the registry's answer; a text is a schema of Protobuf."""
    return {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}


def confluent_message(number: int, schema: Any, value: Any) -> bytes:
    """Return a message in Confluent's wire format."""
    out = io.BytesIO()
    out.write(struct.pack(">BI", 0, number))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@contextmanager
def schema_registry(login: str = "") -> Iterator[Registry]:
    """Run a registry on a port of its own."""
    registry = Registry(login=login)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            expected = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None
            if not self.path.startswith("/schemas/ids/"):
                schemas = registry.without_number(unquote(self.path))
                self._answer(404 if schemas is None else 200, schemas or {"error_code": 40401})
                return
            number = int(self.path.rpartition("/")[2])
            registry.requested_ids.append(number)
            registry.logins.append(self.headers.get("Authorization"))
            if refusals := registry.refusals.get(number):
                status, place = refusals.pop(0)
                self._answer(status, {"error_code": status, "message": "no"}, place)
            elif self.headers.get("Authorization") != expected:
                self._answer(401, {"error_code": 401, "message": "Unauthorized"})
            elif number not in registry.schemas:
                self._answer(404, {"error_code": 40403, "message": "Schema not found"})
            else:
                self._answer(200, registry.schemas[number])

        def _answer(self, status: int, body: Any, place: str = "") -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            if place:
                self.send_header("Location", place)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
