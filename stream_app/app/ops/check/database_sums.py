"""A table of a database as one side of a comparison by checksums, by generated SQL.

The database hashes its rows itself. One statement gives the sums of all groups of keys, and one
more the hashes of the groups that differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stream_app.app.ops.check.sql_texts import SumDialect, SummedColumn, dialect_of
from stream_app.app.source.jdbc_connection import answers, log_position, opened_database
from stream_app.app.source.jdbc_table import read_table
from stream_app.errors import UsageError
from stream_app.format.row_hash.key_groups import HashedRows
from stream_app.jdbc import JdbcUrl
from stream_app.model.checksum.row_sum import RowSum
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS

_ANSWER_S = 6 * 3600
"""A statement reads the whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSums:
    """Implements `SummedSide`.

    Attributes:
        relation: the table, for people.
        columns: the names of the columns that are hashed.
        hashes: the query of the hashes of all rows.
    """

    url: JdbcUrl
    relation: str
    columns: tuple[str, ...]
    hashes: str

    @property
    def label(self) -> str:
        """The table, and the position of the database's log."""
        return f"{self.url} {self.relation}, at {log_position(self.url)}"

    def total(self) -> RowSum | None:
        """Returns None, because only a statement could compute it."""
        return None

    def groups(self) -> Mapping[int, RowSum]:
        """Let the database sum up all rows once."""
        return {
            int(digits, 16): RowSum.of_totals(int(rows), int(high), int(low))
            for digits, rows, high, low in self._ask(self._dialect.sums_query(self.hashes))
        }

    def rows(self, groups: Collection[int]) -> HashedRows:
        """Let the database hash the rows of the groups, which are few."""
        counted: HashedRows = Counter()
        for key, digits in self._ask(self._dialect.rows_query(self.hashes, sorted(groups))):
            text = key.encode() if isinstance(key, str) else bytes(key)
            counted[text, int(digits[:16], 16), int(digits[16:], 16)] += 1
        return counted

    @property
    def _dialect(self) -> SumDialect:
        return dialect_of(self.url.driver)

    def _ask(self, query: str) -> list[Any]:
        with opened_database(self.url) as connection:
            return answers(connection, query, self._dialect.settings)


def database_sums(
    url: JdbcUrl, relation: str, schema: TableSchema, left_out: list[str]
) -> DatabaseSums:
    """The side of a database's table, for the columns that the database can hash.

    Args:
        relation: the name of the table there; may have its schema in front.
        left_out: gets the other columns.

    Raises:
        UsageError: there is no such table, or it cannot hash the key.
        SourceError: the database does not answer, or refuses the user.
    """
    dialect = dialect_of(url.driver)
    with opened_database(url) as connection:
        read = read_table(connection, url, relation, NO_MAPPING_OPTIONS)
        kinds = with_enums(connection, url, read.kinds)
    owner, name = read.schema, read.name
    columns = {}
    for position, field in enumerate(schema.fields):
        kind = kinds.get(field.name)
        text = None if kind is None else dialect.value_text(field.name, kind, field.data_type)
        if text is None:
            left_out.append(f"{field.name} ({kind or 'not there'})")
        else:
            columns[field.name] = SummedColumn(position=position, text=text)
    if missing := [name for name in schema.primary_keys if name not in columns]:
        raise UsageError(
            f"the database cannot hash column {missing[0]!r} of the key",
            where=f"{url} {owner}.{name}",
            fix="compare with the topics instead (--conf)",
        )
    summed = list(columns.values())
    keys = [columns[name] for name in columns if name in schema.primary_keys]
    hashes = dialect.hashes(dialect.name(owner, name), summed, keys or summed)
    return DatabaseSums(
        url=replace(url, answer_s=_ANSWER_S),
        relation=f"{owner}.{name}",
        columns=tuple(columns),
        hashes=hashes,
    )


def with_enums(connection: Any, url: JdbcUrl, kinds: Mapping[str, str]) -> Mapping[str, str]:
    """The types of columns, with ``enum`` in place of each enum of PostgreSQL."""
    query = dialect_of(url.driver).enums
    enums = {row[0] for row in answers(connection, query)} if query else set()
    return {at: "enum" if kind in enums else kind for at, kind in kinds.items()}
