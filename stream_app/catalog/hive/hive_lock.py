"""Implements locks of tables by locks of a Hive metastore.

The metastore queues the requests. A holder keeps the lock only while it publishes one file, so it
sends no heartbeats. The metastore releases a dead process's lock after ``hive.txn.timeout``. A
waiting process keeps its request alive by polling.

Source: Paimon `hive/HiveCatalogLock.java`.
"""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

from stream_app.catalog.catalog_lock import wait_for_lock
from stream_app.catalog.hive.metastore_client import MetastoreClient, MetastoreMethod, RefusedError
from stream_app.catalog.hive.thrift_struct import Struct, i32, i64, inner_struct, struct_list, text
from stream_app.catalog.identifier import Identifier
from stream_app.clock import Clock
from stream_app.errors import CommitError, StorageError

_LOG = logging.getLogger(__name__)
_ABORTED_ERRORS = ("NoSuchTxnException", "TxnAbortedException")
_LOCK = MetastoreMethod("lock", _ABORTED_ERRORS)
_CHECK_LOCK = MetastoreMethod("check_lock", (*_ABORTED_ERRORS, "NoSuchLockException"))
_UNLOCK = MetastoreMethod("unlock", ("NoSuchLockException", "TxnOpenException"))
_EXCLUSIVE = i32(3)
_TABLE_LEVEL = i32(2)


class _State(IntEnum):
    ACQUIRED = 1
    WAITING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveLock:
    """The lock of a metastore, which locks one table. Implements `CatalogLock`."""

    client: MetastoreClient
    clock: Clock
    max_sleep_ms: int
    timeout_ms: int
    _holder: tuple[str, str] = field(
        init=False, default_factory=lambda: (getpass.getuser(), socket.gethostname())
    )
    """User and host of this process; a query for each lock would add a sixth to its cost."""

    @contextmanager
    def hold(self, identifier: Identifier) -> Iterator[None]:
        """Request the metastore's lock, and poll until it is granted; a failed wait releases it."""
        response = self._answer(_LOCK, _request(identifier, *self._holder))
        lock_id = response.integer(1)
        where = f"lock {lock_id} of {identifier} in {self.client.label}"
        try:
            if response.integer(2) != _State.ACQUIRED:
                wait_for_lock(
                    lambda: self._is_acquired(lock_id, where),
                    self.clock,
                    max_sleep_ms=self.max_sleep_ms,
                    timeout_ms=self.timeout_ms,
                    where=where,
                )
            yield
        finally:
            self._unlock(lock_id, where)

    def _is_acquired(self, lock_id: int, where: str) -> bool:
        try:
            state = self._answer(_CHECK_LOCK, Struct({1: i64(lock_id)})).integer(2)
        except RefusedError as error:
            raise _lost_lock_error(str(error), where) from None
        if state not in (_State.ACQUIRED, _State.WAITING):
            raise _lost_lock_error(f"its state is {state}", where)
        return state == _State.ACQUIRED

    def _unlock(self, lock_id: int, where: str) -> None:
        try:
            self.client.call(_UNLOCK, inner_struct(Struct({1: i64(lock_id)})))
        except (RefusedError, StorageError) as error:
            # The work under the lock is done, and the metastore releases the lock by its age.
            _LOG.warning("the metastore did not release the %s: %s", where, error)

    def _answer(self, method: MetastoreMethod, request: Struct) -> Struct:
        return self.client.call(method, inner_struct(request)).struct(0)


def _request(identifier: Identifier, user: str, host: str) -> Struct:
    component = Struct(
        {
            1: _EXCLUSIVE,
            2: _TABLE_LEVEL,
            3: text(identifier.database),
            4: text(identifier.table),
        }
    )
    return Struct(
        {
            1: struct_list([component]),
            3: text(user),
            4: text(host),
            5: text("stream_app"),
        }
    )


def _lost_lock_error(problem: str, where: str) -> CommitError:
    return CommitError(
        f"the metastore has dropped this process's request for a lock: {problem}",
        where=where,
        fix="start again; if it recurs, raise the metastore's 'hive.txn.timeout'",
    )
