"""A connection to a NameNode on which requests or answers get lost, as on a bad network.

What is chosen is struck once, and the connection is cut, as a client sees it when a machine or a
switch goes away.
"""

from __future__ import annotations

import enum
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


class Loss(enum.Enum):
    """The fate of a request: it is done without an answer, or it never arrives."""

    ANSWER = "answer"
    REQUEST = "request"


class LossyLink:
    """A context that forwards a port to another."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._method = b""
        self._loss = Loss.ANSWER
        self.lost = 0

    def lose(self, method: str, loss: Loss) -> None:
        """Strike the next request of a method, as Hadoop's protocol names it."""
        # A field of protobuf: number and kind, length, text.
        self._method, self._loss = b"\x0a" + bytes([len(method)]) + method.encode(), loss

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
                connection = _Connection(client, server)
                for forward in (self._requests, self._answers):
                    threading.Thread(target=forward, args=(connection,), daemon=True).start()

    def _requests(self, connection: _Connection) -> None:
        with connection.cut_at_the_end():
            while data := connection.client.recv(1 << 20):
                if self._method and self._method in data:
                    self._method = b""
                    self.lost += 1
                    if self._loss is Loss.REQUEST:
                        return
                    connection.loses_answer = True  # when it comes, it has been done
                connection.server.sendall(data)

    def _answers(self, connection: _Connection) -> None:
        with connection.cut_at_the_end():
            while data := connection.server.recv(1 << 20):
                if connection.loses_answer:
                    return
                connection.client.sendall(data)


@dataclass
class _Connection:
    client: socket.socket
    server: socket.socket
    loses_answer: bool = False

    @contextmanager
    def cut_at_the_end(self) -> Iterator[None]:
        with suppress(OSError):
            yield
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
