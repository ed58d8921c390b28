"""Limits a port's connections, their duration, and the log lines that strangers can cause.

Any machine that reaches a port of the job can connect, and each connection takes a file descriptor
of the job. So a guard wraps the server's own protocol. It tracks what each connection waits for,
and closes those that take too long. At the limit it closes one to accept another, so that idle
connections never block a health probe.

A connection carries one request, and the server behind the guard closes it after the response.

The guard is an asyncio `Protocol` that delegates to the server's.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
_HEAD_END = b"\r\n\r\n"
_LINE_MAX = 200
_DESCRIPTORS_SHARE = 8
"""The share of the process's descriptors, one eighth, that one port may use beside the job."""
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
BACKLOG = 64
"""The number of connections that the system queues; asyncio accepts as many at once."""


class WaitStage(Enum):
    """The event for which a connection waits."""

    HEAD = "the rest of a request's head"
    RESPONSE = "the end of the response"
    EVENTS = "events, as long as the client listens"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLimits:
    """The limits of a port.

    Attributes:
        connections_max: the maximum number of connections at the same time.
        head_timeout_s, response_timeout_s: the time limits of these stages; the stage of events has
            none.
    """

    connections_max: int
    head_timeout_s: float = 5.0
    response_timeout_s: float = 120.0

    def timeout_s(self, stage: WaitStage) -> float | None:
        """Return the time limit of a stage, or None without one."""
        match stage:
            case WaitStage.HEAD:
                return self.head_timeout_s
            case WaitStage.RESPONSE:
                return self.response_timeout_s
            case WaitStage.EVENTS:
                return None


def port_connections_max(connections_max: int) -> int:
    """Return a port's maximum of connections, lowered if the process may open few files."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return connections_max
    return max(4, min(connections_max, descriptors // _DESCRIPTORS_SHARE))


def connection_to_close(stages: Mapping[_T, WaitStage], connections_max: int) -> _T | None:
    """Return the connection to close before another one is accepted, or None below the limit.

    It chooses the oldest connection without a whole head, then the oldest that listens to events,
    because its browser reconnects by itself. If all connections await a response, it chooses the
    oldest.

    Args:
        stages: the stages of the connections, oldest connection first.
    """
    if len(stages) < connections_max:
        return None
    for stage in (WaitStage.HEAD, WaitStage.EVENTS, WaitStage.RESPONSE):
        for connection, waits_for in stages.items():
            if waits_for is stage:
                return connection
    return None


def listener_to_close(stages: Mapping[_T, WaitStage], connections_max: int) -> _T | None:
    """Return the oldest listener to events if listeners have over half of the places; else None."""
    listeners = [connection for connection, stage in stages.items() if stage is WaitStage.EVENTS]
    return listeners[0] if len(listeners) > connections_max // 2 else None


@dataclass(slots=True)
class Guard:
    """The limits of one port's connections, which closes the slow ones.

    Attributes:
        name: the port's name in log lines.
        has_events: returns whether a request's first line requests events.
    """

    name: str
    limits: PortLimits
    has_events: Callable[[bytes], bool] = lambda _: False
    _stages: dict[_GuardedProtocol, WaitStage] = field(init=False, default_factory=dict)
    _has_warned: bool = field(init=False, default=False)

    def guarded_protocol(
        self, make_protocol: Callable[..., asyncio.Protocol]
    ) -> Callable[..., asyncio.Protocol]:
        """Wrap a factory of the server's protocols, so that each protocol gets a guard."""
        return lambda *args, **values: _GuardedProtocol(self, make_protocol(*args, **values))

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Log only once that no connection can be accepted; asyncio would log each failure."""
        loop.set_exception_handler(self._handle_loop_error)

    def enter(self, connection: _GuardedProtocol) -> None:
        """Register a new connection."""
        excess_connection = connection_to_close(self._stages, self.limits.connections_max)
        if excess_connection is not None:
            self._warn_once(f"more than {self.limits.connections_max} connections at a time")
            excess_connection.drop()
        self._stages[connection] = WaitStage.HEAD

    def set_stage(self, connection: _GuardedProtocol, stage: WaitStage) -> None:
        """Record that a connection waits for another event."""
        self._stages[connection] = stage
        excess_listener = listener_to_close(self._stages, self.limits.connections_max)
        if excess_listener is not None:
            excess_listener.drop()

    def leave(self, connection: _GuardedProtocol) -> None:
        """Forget a closed connection."""
        self._stages.pop(connection, None)

    def _handle_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _NO_DESCRIPTORS:
            self._warn_once(f"none can be accepted: {error.strerror}")
        else:
            loop.default_exception_handler(context)

    def _warn_once(self, problem: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "connections to %s: %s; idle ones are closed first, and the log says so only once. "
                "Let a firewall restrict access to the port",
                self.name, problem,
            )  # fmt: skip


class _GuardedProtocol(asyncio.Protocol):
    """A protocol that delegates to the server's own, and that the guard can end."""

    def __init__(self, guard: Guard, server_protocol: asyncio.Protocol) -> None:
        self._guard = guard
        self._server_protocol = server_protocol
        self._head = bytearray()
        self._stage = WaitStage.HEAD
        self._deadline: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._guard.enter(self)
        self._server_protocol.connection_made(transport)
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        if self._stage is WaitStage.HEAD:
            self._note_head(data)
        self._server_protocol.data_received(data)

    def eof_received(self) -> bool | None:
        # A client that has closed its sending side, such as `nc -N`, still gets its response.
        return self._server_protocol.eof_received() or self._stage is WaitStage.RESPONSE

    def connection_lost(self, error: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._guard.leave(self)
        self._server_protocol.connection_lost(error)

    def pause_writing(self) -> None:
        self._server_protocol.pause_writing()

    def resume_writing(self) -> None:
        self._server_protocol.resume_writing()

    def drop(self) -> None:
        """Close the connection at once, and discard unsent bytes."""
        self._guard.leave(self)
        if self._transport is not None:
            self._transport.abort()

    def _note_head(self, data: bytes) -> None:
        length = len(self._head)
        self._head += data
        if self._head.find(_HEAD_END, max(0, length - len(_HEAD_END))) < 0:
            return
        line = bytes(self._head[:_LINE_MAX]).partition(b"\r\n")[0]
        self._head.clear()
        self._stage = WaitStage.EVENTS if self._guard.has_events(line) else WaitStage.RESPONSE
        self._guard.set_stage(self, self._stage)
        self._set_deadline()

    def _set_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        timeout_s = self._guard.limits.timeout_s(self._stage)
        if timeout_s is not None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(timeout_s, self.drop)


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Args:
        host: a host name, or an address of IPv4 or IPv6.
        port: the port; 0 chooses a free port.

    Raises:
        OSError: the address is not available.
        OverflowError: the port is out of range.
    """
    families = {address[0] for address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    family = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:  # Python's text repeats the address
        raise OSError(error.errno, os.strerror(error.errno or 0)) from None


def is_port_taken(error: OSError) -> bool:
    """Return whether binding failed because another server has the port."""
    return error.errno == errno.EADDRINUSE
