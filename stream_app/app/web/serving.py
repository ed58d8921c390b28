"""Runs the server of the pages until it is ended.

It only answers requests for known host names and for addresses. So a page of another site cannot
read it through a name that resolves to this server.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from stream_app.app.http.asgi_server import Server
from stream_app.app.http.connection_guard import (
    Guard,
    PortLimits,
    is_port_taken,
    open_listener,
    port_connections_max,
)
from stream_app.app.web.actions import ACTION_WAIT_S, Actions
from stream_app.app.web.routes import web_app
from stream_app.app.web.site import Site
from stream_app.errors import UsageError

_LOCAL = "localhost"
_CONNECTIONS_MAX = 128
"""The maximum number of connections. A page has one for its events, and more while it loads."""
_EVENTS = b"GET /events"
ANY_NAME = "*"


def answers_to(host: str, names: Collection[str]) -> bool:
    """Return whether the server answers to the name of a request; it answers to each address.

    Args:
        host: the header ``Host``, with or without a port.
        names: the accepted names in lower case; `ANY_NAME` accepts all names.
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:  # brackets without an address
        return False
    return ANY_NAME in names or name in names or _is_address(name)


def serve(
    site: Site, host: str, port: int, token: str | None = None, names: Collection[str] = ()
) -> None:
    """Serve a site until the process is asked to end.

    Args:
        host: the address to listen at.
        port: the port; 0 chooses a free port.
        token: the token of actions; None turns actions off.
        names: host names that requests may use, in addition to ``localhost``, `host` and the
            machine's own name.

    Raises:
        UsageError: the address or port is not available.
    """
    with _open_listener(host, port) as listener:
        print(f"{_address(listener)} shows {site.title}; Ctrl-C ends it", flush=True)
        actions = Actions(site, token)
        try:
            _server(actions, {host, *names}).run(sockets=[listener])
        finally:
            actions.close()


@contextmanager
def serving_pages(
    site: Site,
    host: str,
    port: int,
    token: str | None = None,
    patience_s: float = ACTION_WAIT_S,
    names: Collection[str] = (),
) -> Iterator[str]:
    """Serve a site within the block, in a thread, and yield the site's address.

    Args:
        token: the token of actions; None turns actions off.
        patience_s: seconds for which a request waits for the end of its action.
        names: further host names that requests may use, as for `serve`.

    Raises:
        UsageError: the address or port is not available.
    """
    with _open_listener(host, port) as listener:
        actions = Actions(site, token, patience_s=patience_s)
        try:
            with _server(actions, {host, *names}).serving(listener):
                yield _address(listener)
        finally:
            actions.close()


@dataclass(frozen=True, slots=True)
class _NamedServer:
    """An application that answers only requests for the server's names."""

    app: ASGIApp
    names: Collection[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "")
        if answers_to(host, self.names):
            with suppress(ClientDisconnect):  # amid the form that it sends
                await self.app(scope, receive, send)
        else:
            refusal = (
                "the page does not answer to this name; add it to stream.web-names, or --name\n"
            )
            await PlainTextResponse(refusal, 400)(scope, receive, send)


def _server(actions: Actions, names: Collection[str]) -> Server:
    accepted_hosts = {name.lower() for name in (_LOCAL, socket.gethostname(), *names)}
    guard = Guard(
        "the port of the page",
        PortLimits(connections_max=port_connections_max(_CONNECTIONS_MAX)),
        lambda line: line.startswith(_EVENTS),
    )
    return Server(_NamedServer(web_app(actions.site, actions), frozenset(accepted_hosts)), guard)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown_host = f"[{host}]" if ":" in host else host
    return f"http://{shown_host}:{port}/"


def _open_listener(host: str, port: int) -> socket.socket:
    try:
        return open_listener(host, port)
    except OverflowError:
        raise UsageError(f"{port} is not a port", fix="give one from 1 to 65535") from None
    except OSError as error:
        raise UsageError(
            f"the page cannot be served at {host}:{port}: {error.strerror}",
            fix="choose another port" if is_port_taken(error) else "choose another address or port",
        ) from None
