"""Serves an ASGI application with uvicorn, behind a guard and with one request per connection.

`web.serving` and `observe.metrics.endpoint` use it. The guard limits the connections of a port
and their duration. The system queues at most `connection_guard.BACKLOG` connections.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from stream_app.app.http.connection_guard import BACKLOG, Guard

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
Application = Callable[[AsgiMessage, Receive, Send], Awaitable[None]]
"""An application as the ASGI specification defines it."""


class Server(uvicorn.Server):
    """Uvicorn behind a guard.

    It closes each connection after one response, so that the guard knows the connection's stage.
    """

    def __init__(self, application: Application, guard: Guard) -> None:
        async def respond_once(scope: AsgiMessage, receive: Receive, send: Send) -> None:
            async def send_with_close(message: AsgiMessage) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
                await send(message)

            await application(scope, receive, send_with_close)

        # The level is error, because uvicorn would warn of each request that is not HTTP.
        config = uvicorn.Config(
            respond_once, http="h11", ws="none", lifespan="off", log_level="error", backlog=BACKLOG,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        config.load()
        guarded_class = guard.guarded_protocol(config.http_protocol_class)
        config.http_protocol_class = guarded_class  # type: ignore[assignment]
        super().__init__(config)
        self._guard = guard

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the server should exit."""
        self._guard.watch(asyncio.get_running_loop())
        await super().serve(sockets)

    @contextmanager
    def serving(self, listener: socket.socket) -> Iterator[None]:
        """Serve within the block in a thread, and close the socket afterwards."""
        thread = threading.Thread(
            target=self.run,
            kwargs={"sockets": [listener]},
            name=self._guard.name,
            daemon=True,
        )
        with listener:
            thread.start()
            try:
                yield
            finally:
                self.should_exit = True
                thread.join()
