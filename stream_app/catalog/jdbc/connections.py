"""Statements on the catalog's database, over a few connections that stay open.

Source: Paimon `jdbc/JdbcClientPool.java`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from stream_app.errors import NoAccessError, StorageError
from stream_app.jdbc import JdbcUrl

_FIX = (
    "see that the database runs and can be reached from here, and that 'jdbc.user' and "
    "'jdbc.password' of the catalog are right"
)
_TAKEN = ("23505", "1062", "UNIQUE constraint failed")
"""What the databases say of a key that is there: PostgreSQL, MySQL, SQLite."""


class TakenError(Exception):
    """A row of this key is there."""


@dataclass(slots=True)
class Connections:
    """Runs statements; each is a transaction of its own. Threads may share it.

    A connection that fails is closed. When it has stood idle before, the statement is tried once
    more on a new one, because a database closes idle connections.

    Attributes:
        idle_max: the most connections that stay open.
    """

    url: JdbcUrl
    idle_max: int
    _idle: deque[Any] = field(init=False, default_factory=deque, repr=False)

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; a statement's parameters are written ``?``.

        Raises:
            StorageError: the database does not answer; a NoAccessError: it refuses the user.
        """
        return self._run(statement, values, is_query=True)[0]

    def change(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement that changes rows; returns their number.

        Raises:
            TakenError: a new row's key is there.
            StorageError, NoAccessError: as `rows`.
        """
        return self._run(statement, values, is_query=False)[1]

    def change_all(self, statements: Sequence[tuple[str, Sequence[object]]]) -> None:
        """Run statements as one transaction.

        Raises:
            TakenError, StorageError, NoAccessError: as `change`; then none has an effect.
        """
        with self._errors(), self._connection() as connection:
            cursor = connection.cursor()
            cursor.execute("BEGIN")
            for statement, values in statements:
                cursor.execute(self._written(statement), tuple(values))
            cursor.execute("COMMIT")

    def _run(
        self, statement: str, values: Sequence[object], *, is_query: bool
    ) -> tuple[list[tuple[Any, ...]], int]:
        while True:
            was_idle = bool(self._idle)
            try:
                with self._errors(), self._connection() as connection:
                    cursor = connection.cursor()
                    cursor.execute(self._written(statement), tuple(values))
                    rows = [tuple(row) for row in cursor.fetchall()] if is_query else []
                    return rows, int(cursor.rowcount)
            except StorageError:
                if not (was_idle and is_query):
                    raise

    def _written(self, statement: str) -> str:
        return statement.replace("?", self.url.driver.placeholder)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.url.driver.open(self.url.driver.load(), self.url)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if len(self._idle) < self.idle_max:
            self._idle.append(connection)
        else:
            connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        module = self.url.driver.load()
        try:
            yield
        except module.Error as error:
            said = " ".join(str(error).split())
            number = str(getattr(error, "sqlstate", None) or error.args[:1])
            if isinstance(error, module.IntegrityError) and any(
                mark in f"{number} {said}" for mark in _TAKEN
            ):
                raise TakenError(said) from None
            kind = NoAccessError if _is_refusal(number, said) else StorageError
            raise kind(
                f"the catalog's database refused: {said}", where=str(self.url), fix=_FIX
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens connections of its own."""
        return Connections, (self.url, self.idle_max)


def _is_refusal(number: str, said: str) -> bool:
    marks = ("28P01", "28000", "42501", "1044", "1045", "1142", "password authentication failed")
    return any(mark in f"{number} {said}" for mark in marks)
