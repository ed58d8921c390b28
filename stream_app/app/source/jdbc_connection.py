"""Opens the database that a JDBC URL names, runs queries, and reads the position of its log.

It uses Python drivers of PostgreSQL, MySQL and MariaDB, which the extra `stream_app[jdbc]`
installs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from stream_app.errors import SourceError
from stream_app.network.jdbc import MARIADB, MYSQL, POSTGRESQL, JdbcUrl

_POSTGRES_POSITIONS = (
    ("LSN", "select pg_current_wal_lsn()::text"),
    ("LSN", "select pg_last_wal_replay_lsn()::text"),
)
_MYSQL_POSITIONS = (
    ("GTID", "select @@global.gtid_current_pos"),
    ("GTID", "select @@global.gtid_executed"),
    ("binlog position", "show binary log status"),
    ("binlog position", "show master status"),
)
_POSITIONS = {
    POSTGRESQL: _POSTGRES_POSITIONS, MYSQL: _MYSQL_POSITIONS, MARIADB: _MYSQL_POSITIONS
}  # fmt: skip
"""The kind of each position, and the query for the newest one; the first result counts."""
_POSITION_COLUMN_COUNT = 2
"""The number of columns with the position: of a binlog, the file's name and the offset in it."""


@contextmanager
def open_connection(url: JdbcUrl) -> Iterator[Any]:
    """Open a connection of Python's database API, and close it after the block.

    Raises:
        UsageError: the driver is not installed.
        SourceError: the database does not respond, or refuses the user or a statement.
    """
    with database_errors(url):
        connection = url.driver.open(url.driver.load(), url)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def database_errors(url: JdbcUrl) -> Iterator[None]:
    """Raise errors of the driver within the block as `SourceError`.

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
            fix="check that it runs and that user and password are right (in the URL, or the "
            "password in PGPASSWORD or MYSQL_PWD)",
        ) from None


def query_rows(connection: Any, query: str) -> list[Any]:
    """Return the rows of a query's result."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def log_position(connection: Any, url: JdbcUrl) -> str:
    """Return the newest position of a database's log as text, such as ``LSN 0/1A2B``."""
    for kind, query in _POSITIONS[url.driver]:
        # The query fails on another kind of server, or without the privilege.
        with suppress(SourceError), database_errors(url):
            for row in query_rows(connection, query):
                position_text = ":".join(map(str, filter(None, row[:_POSITION_COLUMN_COUNT])))
                if position_text:
                    return f"{kind} {' '.join(position_text.split())}"
    return "an unknown position"
