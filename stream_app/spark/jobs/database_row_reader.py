"""Reads rows of a database as Arrow batches of messages, in a task.

The database writes each row as the text of one of Debezium's messages for initial reads (op r). So
the same decoder reads these rows and later changes. PostgreSQL copies the texts out in bulk; MySQL
and MariaDB stream them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.checkpoint.load_plan import LoadPart
from stream_app.errors import SourceError
from stream_app.network.jdbc import POSTGRESQL, JdbcUrl

BATCH_ROW_COUNT = 16_384
_ANSWER_TIMEOUT_S = 3600
"""The time that MySQL may take to find a part's first row, and a task to use a batch."""
_READ_FIX = (
    "check that the database runs, that the user may read the table, and that no ALTER has "
    "removed a column; then start the job again: the load continues with this part"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    """The SQL of a source table's rows as messages.

    Attributes:
        message: the expression of a row's message.
        relation: the table's name, or a query in its place.
        parameters: the values of the placeholders in `relation`.
        keys: the expressions of the key's columns.
        literals: for each key column, the form of its values, with a placeholder.
    """

    message: str
    relation: str
    parameters: Sequence[str] = ()
    keys: Sequence[str] = ()
    literals: Sequence[str] = ()

    def of_part(self, part: LoadPart) -> tuple[str, Sequence[int | str]]:
        """Return the query of a part's messages, and its parameters."""
        conditions = []
        values = list[int | str](self.parameters)
        if part.key_before is not None:
            condition, key_values = self._greater_key_condition(part.key_before)
            conditions.append(condition)
            values += key_values
        if part.last_key is not None:
            condition, key_values = self._greater_key_condition(part.last_key)
            conditions.append(f"not {condition}")
            values += key_values
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"select {self.message} from {self.relation}{where}", values

    def _greater_key_condition(self, key: Sequence[int | str]) -> tuple[str, list[int | str]]:
        """Return the condition that a row's key is greater than `key`, column by column.

        It begins with a bound of the first column alone, because an index of any database can use
        this bound.
        """
        pairs = list(zip(self.keys, self.literals, strict=True))
        alternatives = []
        values = list[int | str]()
        for index, (column, literal) in enumerate(pairs):
            equalities = [f"{name} = {placeholder}" for name, placeholder in pairs[:index]]
            alternatives.append(f"({' and '.join([*equalities, f'{column} > {literal}'])})")
            values += key[: index + 1]
        first_column, literal = pairs[0]
        return f"({first_column} >= {literal} and ({' or '.join(alternatives)}))", [key[0], *values]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRowReader:
    """The reader of a first load's parts; can be pickled.

    Attributes:
        queries: table of the source → the query of its rows.
    """

    url: JdbcUrl
    queries: Mapping[str, RowQuery]

    def read(self, shares: Iterable[tuple[int, LoadPart]]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of the parts, in batches of `MESSAGE_SCHEMA`.

        Args:
            shares: parts with their indices in the epoch, which stand for partitions of a topic.

        Raises:
            UsageError: the driver is not installed.
            SourceError: the database does not answer, or refuses the query.
        """
        for part_index, part in shares:
            first_offset = 0
            with closing(self._read_texts(part)) as batches:
                for values in batches:
                    if values.null_count:
                        raise _unwritable_row_error(part)
                    yield _messages(part, part_index, first_offset, values)
                    first_offset += len(values)

    def _read_texts(self, part: LoadPart) -> Any:
        query, parameters = self.queries[part.relation].of_part(part)
        url = replace(self.url, answer_timeout_s=_ANSWER_TIMEOUT_S)
        module = url.driver.load()
        try:
            with closing(url.driver.open(module, url)) as connection:
                read = _copy_texts if url.driver == POSTGRESQL else _stream_texts
                yield from read(connection, query, parameters)
        except module.Error as error:
            raise SourceError(
                f"cannot read the rows of {part.relation}: {' '.join(str(error).split())}",
                where=str(url),
                fix=_READ_FIX,
            ) from None


def _unwritable_row_error(part: LoadPart) -> SourceError:
    return SourceError(
        f"the database cannot write a row of {part.relation} as a message: it has a date of zeros, "
        "or is larger than max_allowed_packet",
        where=f"keys after {part.key_before} until {part.last_key}",
        fix="correct the row, or raise max_allowed_packet; then start the job again",
    )


def _copy_texts(connection: Any, query: str, parameters: Sequence[object]) -> Iterator[pa.Array]:
    """Yield the texts of a query of PostgreSQL.

    A JSON text contains neither these control characters nor line feeds, so nothing is quoted.
    """
    # Policies that hide rows become an error, because an incomplete load would look complete.
    settings = (
        "timezone = 'UTC'", "extra_float_digits = 1", "client_encoding = 'UTF8'",
        "row_security = off", "statement_timeout = 0",
    )  # fmt: skip
    statement = f"copy ({query}) to stdout (format csv, delimiter E'\\x02', quote E'\\x01')"
    with connection.cursor() as cursor:
        for setting in settings:
            cursor.execute(f"set {setting}")
        with cursor.copy(statement, parameters) as lines:
            remaining_lines = iter(lines)
            while texts := list(itertools.islice(remaining_lines, BATCH_ROW_COUNT)):
                yield _split_lines(b"".join(texts), len(texts))


def _split_lines(lines: bytes, count: int) -> pa.Array:
    """Return lines as values, binary [count], without the line feeds that end them.

    A value and the line feed behind it are two neighbours in memory, of which every second is kept.
    """
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n"))
    assert len(ends) == count, "a line is a row"
    bounds = np.zeros(2 * count + 1, np.int64)
    bounds[1::2], bounds[2::2] = ends, ends + 1
    alternating = pa.Array.from_buffers(
        pa.large_binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(lines)]
    )
    return alternating.take(pa.array(np.arange(0, 2 * count, 2))).cast(pa.binary())


def _stream_texts(connection: Any, query: str, parameters: Sequence[object]) -> Iterator[pa.Array]:
    """Yield the texts of a query of MySQL or MariaDB, which the server streams."""
    from pymysql.cursors import SSCursor  # noqa: PLC0415 - an extra, which `Driver.load` has loaded

    with connection.cursor(SSCursor) as cursor:
        cursor.execute(
            f"set time_zone = '+00:00', sql_mode = '', net_write_timeout = {_ANSWER_TIMEOUT_S}"
        )
        cursor.execute(query, parameters)
        while rows := cursor.fetchmany(BATCH_ROW_COUNT):
            yield pa.array([text for (text,) in rows], pa.binary())


def _messages(
    part: LoadPart, part_index: int, first_offset: int, values: pa.Array
) -> pa.RecordBatch:
    count = len(values)
    columns = [
        pa.repeat(part.relation, count),
        pa.repeat(pa.scalar(part_index, pa.int32()), count),
        pa.array(np.arange(first_offset, first_offset + count)),
        pa.nulls(count, MESSAGE_SCHEMA.field("timestamp").type),
        pa.nulls(count, pa.binary()),
        values,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)
