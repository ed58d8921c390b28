"""A connection to a NameNode on which requests or answers get lost, as on a bad network.

What is chosen is struck once, and the connection is cut, as a client sees it when a machine or a
switch goes away.
"""

from __future__ import annotations

import enum
import socket
import threading
from contextlib import suppress


class Loss(enum.Enum):
    """What becomes of a request: it is done and nobody hears of it, or never arrives."""

    ANSWER = "answer"
    REQUEST = "request"


class LossyLink:
    """Forwards a port to another; a context."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._method = b""
        self._loss = Loss.ANSWER
        self.lost = 0

    def lose(self, method: str, loss: Loss) -> None:
        """Strike the next request of a method, as Hadoop's protocol names it."""
        self._method, self._loss = method.encode(), loss

    def __enter__(self) -> LossyLink:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._forward,
                        args=(source, sink, source is client),
                        daemon=True,
                    ).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_request: bool) -> None:
        # The server's end of a connection is read by the other thread: it must not pass anything
        # on once the connection is cut, so the client's side is closed first.
        with suppress(OSError):
            while data := source.recv(1 << 20):
                if is_request and self._method and self._method in data:
                    self._strike(source, sink, data)
                    return
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _strike(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        self._method = b""
        self.lost += 1
        client.shutdown(socket.SHUT_RDWR)
        if self._loss is Loss.ANSWER:
            server.sendall(data)
            # Closing in order lets the NameNode take what was sent.
            server.shutdown(socket.SHUT_WR)
        else:
            server.close()
