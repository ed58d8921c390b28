"""Implements locks of tables by rows of ``paimon_distributed_locks``.

A row is a lock that a process holds. The holder writes into the row for how long it may hold the
lock. An older row belongs to a dead process, and the next process deletes it. The database's clock
measures the age.

Source: Paimon `jdbc/JdbcCatalogLock.java`, `jdbc/AbstractDistributedLockDialect.java`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stream_app.catalog.catalog_lock import wait_for_lock
from stream_app.catalog.identifier import Identifier
from stream_app.catalog.jdbc.connection_pool import ConnectionPool, TakenError
from stream_app.clock import Clock
from stream_app.errors import StorageError
from stream_app.network.jdbc import MARIADB, MYSQL, POSTGRESQL, SQLITE

_LOG = logging.getLogger(__name__)
_AGE_S = {
    POSTGRESQL.name: "EXTRACT(EPOCH FROM NOW()::timestamp - acquired_at)",
    MYSQL.name: "TIMESTAMPDIFF(SECOND, acquired_at, NOW())",
    MARIADB.name: "TIMESTAMPDIFF(SECOND, acquired_at, NOW())",
    SQLITE.name: "strftime('%s', 'now') - strftime('%s', acquired_at)",
}
_CREATE_TABLE = """CREATE TABLE IF NOT EXISTS paimon_distributed_locks (
    lock_id VARCHAR({length}) NOT NULL,
    acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,
    expire_time_seconds BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (lock_id))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcLock:
    """The lock of a JDBC catalog, which locks one table. Implements `CatalogLock`."""

    connection_pool: ConnectionPool
    catalog_key: str
    clock: Clock
    max_sleep_ms: int
    timeout_ms: int

    def create_table(self, name_length_max: int) -> None:
        """Create the table of locks if it does not exist."""
        self.connection_pool.create_table(_CREATE_TABLE.format(length=name_length_max))

    @contextmanager
    def hold(self, identifier: Identifier) -> Iterator[None]:
        """Insert the lock's row; after the timeout another process may delete it."""
        name = f"{self.catalog_key}.{identifier}"
        wait_for_lock(
            lambda: self._try_lock(name),
            self.clock,
            max_sleep_ms=self.max_sleep_ms,
            timeout_ms=self.timeout_ms,
            where=f"lock {name!r} of paimon_distributed_locks in {self.connection_pool.url}",
        )
        deadline_s = self.clock.steady_seconds() + self.timeout_ms / 1000
        try:
            yield
        finally:
            # After the deadline another process may hold the lock.
            if self.clock.steady_seconds() < deadline_s:
                self._release(name)

    def _release(self, name: str) -> None:
        try:
            self.connection_pool.change(
                "DELETE FROM paimon_distributed_locks WHERE lock_id = ?", (name,)
            )
        except StorageError as error:
            _LOG.warning(
                "the lock %s cannot be released, and ends after %d s: %s",
                name, self.timeout_ms // 1000, error.problem,
            )  # fmt: skip

    def _try_lock(self, name: str) -> bool:
        try:
            self.connection_pool.change(
                "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)",
                (name, self.timeout_ms // 1000),
            )
        except TakenError:
            return self._break_expired(name) and self._try_lock(name)
        return True

    def _break_expired(self, name: str) -> bool:
        """Delete a lock that a process has held for too long; False if the lock is younger."""
        age = _AGE_S[self.connection_pool.url.driver.name]
        condition = f"{age} > expire_time_seconds AND lock_id = ?"
        statement = f"DELETE FROM paimon_distributed_locks WHERE {condition}"
        return self.connection_pool.change(statement, (name,)) > 0
