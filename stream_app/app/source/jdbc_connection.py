"""Connects to the database that a JDBC URL names, asks it, and reads the position of its log.

Works through the Python drivers of PostgreSQL, MySQL and MariaDB, which are an extra
(`stream_app[jdbc]`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from stream_app.errors import SourceError
from stream_app.jdbc import MARIADB, MYSQL, POSTGRESQL, JdbcUrl

_POSTGRES_POSITIONS = ("select pg_current_wal_lsn()::text", "select pg_last_wal_replay_lsn()::text")
_MYSQL_POSITIONS = ("select @@global.gtid_current_pos", "select @@global.gtid_executed")
_POSITIONS = {
    POSTGRESQL: _POSTGRES_POSITIONS, MYSQL: _MYSQL_POSITIONS, MARIADB: _MYSQL_POSITIONS
}  # fmt: skip
"""Queries of the newest position of the log; the first that works counts."""


@contextmanager
def opened_database(url: JdbcUrl) -> Iterator[Any]:
    """A connection, as of Python's database API.

    Raises:
        UsageError: the driver is not installed.
        SourceError: the database does not answer, or refuses the user or a statement.
    """
    with database_errors(url):
        connection = url.driver.open(url.driver.load(), url)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def database_errors(url: JdbcUrl) -> Iterator[None]:
    """Turn the driver's errors into `SourceError`.

    Raises:
        UsageError: the driver is not installed.
    """
    module = url.driver.load()
    try:
        yield
    except module.Error as error:
        raise SourceError(
            f"the database cannot be read: {' '.join(str(error).split())}",
            where=str(url),
            fix="see that it runs and that user and password are right (in the URL, or the "
            "password in PGPASSWORD or MYSQL_PWD)",
        ) from None


def answers(connection: Any, query: str) -> list[Any]:
    """The rows that answer a query."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def log_position(connection: Any, url: JdbcUrl) -> str:
    """The newest position of a database's log, for people."""
    for query in _POSITIONS[url.driver]:
        # Another kind of server, or one that refuses this user.
        with suppress(SourceError), database_errors(url):
            [(position,)] = answers(connection, query)
            return str(position)
    return "an unknown position"
