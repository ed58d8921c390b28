"""Runs the server of the pages until it is ended."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from stream_app.app.web.actions import PATIENCE_S, Actions
from stream_app.app.web.server import web_app
from stream_app.app.web.site import LOCAL_HOST, Site
from stream_app.errors import UsageError

LOCAL_NAMES = [LOCAL_HOST, "localhost"]


def serve(site: Site, host: str, port: int, token: str | None = None) -> None:
    """Serve a site; returns when the process is asked to end.

    Args:
        host: address to listen at.
        port: 0: any that is free.
        token: of actions; None: there are none.

    Raises:
        UsageError: it cannot listen there.
    """
    with _listening(host, port) as listener:
        print(f"{_address(listener)} shows {site.title}; Ctrl-C ends it", flush=True)
        actions = Actions(site, token)
        try:
            _server(actions, listener).run(sockets=[listener])
        finally:
            actions.close()


@contextmanager
def serving(
    site: Site, host: str, port: int, token: str | None = None, patience_s: float = PATIENCE_S
) -> Iterator[str]:
    """Serve a site within the block, in a thread; gives its address.

    Args:
        token: as `serve`.
        patience_s: as `Actions`.

    Raises:
        UsageError: it cannot listen there.
    """
    with _listening(host, port) as listener:
        actions = Actions(site, token, patience_s=patience_s)
        server = _server(actions, listener)
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listener]}, name="web", daemon=True
        )
        thread.start()
        try:
            yield _address(listener)
        finally:
            server.should_exit = True
            thread.join()
            actions.close()


def _server(actions: Actions, listener: socket.socket) -> uvicorn.Server:
    is_local = listener.getsockname()[0] in LOCAL_NAMES
    app = web_app(actions.site, LOCAL_NAMES if is_local else ["*"], actions)
    return uvicorn.Server(
        uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    )


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{host}:{port}/"


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OverflowError:
        raise UsageError(f"{port} is no port", fix="give one from 1 to 65535") from None
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise UsageError(
            f"the page cannot be served at {host}:{port}: {error.strerror}",
            fix="choose another port" if taken else "choose another address or port",
        ) from None
