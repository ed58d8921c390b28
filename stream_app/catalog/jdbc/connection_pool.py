"""Runs statements on the catalog's database, over a few connections that stay open.

Source: Paimon `jdbc/JdbcClientPool.java`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stream_app.errors import NoAccessError, StorageError
from stream_app.network.jdbc import JdbcUrl

_Result = TypeVar("_Result")
_FIX = (
    "check that the database runs and can be reached from here, and correct user and password: "
    "'jdbc.user' and 'jdbc.password' of a catalog, or those of the URL, PGPASSWORD and MYSQL_PWD"
)
_TAKEN_CODES = ("23505", "1062", "SQLITE_CONSTRAINT_PRIMARYKEY")
"""The codes of PostgreSQL, MySQL and SQLite for a key that exists already."""
_REFUSAL_CODES = ("28P01", "28000", "42501", "1044", "1045", "1142")
"""The codes of PostgreSQL and MySQL for a user without the right."""


class TakenError(Exception):
    """The table already has a row with this key."""


@dataclass(slots=True)
class ConnectionPool:
    """A pool of connections, which runs each statement as a transaction. Threads may share it.

    A failed connection is closed. If it was idle before, the statement is repeated once on a new
    one, because a database closes idle connections. So a statement may already have had its effect,
    and then the key of its new row seems taken.

    Attributes:
        idle_max: the maximum number of connections that stay open.
    """

    url: JdbcUrl
    idle_max: int
    _idle_connections: deque[Any] = field(init=False, default_factory=deque, repr=False)

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query, whose parameters are written ``?``.

        Raises:
            StorageError: the database does not answer; a NoAccessError if it refuses the user.
        """
        return self._run(statement, values, is_query=True)[0]

    def change(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement that changes rows, and return their number.

        Raises:
            TakenError: a new row's key already exists.
            StorageError, NoAccessError: as `rows`.
        """
        return self._run(statement, values, is_query=False)[1]

    def create_table(self, statement: str) -> None:
        """Run a ``CREATE TABLE IF NOT EXISTS``, which other processes may run at the same time."""
        with suppress(TakenError):  # another process's table is already in PostgreSQL's catalog
            self.change(statement)

    def change_all(self, statements: Sequence[tuple[str, Sequence[object]]]) -> None:
        """Run statements as one transaction.

        Raises:
            TakenError, StorageError, NoAccessError: as `change`; no statement has an effect.
        """

        def run() -> None:
            with self._errors(), self._connection() as connection:
                cursor = connection.cursor()
                cursor.execute("BEGIN")
                for statement, values in statements:
                    cursor.execute(self._in_dialect(statement), tuple(values))
                cursor.execute("COMMIT")

        self._run_with_retry(run)

    def _run(
        self, statement: str, values: Sequence[object], *, is_query: bool
    ) -> tuple[list[tuple[Any, ...]], int]:
        def run() -> tuple[list[tuple[Any, ...]], int]:
            with self._errors(), self._connection() as connection:
                cursor = connection.cursor()
                cursor.execute(self._in_dialect(statement), tuple(values))
                rows = [tuple(row) for row in cursor.fetchall()] if is_query else []
                return rows, int(cursor.rowcount)

        return self._run_with_retry(run)

    def _run_with_retry(self, run: Callable[[], _Result]) -> _Result:
        if not self._idle_connections:
            return run()
        try:
            return run()
        except NoAccessError:
            raise
        except StorageError:
            while self._idle_connections:
                self._idle_connections.pop().close()
            return run()

    def _in_dialect(self, statement: str) -> str:
        return statement.replace("?", self.url.driver.placeholder)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            connection = self._idle_connections.pop()
        except IndexError:
            connection = self.url.driver.open(self.url.driver.load(), self.url)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if len(self._idle_connections) < self.idle_max:
            self._idle_connections.append(connection)
        else:
            connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        module = self.url.driver.load()
        try:
            yield
        except module.Error as error:
            message = " ".join(str(error).split())
            code = _code_of(error)
            if code in _TAKEN_CODES:
                raise TakenError(message) from None
            # PostgreSQL refuses a password before it can send a state.
            is_refusal = code in _REFUSAL_CODES or "password authentication failed" in message
            error_class = NoAccessError if is_refusal else StorageError
            raise error_class(
                f"the catalog's database refused: {message}", where=str(self.url), fix=_FIX
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without connections: another process opens its own."""
        return ConnectionPool, (self.url, self.idle_max)


def _code_of(error: Any) -> str:
    """Return the code of an error: MySQL's number, PostgreSQL's state, or SQLite's name.

    The number comes first, because a newer driver of MySQL also has a less specific state.
    """
    if error.args and isinstance(error.args[0], int):
        return str(error.args[0])
    return str(getattr(error, "sqlstate", None) or getattr(error, "sqlite_errorname", None) or "")
