"""Implements locks of tables by rows of ``paimon_distributed_locks``.

A row is a lock, whose key is taken or free. A row that is older than the time which its holder has
written into it belongs to a dead process. The next process deletes it. The database's clock
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
from stream_app.catalog.jdbc.connections import Connections, TakenError
from stream_app.clock import Clock
from stream_app.errors import StorageError
from stream_app.network.jdbc import MARIADB, MYSQL, POSTGRESQL, SQLITE

_LOG = logging.getLogger("stream_app")
_AGE_S = {
    POSTGRESQL.name: "EXTRACT(EPOCH FROM NOW()::timestamp - acquired_at)",
    MYSQL.name: "TIMESTAMPDIFF(SECOND, acquired_at, NOW())",
    MARIADB.name: "TIMESTAMPDIFF(SECOND, acquired_at, NOW())",
    SQLITE.name: "strftime('%s', 'now') - strftime('%s', acquired_at)",
}
_TABLE = """CREATE TABLE IF NOT EXISTS paimon_distributed_locks (
    lock_id VARCHAR({length}) NOT NULL,
    acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,
    expire_time_seconds BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (lock_id))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcLock:
    """The locks of one catalog; see `CatalogLock`."""

    connections: Connections
    catalog_key: str
    clock: Clock
    max_sleep_ms: int
    timeout_ms: int

    def create_table(self, name_length_max: int) -> None:
        """Create the table of locks if it does not exist."""
        self.connections.create_table(_TABLE.format(length=name_length_max))

    @contextmanager
    def hold(self, identifier: Identifier) -> Iterator[None]:
        """See `CatalogLock.hold`."""
        name = f"{self.catalog_key}.{identifier}"
        wait_for_lock(
            lambda: self._try(name),
            self.clock,
            max_sleep_ms=self.max_sleep_ms,
            timeout_ms=self.timeout_ms,
            where=f"lock {name!r} of paimon_distributed_locks in {self.connections.url}",
        )
        ends = self.clock.steady_seconds() + self.timeout_ms / 1000
        try:
            yield
        finally:
            if self.clock.steady_seconds() < ends:  # otherwise another process may have it by now
                self._release(name)

    def _release(self, name: str) -> None:
        try:
            self.connections.change(
                "DELETE FROM paimon_distributed_locks WHERE lock_id = ?", (name,)
            )
        except StorageError as error:
            _LOG.warning(
                "the lock %s cannot be released, and ends after %d s: %s",
                name, self.timeout_ms // 1000, error.problem,
            )  # fmt: skip

    def _try(self, name: str) -> bool:
        try:
            self.connections.change(
                "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)",
                (name, self.timeout_ms // 1000),
            )
        except TakenError:
            return self._break(name) and self._try(name)
        return True

    def _break(self, name: str) -> bool:
        """Delete a lock that a process has held for too long; False if none is that old."""
        age = _AGE_S[self.connections.url.driver.name]
        expired = f"{age} > expire_time_seconds AND lock_id = ?"
        statement = f"DELETE FROM paimon_distributed_locks WHERE {expired}"
        return self.connections.change(statement, (name,)) > 0
