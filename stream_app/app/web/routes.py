"""The HTTP server of the pages.

The server reads a page from the tables when a browser asks for it. The browser keeps the page's
event stream open. While a browser listens, the server looks for new snapshots, and sends the
version of the content. A browser whose page has another version fetches the page again. Without
JavaScript the page is the same, but does not refresh itself.

Pages load nothing from elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
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

from stream_app.app.inspect.table_status import TableStatus
from stream_app.app.web.actions import (
    ACTIONS,
    HELD_EXPLANATION,
    REPLAY,
    ActionKind,
    Actions,
    offered_actions,
)
from stream_app.app.web.drawings.bar_charts import epoch_chart
from stream_app.app.web.drawings.trees import OPEN_BUCKETS_MAX
from stream_app.app.web.page_version import PAGE_CHECK_INTERVAL_S, LiveUpdates, PageVersion
from stream_app.app.web.pages import escaped, page
from stream_app.app.web.site import Site
from stream_app.app.web.table_list import ORDERS, ListChoice, state_counts
from stream_app.app.web.table_page import (
    QUERY_ROWS_MAX,
    MatchingRows,
    changes_of,
    read_matching_rows,
    table_page,
)
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
_SIGN_OF_LIFE_S = 15.0
"""The time without a change after which an event stream sends a comment, against timeouts."""
_CHANGED_SNAPSHOTS_MAX = 5
_DEFAULT_ROWS_MAX = 50
READ_S = 10.0
"""The number of seconds for which a read may search for rows."""
_READS_MAX = 2
"""The maximum number of concurrent reads of rows or changes: a job's driver may run the server."""
_ACTION_FIX = "act on the page of the table itself, which offers its actions"
_FORM_MAX = 16384
"""The maximum size of a form in bytes."""


def web_app(site: Site, actions: Actions) -> Starlette:
    """Return the pages of a site.

    Args:
        actions: the actions of the same site.
    """
    routes = _Routes(site, actions)
    return Starlette(
        routes=[
            Route("/", routes.tables),
            Route("/tables/{name}", routes.table),
            Route("/tables/{name}/rows", routes.rows),
            Route("/tables/{name}/changes", routes.changes),
            Route("/tables/{name}/actions", routes.begin_action, methods=["POST"]),
            Route("/tables/{name}/actions/{action}", routes.confirm_action),
            Route("/actions", routes.begin_action, methods=["POST"]),
            Route("/actions/{action}", routes.confirm_action),
            Route("/settings", routes.settings),
            Route("/events", routes.events),
            Route("/events/{name}", routes.events),
            Route("/healthz", routes.healthy),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ]
    )


@dataclass(slots=True)
class _Routes:
    """The routes of a site. Each method answers the requests of one; threads read the tables."""

    site: Site
    actions: Actions
    _versions: dict[str, PageVersion] = field(init=False, default_factory=dict)
    _reads: asyncio.Semaphore = field(
        init=False, default_factory=lambda: asyncio.Semaphore(_READS_MAX)
    )

    async def tables(self, request: Request) -> Response:
        choice = ListChoice.from_query(request.query_params)

        def read() -> str:
            tables = self.site.tables()
            return self._page(
                "tables", tables=tables, chosen=choice.select(tables), choice=choice,
                states=state_counts(tables), orders=ORDERS, live_updates=live_updates,
                glance=self.site.glance(tables), unassigned=self.site.unassigned_records(),
                action_runs=self.actions.runs(""), offered=[REPLAY] if self.actions.are_on else (),
            )  # fmt: skip

        live_updates = await self._live_updates("")
        return await self._response(read, live_updates)

    async def table(self, request: Request) -> Response:
        name = request.path_params["name"]

        def read() -> str:
            status = self.site.status(name)
            table = self.site.open(name)
            activity, epochs = self.site.activity_of(name), self.site.epochs(name)
            shown_table = table_page(name, table, partial(self.site.quarantine, name), activity)
            return self._page(
                "table", shown=shown_table, status=status, chart=epoch_chart(epochs), epochs=epochs,
                offered=self._offered_kinds(name, status), action_runs=self.actions.runs(name),
                live_updates=live_updates, ends_problem=self.site.ends_problem,
                held_explanation=HELD_EXPLANATION, trees_open=OPEN_BUCKETS_MAX,
            )  # fmt: skip

        live_updates = await self._live_updates(name)
        return await self._response(read, live_updates, name)

    async def confirm_action(self, request: Request) -> Response:
        """Return the page with an action's effect, and the form that begins it."""
        name = request.path_params.get("name", "")
        action = ACTIONS.get(request.path_params["action"])
        if action is None or not self.actions.are_on:
            return self._problem(UsageError("there is no such action", fix=_ACTION_FIX), 404)
        return self._html(self._page("confirm", name=name, action=action), 200)

    async def begin_action(self, request: Request) -> Response:
        """Begin an action, and go back to the page of the table, which shows the outcome.

        Without a table it is an action of the job, and the list shows the outcome.
        """
        name = request.path_params.get("name", "")
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > _FORM_MAX:
            return self._problem(UsageError("this is not a form of the page", fix=_ACTION_FIX), 413)
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
        path = f"/tables/{quote(name, safe='')}" if name else "/"
        return RedirectResponse(f"{path}#actions", 303, headers=_HEADERS)

    async def rows(self, request: Request) -> Response:
        name, where = request.path_params["name"], request.query_params.get("where", "").strip()
        limit = _limit(request.query_params.get("limit"))

        def read() -> str:
            deadline_s = time.monotonic() + READ_S
            filter_error = None
            matching_rows = MatchingRows()
            try:
                matching_rows = read_matching_rows(
                    self.site.open(name), where or None, limit,
                    lambda: time.monotonic() < deadline_s and not client_gone.is_set(),
                )  # fmt: skip
            except UsageError as error:
                filter_error = error
            return self._page(
                "rows", name=name, where=where, limit=limit, shown=matching_rows,
                filter_error=filter_error, read_s=READ_S,
            )  # fmt: skip

        client_gone = threading.Event()
        watch = asyncio.create_task(_set_when_gone(request, client_gone))
        try:
            async with self._reads:
                return await self._response(read)
        finally:
            watch.cancel()

    async def changes(self, request: Request) -> Response:
        name = request.path_params["name"]

        def read() -> str:
            deadline_s = time.monotonic() + READ_S
            columns, rows = changes_of(
                self.site.open(name), _CHANGED_SNAPSHOTS_MAX, lambda: time.monotonic() < deadline_s
            )
            return self._page(
                "changes", name=name, columns=columns, rows=rows,
                snapshots=_CHANGED_SNAPSHOTS_MAX, live_updates=live_updates,
            )  # fmt: skip

        live_updates = await self._live_updates(name)
        async with self._reads:
            return await self._response(read, live_updates)

    async def settings(self, _: Request) -> Response:
        return await self._response(lambda: self._page("settings"))

    async def healthy(self, _: Request) -> Response:
        return PlainTextResponse("alive\n", headers=_HEADERS)

    async def events(self, request: Request) -> Response:
        """Return a stream of versions of a page: the present one, and each later one."""
        name = request.path_params.get("name", "")
        if name:
            try:
                await run_in_threadpool(self.site.open, name)
            except TableNotFoundError as error:
                if await run_in_threadpool(self._status, name) is None:
                    return PlainTextResponse(f"{error.problem}\n", 404, headers=_HEADERS)
            except (StreamAppError, OSError) as error:  # its page says so, and may be fixed
                _LOG.warning("the table %s cannot be read: %s", name, error)
        return StreamingResponse(
            self._events(name, request.is_disconnected),
            media_type="text/event-stream",
            headers=_HEADERS,
        )

    async def _live_updates(self, name: str) -> LiveUpdates:
        """Return a page's version, read before its content, which is of this version or newer."""
        path = f"/events/{quote(name, safe='')}" if name else "/events"
        version = self._versions.get(name) or PageVersion(self.site, self.actions, name)
        if not name:
            self._versions[name] = version  # checking all tables is expensive
        return LiveUpdates(path, await version.now())

    async def _response(
        self, read: Callable[[], str], live_updates: LiveUpdates | None = None, name: str = ""
    ) -> Response:
        """Return a page, or the page of its error.

        Args:
            live_updates: how the page learns that it is outdated; None if it does not refresh.
            name: the name of the table whose state and actions are shown beside an error.
        """
        try:
            text = await run_in_threadpool(read)
        except TableNotFoundError as error:
            return await run_in_threadpool(self._problem, error, 404, live_updates, name)
        except StreamAppError as error:
            return await run_in_threadpool(self._problem, error, 500, live_updates, name)
        except OSError as error:
            problem = StreamAppError(str(error), fix="look at the store, and load the page again")
            return await run_in_threadpool(self._problem, problem, 500, live_updates, name)
        return self._html(text, 200)

    def _problem(
        self,
        error: StreamAppError,
        code: int,
        live_updates: LiveUpdates | None = None,
        name: str = "",
    ) -> Response:
        status = self._status(name) if name else None
        text = self._page(
            "problem", error=error, live_updates=live_updates, name=name, status=status,
            held_explanation=HELD_EXPLANATION,
            offered=self._offered_kinds(name, status, can_open=False) if name else (),
            action_runs=self.actions.runs(name),
        )  # fmt: skip
        return self._html(text, code)

    def _status(self, name: str) -> TableStatus | None:
        """Return the status of a table, or None if it is not in the list or cannot be read."""
        try:
            return self.site.status(name)
        except (StreamAppError, OSError):
            return None

    def _offered_kinds(
        self, name: str, status: TableStatus | None, *, can_open: bool = True
    ) -> Sequence[ActionKind]:
        if not self.actions.are_on:
            return ()
        state = None if status is None else status.state
        return offered_actions(state, can_open=can_open, can_replay=self._can_replay(name))

    def _html(self, text: str, code: int) -> Response:
        """Return a page without secrets. Characters that are not Unicode are escaped."""
        for secrets in (self.site.secrets, self.actions.secrets):
            text = secrets.hide_escaped(text, escaped)
        data = text.encode(errors="backslashreplace")
        return HTMLResponse(data, code, headers=_HEADERS)

    def _page(self, template: str, **values: Any) -> str:
        return page(
            template,
            **{"site": self.site, "live_updates": None, "can_act": self.actions.are_on} | values,
        )

    def _can_replay(self, name: str) -> bool:
        try:
            return self.site.quarantine(name) is not None
        except (StreamAppError, OSError):
            return False

    async def _events(
        self, name: str, is_gone: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[str]:
        clock_s = asyncio.get_running_loop().time
        version = self._versions.setdefault(name, PageVersion(self.site, self.actions, name))
        last_sent = ""
        sent_at_s = clock_s()
        yield "retry: 2000\n\n"
        while not await is_gone():
            current_version = await version.now()
            if current_version != last_sent:
                last_sent = current_version
                sent_at_s = clock_s()
                yield f"event: changed\ndata: {current_version}\n\n"
            elif clock_s() - sent_at_s > _SIGN_OF_LIFE_S:
                sent_at_s = clock_s()
                yield ": nothing new\n\n"
            await asyncio.sleep(PAGE_CHECK_INTERVAL_S)


async def _set_when_gone(request: Request, client_gone: threading.Event) -> None:
    """Set the event when the browser has gone away."""
    while not await request.is_disconnected():
        await asyncio.sleep(PAGE_CHECK_INTERVAL_S)
    client_gone.set()


def _limit(text: str | None) -> int:
    if text is None or not text.isdecimal():
        return _DEFAULT_ROWS_MAX
    if len(text) > len(str(QUERY_ROWS_MAX)):
        return QUERY_ROWS_MAX
    return min(max(1, int(text)), QUERY_ROWS_MAX)
