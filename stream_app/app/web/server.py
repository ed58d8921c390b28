"""The HTTP server of the pages.

Pages are read from the tables when they are asked for. A browser keeps a page's event stream open;
the server looks for new snapshots while somebody listens, and tells the version of what it finds. A
browser whose page has another version fetches the page again. Without JavaScript the page is the
same and stands still.

The server answers to the names that it was started for only, so that a foreign page cannot read it
through a name that it has pointed here. Pages load nothing from elsewhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from stream_app.app.inspect.job_status import TableStatus
from stream_app.app.web.actions import Actions
from stream_app.app.web.epoch_drawing import epoch_chart
from stream_app.app.web.pages import escaped, page
from stream_app.app.web.site import Site
from stream_app.app.web.table_list import ORDERS, ListChoice, states
from stream_app.app.web.table_page import QUERY_ROWS_MAX, FoundRows, changes_of, rows_of, table_page
from stream_app.app.web.table_parts import BadRecords, bad_records
from stream_app.errors import StreamAppError, TableNotFoundError, UsageError
from stream_app.table.storage_errors import storage_error

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
_REST = 4
"""Times the duration of a look until the next one: a slow store is not asked all the time."""
_ALIVE_S = 15.0
_CHANGED_SNAPSHOTS = 5
_LIMIT = 50
READ_S = 10.0
"""Seconds for which a read looks for rows."""
_READS = 2
"""Reads of rows or changes at a time: the server may be the driver of the job."""
_FORM_MAX = 16384
"""Bytes of a form."""


def web_app(site: Site, hosts: list[str], actions: Actions) -> Starlette:
    """The pages of a site.

    Args:
        hosts: names under which it answers; ``*``: all.
        actions: of the same site.
    """
    pages = _Pages(site, actions)
    return Starlette(
        routes=[
            Route("/", pages.tables),
            Route("/tables/{name}", pages.table),
            Route("/tables/{name}/rows", pages.rows),
            Route("/tables/{name}/changes", pages.changes),
            Route("/tables/{name}/actions", pages.act, methods=["POST"]),
            Route("/actions", pages.act, methods=["POST"]),
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
    actions: Actions
    _versions: dict[str, _Version] = field(default_factory=dict)
    _reads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READS))

    async def tables(self, request: Request) -> Response:
        choice = ListChoice.of(request.query_params)

        def read() -> str:
            tables = self.site.tables()
            return self._page(
                "tables", tables=tables, chosen=choice.chosen(tables), choice=choice,
                states=states(tables), orders=ORDERS, live=live,
                glance=self.site.glance(tables), homeless=self._homeless(),
                action_runs=self.actions.runs(""),
            )  # fmt: skip

        live = await self._live("")
        return await self._answer(read, live)

    async def table(self, request: Request) -> Response:
        name = request.path_params["name"]

        def read() -> str:
            table, status = self.site.open(name), self.site.status(name)
            now, epochs = self.site.compactions(name), self.site.epochs(name)
            glance = self.site.glance(())
            shown = table_page(name, table, partial(self.site.quarantine, name), now)
            return self._page(
                "table", shown=shown, status=status, chart=epoch_chart(epochs), epochs=epochs,
                can_replay=self._can_replay(name), action_runs=self.actions.runs(name),
                live=live, no_ends=glance and glance.no_ends,
            )  # fmt: skip

        live = await self._live(name)
        return await self._answer(read, live)

    async def act(self, request: Request) -> Response:
        """Begin an action, and go back to the page of the table, which tells its outcome.

        Without a table it is the job's, and the list tells.
        """
        name = request.path_params.get("name", "")
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > _FORM_MAX:
            return self._problem(UsageError("this is no form of the page"), 413)
        form = dict(parse_qsl((await request.body()).decode(errors="replace")))
        refusal = self.actions.refusal(request.headers, form)
        if refusal is not None:
            return self._problem(refusal, 403)
        try:
            await run_in_threadpool(self.actions.begin, name, form)
        except TableNotFoundError as error:
            return self._problem(error, 404)
        except StreamAppError as error:
            return self._problem(error, 409)
        page_of = f"/tables/{quote(name, safe='')}" if name else "/"
        return RedirectResponse(f"{page_of}#actions", 303, headers=_HEADERS)

    async def rows(self, request: Request) -> Response:
        name, where = request.path_params["name"], request.query_params.get("where", "").strip()
        limit = _limit(request.query_params.get("limit"))

        def read() -> str:
            until = time.monotonic() + READ_S
            problem, found = None, FoundRows()
            try:
                found = rows_of(
                    self.site.open(name), where or None, limit,
                    lambda: time.monotonic() < until and not left.is_set(),
                )  # fmt: skip
            except UsageError as error:
                problem = error
            return self._page(
                "rows", name=name, where=where, limit=limit, found=found, problem=problem,
                read_s=READ_S,
            )  # fmt: skip

        left = threading.Event()
        watch = asyncio.create_task(_tell_left(request, left))
        try:
            async with self._reads:
                return await self._answer(read)
        finally:
            watch.cancel()

    async def changes(self, request: Request) -> Response:
        name = request.path_params["name"]

        def read() -> str:
            columns, rows = changes_of(self.site.open(name), _CHANGED_SNAPSHOTS)
            return self._page(
                "changes", name=name, columns=columns, rows=rows,
                snapshots=_CHANGED_SNAPSHOTS, live=live,
            )  # fmt: skip

        live = await self._live(name)
        async with self._reads:
            return await self._answer(read, live)

    async def settings(self, _: Request) -> Response:
        return await self._answer(lambda: self._page("settings"))

    async def healthy(self, _: Request) -> Response:
        return PlainTextResponse("alive\n", headers=_HEADERS)

    async def events(self, request: Request) -> Response:
        """The version of the page of a table, or of the list, now and whenever it is another."""
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

    async def _live(self, name: str) -> _Live:
        """Asked before the page is read: what is read may be newer, never older."""
        path = f"/events/{quote(name, safe='')}" if name else "/events"
        version = self._versions.get(name) or _Version(self.site, self.actions, name)
        return _Live(path, await version.now())

    async def _answer(self, read: Callable[[], str], live: _Live | None = None) -> Response:
        """A page, or the page of its error.

        Args:
            live: None: the page stands still.
        """
        try:
            text = await run_in_threadpool(read)
        except TableNotFoundError as error:
            return self._problem(error, 404, live)
        except StreamAppError as error:
            return self._problem(error, 500, live)
        except OSError as error:
            problem = StreamAppError(str(error), fix="look at the store, and load the page again")
            return self._problem(problem, 500, live)
        return self._html(text, 200)

    def _problem(self, error: StreamAppError, status: int, live: _Live | None = None) -> Response:
        return self._html(self._page("problem", error=error, live=live), status)

    def _html(self, text: str, status: int) -> Response:
        """A page without secrets."""
        for secrets in (self.site.secrets, self.actions.secrets):
            text = secrets.hide_escaped(text, escaped)
        return HTMLResponse(text, status, headers=_HEADERS)

    def _page(self, template: str, **values: Any) -> str:
        return page(
            template, **{"site": self.site, "live": None, "can_act": self.actions.are_on} | values
        )

    def _homeless(self) -> Sequence[BadRecords] | StreamAppError:
        """The bad messages that belong to no table, or why they cannot be read."""
        try:
            return bad_records((), partial(self.site.quarantine, ""))
        except StreamAppError as error:
            return error
        except OSError as error:
            return storage_error(error)

    def _can_replay(self, name: str) -> bool:
        try:
            return self.site.quarantine(name) is not None
        except (StreamAppError, OSError):
            return False

    async def _events(
        self, name: str, is_gone: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[str]:
        looks = asyncio.get_running_loop().time
        version = self._versions.setdefault(name, _Version(self.site, self.actions, name))
        seen, said_at = "", looks()
        yield "retry: 2000\n\n"
        while not await is_gone():
            now = await version.now()
            if now != seen:
                seen, said_at = now, looks()
                yield f"event: changed\ndata: {now}\n\n"
            elif looks() - said_at > _ALIVE_S:
                said_at = looks()
                yield ": nothing new\n\n"
            await asyncio.sleep(LOOK_S)


@dataclass(frozen=True, slots=True)
class _Live:
    """By what a page learns that it is old.

    Attributes:
        path: of its events.
        version: of what it shows.
    """

    path: str
    version: str


@dataclass(slots=True)
class _Version:
    """What tells whether a page is still right, looked up once for all its listeners.

    The same things have the same version, also of another process: a page may outlive its server.
    """

    site: Site
    actions: Actions
    name: str
    _value: str = ""
    _at: float = float("-inf")
    _took_s: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def now(self) -> str:
        """A digest."""
        async with self._lock:
            began = asyncio.get_running_loop().time()
            if began - self._at >= max(LOOK_S / 2, _REST * self._took_s):
                found = await run_in_threadpool(self._look)
                self._value = hashlib.sha256(repr(found).encode()).hexdigest()[:16]
                self._at = asyncio.get_running_loop().time()
                self._took_s = self._at - began
        return self._value

    def _look(self) -> Hashable:
        try:
            if self.name:
                table = self.site.open(self.name)
                now, epochs = self.site.compactions(self.name), self.site.epochs(self.name)
                status = self.site.status(self.name)
                return (
                    status and _coarse(status),
                    status and status.lag is None,
                    table.snapshots.latest_id(),
                    table.schema.schema_id,
                    now and now.under_way,
                    epochs[-1].epoch if epochs else None,
                    self.actions.pulse(self.name),
                )
            tables = self.site.tables()
            glance = self.site.glance(tables)
            return (
                tuple((_coarse(one), one.snapshot) for one in tables),
                glance and (glance.no_ends, glance.running, glance.queued, glance.waiting),
                glance and glance.is_late(tables),
                self.actions.pulse(""),
            )
        except (StreamAppError, OSError) as error:
            return str(error)


async def _tell_left(request: Request, left: threading.Event) -> None:
    """Set when the browser has gone away."""
    while not await request.is_disconnected():
        await asyncio.sleep(LOOK_S)
    left.set()


def _coarse(one: TableStatus) -> Hashable:
    """What of a status is worth a look: not each message of a lag, and ages grow by themselves."""
    lag = None if one.lag is None else one.lag.bit_length()
    return one.table, one.state, one.reason, lag, one.fresh_s == 0


def _limit(text: str | None) -> int:
    if text is None or not text.isdecimal():
        return _LIMIT
    if len(text) > len(str(QUERY_ROWS_MAX)):
        return QUERY_ROWS_MAX
    return min(max(1, int(text)), QUERY_ROWS_MAX)
