"""Calls a Hive metastore, over a few connections that stay open.

The client is schemaless: a call is a name and a struct of arguments (`thrift_struct`). So the same
code calls metastores of Hive 3.1 and 4.0. Names, numbers and errors are those of Hive's
`hive_metastore.thrift`.

Source: Paimon `hive/pool/HiveClientPool.java`.
"""

from __future__ import annotations

import getpass
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from stream_app.catalog.hive.hive_site import MetastoreAddress
from stream_app.catalog.hive.thrift_struct import (
    Struct,
    ThriftValue,
    read_struct,
    text,
    text_list,
    write_struct,
)
from stream_app.errors import NoAccessError, StorageError, UsageError
from stream_app.version import install_command

_REFUSAL_MARKS = ("AccessControlException", "Permission denied", "NotAllow", "not authorized")
"""Parts of messages by which a metastore refuses a user."""
_CALL, _EXCEPTION = 1, 3
"""The types of messages on the wire."""


@dataclass(frozen=True, slots=True)
class MetastoreMethod:
    """A method of the metastore.

    Attributes:
        errors: the declared exceptions, whose fields in a response are 1, 2, ….
    """

    name: str
    errors: tuple[str, ...] = ("MetaException",)


_SET_UGI = MetastoreMethod("set_ugi")


class RefusedError(Exception):
    """The metastore refused a call by one of the method's exceptions.

    Attributes:
        kind: the exception's name, such as ``NoSuchObjectException``.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(slots=True)
class MetastoreClient:
    """A client of the first metastore that accepts a connection. Threads may share it.

    A failed connection is closed. A metastore closes idle connections, so the call is repeated on
    each further idle connection, and at last on a new one. Each call of this package may be
    repeated: a lock whose response was lost times out.

    Attributes:
        idle_max: the maximum number of connections that stay open.
    """

    addresses: tuple[MetastoreAddress, ...]
    idle_max: int
    timeout_ms: int
    _idle_clients: deque[Any] = field(init=False, default_factory=deque, repr=False)

    @property
    def label(self) -> str:
        """The addresses as text, for messages."""
        return ",".join(map(str, self.addresses))

    def call(self, method: MetastoreMethod, *arguments: ThriftValue) -> Struct:
        """Call a method with its arguments in order, and return the result, which is field 0.

        Raises:
            RefusedError: the method raised a declared exception other than MetaException.
            StorageError: no metastore answers; a NoAccessError if it refuses this user.
        """
        struct = Struct(dict(enumerate(arguments, 1)))
        while True:
            was_idle = bool(self._idle_clients)
            try:
                with self._transport_errors(), self._connection() as protocol:
                    answer = _call(protocol, method.name, struct)
                break
            except _NotReachedError as error:
                if not was_idle:
                    raise self._unreachable_error(str(error)) from None
        self._check_answer(method, answer)
        return answer

    def ask(
        self,
        method: MetastoreMethod,
        *arguments: ThriftValue,
        expected_kind: str = "",
        name: str = "",
    ) -> Struct:
        """Call a method that may fail with one expected kind of error.

        Args:
            expected_kind: the kind of error; empty: none.
            name: the database or table of the call, for errors.

        Raises:
            RefusedError: an error of that kind.
            StorageError: an error of another kind, or no metastore answers.
        """
        try:
            return self.call(method, *arguments)
        except RefusedError as error:
            if error.kind == expected_kind:
                raise
            entry_text = f"{name} in " if name else ""
            raise StorageError(
                f"the metastore refused: {error}",
                where=f"{method.name} of {entry_text}{self.label}",
                fix="see the metastore's own log",
            ) from None

    def _check_answer(self, method: MetastoreMethod, answer: Struct) -> None:
        for field_id in answer.fields.keys() - {0}:
            kind = method.errors[field_id - 1] if field_id <= len(method.errors) else "exception"
            message = " ".join(answer.struct(field_id).text(1).split())
            where = f"{method.name} of {self.label}"
            if any(mark in message for mark in _REFUSAL_MARKS):
                raise NoAccessError(
                    f"the metastore refuses this user: {message}",
                    where=where,
                    fix="grant the user the right, or let another user run the job",
                )
            if kind != "MetaException":
                raise RefusedError(kind, message)
            raise StorageError(
                f"the metastore failed: {message}", where=where, fix="see the metastore's own log"
            )

    def _unreachable_error(self, message: str) -> StorageError:
        return StorageError(
            f"no Hive metastore responds: {message}",
            where=self.label,
            fix="check that it runs, that 'uri' of the catalog is right, and that it requires "
            "neither Kerberos nor TLS",
        )

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            protocol = self._idle_clients.pop()
        except IndexError:
            protocol = self._open()
        try:
            yield protocol
        except BaseException:
            protocol.trans.close()
            raise
        if len(self._idle_clients) < self.idle_max:
            self._idle_clients.append(protocol)
        else:
            protocol.trans.close()

    def _open(self) -> Any:
        library = _library()
        sockets = [library.socket(address.host, address.port) for address in self.addresses]
        for index, socket in enumerate(sockets, 1):
            socket.setTimeout(self.timeout_ms)
            protocol = library.protocol(library.transport(socket))
            try:
                protocol.trans.open()
            except library.error:
                if index == len(sockets):
                    raise
                continue
            # A metastore creates folders as this user.
            user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
            arguments = Struct({1: text(user), 2: text_list([])})
            self._check_answer(_SET_UGI, _call(protocol, _SET_UGI.name, arguments))
            return protocol
        raise AssertionError("the list of addresses is not empty")

    @contextmanager
    def _transport_errors(self) -> Iterator[None]:
        library = _library()
        try:
            yield
        except (library.error, OSError, EOFError) as error:
            raise _NotReachedError(" ".join(str(error).split()) or type(error).__name__) from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without connections: another process opens its own."""
        return MetastoreClient, (self.addresses, self.idle_max, self.timeout_ms)


class _NotReachedError(Exception):
    """The connection failed before a response."""


@dataclass(frozen=True, slots=True)
class _ThriftLibrary:
    """The parts of the library `thrift` that the client uses."""

    socket: Any
    transport: Any
    protocol: Any
    error: type[Exception]


@cache
def _library() -> _ThriftLibrary:
    try:
        return _ThriftLibrary(
            socket=import_module("thrift.transport.TSocket").TSocket,
            transport=import_module("thrift.transport.TTransport").TBufferedTransport,
            protocol=import_module("thrift.protocol.TBinaryProtocol").TBinaryProtocol,
            error=import_module("thrift.Thrift").TException,
        )
    except ImportError:
        raise UsageError(
            "the Hive catalog needs thrift, which is not installed",
            fix=install_command("hive"),
        ) from None


def _call(protocol: Any, name: str, arguments: Struct) -> Struct:
    protocol.writeMessageBegin(name, _CALL, 0)
    write_struct(protocol, arguments)
    protocol.writeMessageEnd()
    protocol.trans.flush()
    _, message_type, _ = protocol.readMessageBegin()
    answer = read_struct(protocol)
    protocol.readMessageEnd()
    if message_type == _EXCEPTION:  # such as a method that the metastore lacks
        raise _NotReachedError(f"{name}: {answer.text(1)}")
    return answer
