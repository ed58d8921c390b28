"""The port to a catalog's locks of tables, and the wait for a lock.

Source: Paimon `catalog/CatalogLock.java`, `jdbc/JdbcCatalogLock.java`, `hive/HiveCatalogLock.java`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from stream_app.catalog.identifier import Identifier
from stream_app.clock import Clock
from stream_app.errors import CommitError

_FIRST_WAIT_S = 0.1
"""The wait after the first attempt."""


class CatalogLock(Protocol):
    """A lock with which one process at a time commits to a table.

    A holder that keeps it longer than ``lock-acquire-timeout`` may lose the lock to another
    process. So the lock alone proves nothing, and a holder still creates a snapshot's file only
    if it does not exist.
    """

    def hold(self, identifier: Identifier) -> AbstractContextManager[None]:
        """Hold the lock of a table.

        Raises:
            CommitError: another process held it for too long, or the catalog does not answer.
        """
        ...


def wait_for_lock(
    try_lock: Callable[[], bool],
    clock: Clock,
    *,
    max_sleep_ms: int,
    timeout_ms: int,
    where: str,
) -> None:
    """Retry until the lock is acquired, with waits that double up to a maximum.

    Raises:
        CommitError: time is up.
    """
    start_s = clock.steady_seconds()
    wait_s = _FIRST_WAIT_S
    while not try_lock():
        waited_s = clock.steady_seconds() - start_s
        if waited_s * 1000 > timeout_ms:
            raise CommitError(
                f"another writer has held the table's lock for {waited_s:.0f} s",
                where=where,
                fix="see which process writes the table, or raise 'lock-acquire-timeout'",
            )
        clock.sleep(min(wait_s, max_sleep_ms / 1000))
        wait_s *= 2
