"""Reads the definition of a table in a database: columns, types, comments and primary key.

It queries the system catalogs of PostgreSQL, MySQL and MariaDB. A job maps types to column types in
the same way (`cdc.source_types`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stream_app.app.source.jdbc_connection import open_connection, query_rows
from stream_app.app.source.sql_texts import dialect_of
from stream_app.cdc.source_types.mysql import mysql_type
from stream_app.cdc.source_types.postgresql import postgresql_type
from stream_app.cdc.source_types.remarks import GENERATED_COLUMN, LOSES_NULLS, inexact_remarks
from stream_app.cdc.source_types.stored_times import stored_type
from stream_app.errors import UsageError
from stream_app.model.first_texts import first_texts
from stream_app.model.schema.data_type import STRING, DataType
from stream_app.model.source.mapping_options import MappingOption, MappingOptions
from stream_app.model.source.source_table import SourceColumn, SourceTable
from stream_app.network.jdbc import MARIADB, MYSQL, POSTGRESQL, JdbcUrl

_SHOWN_TABLES_MAX = 10
_POSTGRES_COLUMNS = """
    select a.attname, format_type(a.atttypid, a.atttypmod), not a.attnotnull,
           col_description(c.oid, a.attnum), array_position(i.indkey::int2[], a.attnum),
           a.attgenerated <> '', a.atthasdef, c.relkind = 'p'
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid
    join pg_namespace n on n.oid = c.relnamespace
    left join pg_index i on i.indrelid = c.oid and i.indisprimary
    where n.nspname = %s and c.relname = %s and a.attnum > 0 and not a.attisdropped
    order by a.attnum"""
_POSTGRES_TABLES = """
    select table_schema, table_name from information_schema.tables
    where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')
    order by table_schema, table_name"""
_MYSQL_COLUMNS = """
    select c.column_name, c.column_type, c.is_nullable = 'YES', c.column_comment,
           k.ordinal_position, false, c.column_default is not null and c.column_default <> 'NULL',
           false
    from information_schema.columns c
    left join information_schema.key_column_usage k
      on k.constraint_name = 'PRIMARY' and k.table_schema = c.table_schema
      and k.table_name = c.table_name and k.column_name = c.column_name
    where c.table_schema = %s and c.table_name = %s
    order by c.ordinal_position"""
_MYSQL_TABLES = """
    select table_schema, table_name from information_schema.tables
    where table_type = 'BASE TABLE' and table_schema = database()
    order by table_name"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DatabaseKind:
    """The catalog queries and types of one kind of database.

    Attributes:
        schema: the default schema of tables; empty means the URL's database.
        columns_query: the query of a table's columns.
        tables_query: the query of the tables of the database.
        type_of: returns the column type for a type of the database, or None without one.
    """

    schema: str
    columns_query: str
    tables_query: str
    type_of: Callable[[str, MappingOptions], DataType | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcTable:
    """The definition of a table in a database.

    Attributes:
        schema: the schema in PostgreSQL, or the database in MySQL.
        source_types: the type of each column, as the database spells it.
        untyped_columns: columns, with their types, that became STRING because their type has no
            counterpart.
        is_root: whether the table is partitioned, so that changes may name its partitions instead.
    """

    schema: str
    name: str
    table: SourceTable
    source_types: Mapping[str, str]
    untyped_columns: Sequence[str] = ()
    is_root: bool = False


def jdbc_table(url: JdbcUrl, relation: str | None, options: MappingOptions) -> JdbcTable:
    """Read a table's definition.

    Args:
        relation: ``TABLE`` or ``SCHEMA.TABLE``; None selects the only table.

    Raises:
        UsageError: the driver is not installed, or the table does not exist.
        SourceError: the database does not respond, or refuses the user.
    """
    with open_connection(url) as connection:
        return read_table(connection, url, relation, options)


def read_table(
    connection: Any, url: JdbcUrl, relation: str | None, options: MappingOptions
) -> JdbcTable:
    """Read a table's definition through an open connection; see `jdbc_table`."""
    schema, name, rows = _columns(connection, url, relation)
    return _table(schema, name, rows, _KINDS[url.driver], options)


def _columns(connection: Any, url: JdbcUrl, relation: str | None) -> tuple[str, str, Sequence[Any]]:
    """Return a table's schema and name, and a row of the catalog for each column."""
    kind = _KINDS[url.driver]
    relations: list[tuple[str, str]] = []
    schema, _, name = (relation or "").rpartition(".")
    schema = schema or kind.schema or url.database
    with connection.cursor() as cursor:

        def read() -> Sequence[Any]:
            cursor.execute(kind.columns_query, (schema, name))
            return list(cursor.fetchall())

        rows = read() if name else ()
        if not rows:
            cursor.execute(kind.tables_query)
            relations = [(str(owner), str(table)) for owner, table in cursor.fetchall()]
        if relation is None and len(relations) == 1:
            [(schema, name)] = relations
            rows = read()
    if not rows:
        first_names = first_texts(relations, _SHOWN_TABLES_MAX, text_of=".".join)
        raise UsageError(
            f"there is no table {relation}"
            if relation
            else f"the database has {len(relations)} tables",
            where=str(url),
            fix=f"name one by --table: {first_names or 'none'}",
        )
    return schema, name, rows


def _table(
    schema: str, name: str, rows: Sequence[Any], kind: _DatabaseKind, options: MappingOptions
) -> JdbcTable:
    """Return the definition of a table from the catalog's rows of its columns."""
    key_columns = {
        int(ordinal): str(column) for column, _, _, _, ordinal, *_ in rows if ordinal is not None
    }
    columns, untyped_columns = [], []
    for column, text, may_be_null, comment, ordinal, is_generated, has_default, _ in rows:
        column_type = kind.type_of(str(text), options)
        if column_type is None:
            untyped_columns.append(f"{column} {text}")
        is_nullable = bool(may_be_null) or MappingOption.TO_NULLABLE in options
        stored_data_type = stored_type(column_type or STRING, options)
        columns.append(
            SourceColumn(
                name=str(column),
                data_type=_with_nulls(
                    stored_data_type.data_type, nullable=is_nullable and ordinal is None
                ),
                comment=str(comment) if comment else None,
                remarks=(
                    *inexact_remarks(stored_data_type),
                    *([GENERATED_COLUMN] if is_generated else []),
                    *([LOSES_NULLS] if has_default and may_be_null and not is_generated else []),
                ),
            )
        )
    primary_keys = tuple(key_columns[ordinal] for ordinal in sorted(key_columns))
    table = SourceTable(columns=tuple(columns), primary_keys=primary_keys)
    is_root = any(row[-1] for row in rows)
    return JdbcTable(
        schema=schema,
        name=name,
        table=table,
        source_types={str(row[0]): str(row[1]) for row in rows},
        untyped_columns=untyped_columns,
        is_root=is_root,
    )


def _with_nulls(data_type: DataType, *, nullable: bool) -> DataType:
    return data_type.as_nullable() if nullable else data_type.not_null()


_POSTGRES = _DatabaseKind(
    schema="public",
    columns_query=_POSTGRES_COLUMNS,
    tables_query=_POSTGRES_TABLES,
    type_of=postgresql_type,
)
_MYSQL = _DatabaseKind(
    schema="", columns_query=_MYSQL_COLUMNS, tables_query=_MYSQL_TABLES, type_of=mysql_type
)
_KINDS = {POSTGRESQL: _POSTGRES, MYSQL: _MYSQL, MARIADB: _MYSQL}


def with_enums(connection: Any, url: JdbcUrl, source_types: Mapping[str, str]) -> Mapping[str, str]:
    """Return column → type, with ``enum`` in place of each of PostgreSQL's enum types.

    ``enum[]`` is an array of them.
    """
    query = dialect_of(url.driver).enums_query
    enums = {str(row[0]) for row in query_rows(connection, query)} if query else set()
    enum_types = {f"{name}{end}": f"enum{end}" for name in enums for end in ("", "[]")}
    return {column: enum_types.get(text, text) for column, text in source_types.items()}
