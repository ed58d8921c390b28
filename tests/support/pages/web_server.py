"""A warehouse whose pages are served in this process, asked over HTTP."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from stream_app.app.web.serving import serving_pages
from stream_app.app.web.site import WarehouseSite
from stream_app.clock import Clock, SystemClock
from stream_app.fileio.store_registry import file_io_of
from tests.support.tables.small_table import SmallTable, small_table

PATIENCE_S = 120.0
"""Seconds until an action of the page has ended, at most, on a machine with much else to do."""


@dataclass
class Warehouse:
    """A warehouse with a server."""

    path: Path
    server: str

    def table(self, name: str, columns: str = "k INT, v STRING", **options: Any) -> SmallTable:
        database, _, table = name.partition(".")
        return small_table(self.path / f"{database}.db" / table, columns, ("k",), **options)

    def get(self, path: str, *, status: int = 200, host: str | None = None) -> str:
        """Return the body of a page."""
        with self.response(path, host) as answer:
            assert answer.status == status
            return answer.read().decode()

    def words(self, path: str, *, status: int = 200) -> str:
        """Return a page without its tags, with folded blanks."""
        text = re.sub("<[^>]+>", " ", self.get(path, status=status))
        return re.sub(r"\s+", " ", unescape(text))

    @contextmanager
    def response(self, path: str, host: str | None = None) -> Iterator[http.client.HTTPResponse]:
        address = urlsplit(self.server)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)
        try:
            connection.request("GET", path, headers={} if host is None else {"Host": host})
            yield connection.getresponse()
        finally:
            connection.close()

    def post(self, path: str, form: Mapping[str, str], **headers: str) -> tuple[int, str]:
        """Send a form; return the status and the body of the answer."""
        address = urlsplit(self.server)
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=2 * PATIENCE_S
        )
        try:
            fields = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("POST", path, urlencode(form), headers=fields)
            answer = connection.getresponse()
            return answer.status, unescape(answer.read().decode())
        finally:
            connection.close()


def versions(answer: http.client.HTTPResponse) -> Iterator[str]:
    """Yield the versions of a stream of events, as they come."""
    for line in iter(answer.readline, b""):
        if line.startswith(b"data: "):
            yield line.removeprefix(b"data: ").decode().strip()


@contextmanager
def served_warehouse(
    path: Path, token: str | None = None, clock: Clock | None = None
) -> Iterator[Warehouse]:
    """Yield the warehouse in a folder, with a server."""
    site = WarehouseSite(*file_io_of(str(path)), {}, clock or SystemClock())
    with serving_pages(site, "127.0.0.1", 0, token, PATIENCE_S) as address:
        yield Warehouse(path, address)


def rows(*keys: int) -> list[tuple[str, dict[str, object]]]:
    return [("+I", {"k": key, "v": f"v{key}"}) for key in keys]
