"""The HTTP server of the pages.

Pages are read from the tables when they are asked for. A browser keeps a page's event stream open;
the server looks for new snapshots while somebody listens, and the browser then fetches the page's
middle again. Without JavaScript the page is the same and stands still.

The server answers to the names that it was started for only, so that a foreign page cannot read it
through a name that it has pointed here. Pages load nothing from elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from stream_app.app.web.epoch_drawing import epoch_chart
from stream_app.app.web.pages import escaped, page
from stream_app.app.web.site import Site
from stream_app.app.web.table_page import QUERY_ROWS_MAX, changes_of, rows_of, table_page
from stream_app.errors import StreamAppError, TableNotFoundError, UsageError

_LOG = logging.getLogger(__name__)
_STATIC = Path(__file__).parent / "static"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
LOOK_S = 1.0
"""Seconds between two looks for something new."""
_ALIVE_S = 15.0
_CHANGED_SNAPSHOTS = 5
_LIMIT = 50


def web_app(site: Site, hosts: list[str]) -> Starlette:
    """The pages of a site.

    Args:
        hosts: names under which it answers; ``*``: all.
    """
    pages = _Pages(site)
    return Starlette(
        routes=[
            Route("/", pages.tables),
            Route("/tables/{name}", pages.table),
            Route("/tables/{name}/rows", pages.rows),
            Route("/tables/{name}/changes", pages.changes),
            Route("/settings", pages.settings),
            Route("/events", pages.events),
            Route("/events/{name}", pages.events),
            Route("/healthz", pages.healthy),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
    )


@dataclass(slots=True)
class _Pages:
    """Answers requests; tables are read in threads."""

    site: Site
    _versions: dict[str, _Version] = field(default_factory=dict)

    async def tables(self, _: Request) -> Response:
        return await self._answer(lambda: page("tables", site=self.site, tables=self.site.tables()))

    async def table(self, request: Request) -> Response:
        name = request.path_params["name"]

        def read() -> str:
            table = self.site.open(name)
            shown = table_page(name, table, partial(self.site.quarantine, name))
            chart = epoch_chart(self.site.epochs(name))
            return page("table", site=self.site, shown=shown, chart=chart)

        return await self._answer(read)

    async def rows(self, request: Request) -> Response:
        name, where = request.path_params["name"], request.query_params.get("where", "").strip()
        limit = _limit(request.query_params.get("limit"))

        def read() -> str:
            table, problem = self.site.open(name), None
            try:
                columns, rows = rows_of(table, where or None, limit)
            except UsageError as error:
                columns, rows, problem = [], [], error
            return page(
                "rows", site=self.site, name=name, where=where, limit=limit, columns=columns,
                rows=rows, problem=problem,
            )  # fmt: skip

        return await self._answer(read)

    async def changes(self, request: Request) -> Response:
        name = request.path_params["name"]

        def read() -> str:
            columns, rows = changes_of(self.site.open(name), _CHANGED_SNAPSHOTS)
            return page(
                "changes", site=self.site, name=name, columns=columns, rows=rows,
                snapshots=_CHANGED_SNAPSHOTS,
            )  # fmt: skip

        return await self._answer(read)

    async def settings(self, _: Request) -> Response:
        return await self._answer(lambda: page("settings", site=self.site, flat=_flat))

    async def healthy(self, _: Request) -> Response:
        return PlainTextResponse("alive\n", headers=_HEADERS)

    async def events(self, request: Request) -> Response:
        """An event ``changed`` whenever the page of a table, or the list, has something new."""
        name = request.path_params.get("name", "")
        if name:
            try:
                await run_in_threadpool(self.site.open, name)
            except TableNotFoundError as error:
                return PlainTextResponse(f"{error.what}\n", 404, headers=_HEADERS)
            except (StreamAppError, OSError) as error:  # its page says so, and may be mended
                _LOG.warning("the table %s cannot be read: %s", name, error)
        return StreamingResponse(
            self._events(name, request.is_disconnected),
            media_type="text/event-stream",
            headers=_HEADERS,
        )

    async def _answer(self, read: Callable[[], str]) -> Response:
        """A page, or the page of its error, without secrets."""
        try:
            text, status = await run_in_threadpool(read), 200
        except TableNotFoundError as error:
            text, status = page("problem", error=error), 404
        except StreamAppError as error:
            text, status = page("problem", error=error), 500
        except OSError as error:
            problem = StreamAppError(str(error), fix="look at the store, and load the page again")
            text, status = page("problem", error=problem), 500
        shown = self.site.secrets.hide_escaped(text, escaped)
        return HTMLResponse(shown, status, headers=_HEADERS)

    async def _events(
        self, name: str, is_gone: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[str]:
        looks = asyncio.get_running_loop().time
        version = self._versions.setdefault(name, _Version(self.site, name))
        seen, said_at = await version.now(), looks()
        yield "retry: 2000\n\n"
        while not await is_gone():
            await asyncio.sleep(LOOK_S)
            now = await version.now()
            if now != seen:
                seen, said_at = now, looks()
                yield f"event: changed\ndata: {json.dumps(name)}\n\n"
            elif looks() - said_at > _ALIVE_S:
                said_at = looks()
                yield ": nothing new\n\n"


@dataclass(slots=True)
class _Version:
    """What tells whether a page is still right, looked up once for all its listeners."""

    site: Site
    name: str
    _value: Hashable = None
    _at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def now(self) -> Hashable:
        async with self._lock:
            time = asyncio.get_running_loop().time()
            if time - self._at >= LOOK_S / 2:
                self._value = await run_in_threadpool(self._look)
                self._at = asyncio.get_running_loop().time()
        return self._value

    def _look(self) -> Hashable:
        try:
            if self.name:
                table = self.site.open(self.name)
                return table.snapshots.latest_id(), table.schema.schema_id
            return tuple((one.table, one.state, one.snapshot) for one in self.site.tables())
        except (StreamAppError, OSError) as error:
            return str(error)


def _limit(text: str | None) -> int:
    if text is None or not text.isdecimal():
        return _LIMIT
    if len(text) > len(str(QUERY_ROWS_MAX)):
        return QUERY_ROWS_MAX
    return min(max(1, int(text)), QUERY_ROWS_MAX)


def _flat(settings: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Keys with dots, and their values."""
    found: list[tuple[str, object]] = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{key}.")
        elif value not in (None, "", ()):
            found.append((f"{prefix}{key}", value))
    return found
