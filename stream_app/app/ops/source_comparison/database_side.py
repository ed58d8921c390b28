"""Computes a database table's checksums by generated SQL, as one side of a comparison.

The database hashes its rows itself. One statement returns the sums of all groups of keys, and
another the hashes of groups that differ. A statement reads all source tables of a table, so that
their rows are of one moment. All statements of a command share a connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from stream_app.app.source.jdbc_connection import (
    database_errors,
    log_position,
    open_connection,
    query_rows,
)
from stream_app.app.source.jdbc_table import JdbcTable, read_table, with_enums
from stream_app.app.source.sql_texts import SumDialect, SummedColumn, dialect_of
from stream_app.errors import UsageError
from stream_app.format.row_hash.key_groups import HashedRows
from stream_app.model.checksum.row_sum import RowSum
from stream_app.model.schema.data_type import DataField
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS
from stream_app.network.jdbc import JdbcUrl

_STATEMENT_TIMEOUT_S = 6 * 3600
"""The timeout of a statement, which may read a whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedSource:
    """The tables of a database whose rows a table has.

    Attributes:
        relations: the names of these tables, with or without their schema.
        column_of: returns the table's column for a column of the database.
        job_columns: columns that the job computes and no database has.
    """

    relations: Sequence[str]
    column_of: Callable[[str], str] = str
    job_columns: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedDatabase:
    """A database with an open connection, which `summed_database` opens."""

    url: JdbcUrl
    connection: Any

    def rows_of_query(self, query: str) -> list[Any]:
        """Return the rows of a query's result.

        Raises:
            SourceError: the database refuses the query, or does not respond.
        """
        with database_errors(self.url):
            return query_rows(self.connection, query)

    @property
    def is_replica(self) -> bool:
        """Whether the database accepts no changes, so that it may lag behind the primary database.

        Raises:
            SourceError: see `rows_of_query`.
        """
        [(setting,)] = self.rows_of_query(dialect_of(self.url.driver).replica)
        return str(setting) not in ("0", "OFF", "False")

    def definitions(self, relations: Sequence[str]) -> list[JdbcTable]:
        """Return the definitions of tables, without missing ones if at least one exists.

        Raises:
            UsageError: no table exists.
            SourceError: see `rows_of_query`; or the user may not read an existing table.
        """
        definitions: list[JdbcTable] = []
        errors: list[UsageError] = []
        for relation in relations:
            try:
                with database_errors(self.url):
                    definitions.append(self._definition(relation))
            except UsageError as error:
                self._check_missing(relation)
                errors.append(error)
        if errors and not definitions:
            raise errors[0]
        return definitions

    def _check_missing(self, relation: str) -> None:
        """Check that a table does not exist.

        MySQL's catalog also lacks tables that the user may not read.
        """
        gone_codes = dialect_of(self.url.driver).gone_codes
        if not gone_codes:
            return
        schema, _, name = relation.rpartition(".")
        sql_name = dialect_of(self.url.driver).name(schema or self.url.database, name)
        with database_errors(self.url):
            try:
                query_rows(self.connection, f"select 1 from {sql_name} limit 0")
            except self.url.driver.load().Error as error:
                if error.args[0] not in gone_codes:
                    raise

    def _definition(self, relation: str) -> JdbcTable:
        definition = read_table(self.connection, self.url, relation, NO_MAPPING_OPTIONS)
        source_types = with_enums(self.connection, self.url, definition.source_types)
        return replace(definition, source_types=source_types)


@contextmanager
def summed_database(url: JdbcUrl) -> Iterator[SummedDatabase]:
    """Connect to a database, for statements that read whole tables.

    Raises:
        UsageError: the driver is not installed.
        SourceError: the database does not respond, or refuses the user.
    """
    with open_connection(replace(url, answer_timeout_s=_STATEMENT_TIMEOUT_S)) as connection:
        with connection.cursor() as cursor:
            for setting in dialect_of(url.driver).settings:
                cursor.execute(setting)
        yield SummedDatabase(url=url, connection=connection)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSide:
    """The database's side of a comparison, which sums its rows up by queries.

    Implements `SummedSide`.

    Attributes:
        definitions: those of the database's tables.
        columns: the names of the table's hashed columns.
        left_out_columns: the other columns, with the reasons, but without those that the job makes.
        hashes_query: the query that hashes all rows.
        key_digests: the SQL expression of a key's digest, for each of the tables.
    """

    database: SummedDatabase
    definitions: Sequence[JdbcTable]
    columns: tuple[str, ...]
    left_out_columns: Sequence[str]
    hashes_query: str
    key_digests: Sequence[str]

    @property
    def label(self) -> str:
        """The database's URL, its tables, and the position of its log."""
        url = self.database.url
        position = log_position(self.database.connection, url)
        return f"{url} {_relation_names(self.definitions)}, at {position}"

    def total(self) -> RowSum | None:
        """Return None, because only a query could compute the total."""
        return None

    def groups(self) -> Mapping[int, RowSum]:
        """Let the database sum up all rows in one query."""
        return {
            int(digits, 16): RowSum.of_totals(int(rows), int(high_sum), int(low_sum))
            for digits, rows, high_sum, low_sum in self.database.rows_of_query(
                self._dialect.sums_query(self.hashes_query)
            )
        }

    def rows(self, groups: Collection[int]) -> HashedRows:
        """Let the database hash the rows of some groups."""
        row_counts: HashedRows = Counter()
        query = self._dialect.rows_query(self.hashes_query, sorted(groups))
        for key, digits in self.database.rows_of_query(query):
            text = key.encode() if isinstance(key, str) else bytes(key)
            row_counts[text, int(digits[:16], 16), int(digits[16:], 16)] += 1
        return row_counts

    @property
    def _dialect(self) -> SumDialect:
        return dialect_of(self.database.url.driver)


def database_side(
    database: SummedDatabase, summed_source: SummedSource, schema: TableSchema
) -> DatabaseSide:
    """Return the database's side of a comparison, for the columns that SQL can hash.

    Args:
        schema: the schema of the compared table.

    Raises:
        UsageError: the table does not exist, or SQL cannot hash its key.
        SourceError: the database does not respond.
    """
    dialect = dialect_of(database.url.driver)
    definitions = database.definitions(summed_source.relations)
    columns_of: list[dict[str, SummedColumn]] = [{} for _ in definitions]
    left_out_columns: list[str] = []
    for index, field in enumerate(schema.fields):
        pairs = [
            _column_text(dialect, definition, summed_source, field) for definition in definitions
        ]
        if all(text is not None for _, text in pairs):
            for columns, (_, text) in zip(columns_of, pairs, strict=True):
                columns[field.name] = SummedColumn(index=index, text=text or "")
        elif field.name not in summed_source.job_columns:
            source_type = next(source_type for source_type, text in pairs if text is None)
            left_out_columns.append(f"{field.name} ({source_type or 'not there'})")
    if missing_keys := [name for name in schema.primary_keys if name not in columns_of[0]]:
        raise UsageError(
            f"the database cannot hash column {missing_keys[0]!r} of the key",
            where=f"{database.url} {_relation_names(definitions)}",
            fix="compare with the topics instead (--conf)",
        )
    queries, key_digests = [], []
    for definition, columns in zip(definitions, columns_of, strict=True):
        keys = [columns[name] for name in columns if name in schema.primary_keys]
        summed_columns = list(columns.values())
        queries.append(
            dialect.hashes_query(
                dialect.name(definition.schema, definition.name),
                summed_columns,
                keys or summed_columns,
            )
        )
        key_digests.append(dialect.digest.format(dialect.join_texts(keys or summed_columns)))
    return DatabaseSide(
        database=database,
        definitions=definitions,
        columns=tuple(columns_of[0]),
        left_out_columns=left_out_columns,
        hashes_query=" union all ".join(queries),
        key_digests=key_digests,
    )


def _relation_names(definitions: Sequence[JdbcTable]) -> str:
    return ", ".join(f"{definition.schema}.{definition.name}" for definition in definitions)


def _column_text(
    dialect: SumDialect, definition: JdbcTable, summed_source: SummedSource, field: DataField
) -> tuple[str, str | None]:
    """Return a column's type in the database, and the SQL of its text or None."""
    for name, source_type in definition.source_types.items():
        if summed_source.column_of(name) == field.name:
            return source_type, dialect.text_expression(name, source_type, field.data_type)
    return "", None
