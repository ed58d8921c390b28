"""Generates the SQL by which PostgreSQL, MariaDB and MySQL write their rows as messages.

The functions are pure. A message equals one of Debezium's initial snapshot (op r) with the settings
in `LOAD_OPTIONS`, so the job decodes both in the same way. A column whose types have no expression
here cannot be loaded.

Source: Debezium documentation, "Data type mappings" of the PostgreSQL, MySQL and MariaDB
connectors, for `decimal.handling.mode` = string, `time.precision.mode` = microseconds and
`binary.handling.mode` = hex.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stream_app.app.source.sql_texts import (
    BYTES,
    INTEGER,
    MYSQL_MICROS,
    PLAIN_ELEMENTS,
    POSTGRES_MICROS,
    POSTGRES_TIMES,
    TEXT,
    Expressions,
    arrays_of,
    dialect_of,
    expression_of,
    for_kinds,
    kind_name,
)
from stream_app.model.schema.data_type import DataType, TypeRoot
from stream_app.network.jdbc import POSTGRESQL, Driver
from stream_app.spark.jobs.database_row_reader import RowQuery

LOAD_FORMAT = "debezium-json"
LOAD_OPTIONS: Mapping[str, str] = {
    "decimal.handling.mode": "string",
    "time.precision.mode": "microseconds",
    "binary.handling.mode": "hex",
}
"""The settings of a connector that would write the same messages."""
# The text of an array of arrays is no JSON, so the cast to `json` ends the load.
_POSTGRES_ARRAY = "case when array_ndims({c}) > 1 then {c}::text::json else to_json({c}) end"
# The bytes are whole and big-endian, padded with zeros; `substr` drops their length.
_POSTGRES_BYTES = "substr(varbit_send(lpad({c}::text, (length({c}) + 7) / 8 * 8, '0')::varbit), 5)"
_POSTGRES: Expressions = {
    (TypeRoot.BOOLEAN, "boolean"): "{c}",
    # Several bits cannot be cast to a boolean, which ends the load.
    (TypeRoot.BOOLEAN, "bit"): "{c}::text::boolean",
    (BYTES, "bit"): f"encode({_POSTGRES_BYTES}, 'hex')",
    **{
        (root, array): _POSTGRES_ARRAY
        for root in (TEXT, TypeRoot.ARRAY)
        for array in arrays_of(*PLAIN_ELEMENTS)
    },
    **{
        (root, kind): "{c}::text"
        for root in (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.VARIANT)
        for kind in ("json", "jsonb")
    },
    **for_kinds(TEXT, ("inet", "cidr", "macaddr", "macaddr8"), "{c}"),
    **for_kinds(INTEGER, ("smallint", "integer", "bigint", "oid"), "{c}"),
    **for_kinds(INTEGER, POSTGRES_TIMES, POSTGRES_MICROS.removesuffix("::text")),
    (TypeRoot.DECIMAL, "numeric"): "{c}::text",
    (TypeRoot.FLOAT, "real"): "{c}",
    (TypeRoot.DOUBLE, "double precision"): "{c}",
    **for_kinds(TEXT, ("text", "character varying", "character", "citext"), "{c}"),
    **for_kinds(TEXT, ("uuid", "json", "jsonb", "enum"), "{c}::text"),
    (BYTES, "bytea"): "encode({c}, 'hex')",
    (TypeRoot.DATE, "date"): "({c} - date '1970-01-01')",
    **for_kinds(TypeRoot.TIME, POSTGRES_TIMES, POSTGRES_MICROS.removesuffix("::text")),
    **for_kinds(
        TypeRoot.TIMESTAMP,
        ("timestamp without time zone", "timestamp with time zone"),
        POSTGRES_MICROS.removesuffix("::text"),
    ),
}
"""The expression of a column's value, which PostgreSQL converts to JSON."""
_MYSQL_TEXT = "json_quote(convert({c} using utf8mb4))"
_MYSQL: Expressions = {
    **for_kinds(TypeRoot.BOOLEAN, ("tinyint", "boolean", "bit"), "if({c} <> 0, 1, 0)"),
    # The sum removes leading zeros, which YEAR and ZEROFILL write.
    **for_kinds(
        INTEGER, ("tinyint", "smallint", "mediumint", "int", "bigint", "year"), "({c} + 0)"
    ),
    (INTEGER, "time"): MYSQL_MICROS,
    **for_kinds(TypeRoot.DECIMAL, ("decimal", "bigint"), "concat('\"', {c}, '\"')"),
    # Without the sum, FLOAT would be written with six digits.
    (TypeRoot.FLOAT, "float"): "({c} + 0e0)",
    (TypeRoot.DOUBLE, "double"): "{c}",
    **for_kinds(
        TEXT, ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _MYSQL_TEXT
    ),
    **for_kinds(TEXT, ("enum", "set"), _MYSQL_TEXT),
    **for_kinds(TypeRoot.VARIANT, ("text", "mediumtext", "longtext"), _MYSQL_TEXT),
    **for_kinds(
        BYTES,
        ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
        "concat('\"', hex({c}), '\"')",
    ),
    (BYTES, "bit"): "concat('\"', lpad(hex({c} + 0), 2 * octet_length({c}), '0'), '\"')",
    (TypeRoot.DATE, "date"): "datediff({c}, '1970-01-01')",
    (TypeRoot.TIME, "time"): MYSQL_MICROS,
    **for_kinds(
        TypeRoot.TIMESTAMP,
        ("datetime", "timestamp"),
        "timestampdiff(microsecond, '1970-01-01', {c})",
    ),
}
"""The expression of a column's JSON text."""
_TABLE_ALIAS, _ROW_ALIAS = "stream_app_table", "stream_app_row"
_ORDERED_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_ORDERED_TEXTS = ("decimal", "char", "varchar", "date", "datetime", "timestamp")
"""MySQL's types whose comparison with a literal follows the index's order; an enum's does not."""


_VALUES_MARK = "stream_app_values"
"""A mark in a query, which the placeholders of the values replace."""


@dataclass(frozen=True, slots=True)
class InCondition:
    """The condition that an expression has one of some values, of which there is at least one."""

    expression: str
    values: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRelation:
    """A database's table that is loaded.

    Attributes:
        schema: the schema in PostgreSQL, or the database in MySQL.
        source_types: column → its type, as the database spells it.
        columns: the loaded columns, with their types in the job's table.
        keys: the columns of the primary key; without them the table is one part.
    """

    driver: Driver
    database: str
    schema: str
    name: str
    source_types: Mapping[str, str]
    columns: Mapping[str, DataType]
    keys: Sequence[str]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def omitted_columns(self) -> Sequence[str]:
        """The source's columns that the job's table does not have."""
        return [name for name in self.source_types if name not in self.columns]

    @property
    def unloadable_columns(self) -> Sequence[str]:
        """The columns whose values the database cannot write as Debezium would."""
        return [
            f"{name} ({self.source_types[name]} as {data_type})"
            for name, data_type in self.columns.items()
            if expression_of(self._expressions, self.source_types[name], data_type) is None
        ]

    def row_query(self, now_ms: int, condition: InCondition | None = None) -> RowQuery:
        """Return the query of the table's rows as messages.

        Args:
            now_ms: the time that the messages contain.
            condition: the condition of the rows to read, or None for all rows.
        """
        message = self._postgres_message if self.driver is POSTGRESQL else self._mysql_message
        relation = f"{self._sql_name} {_TABLE_ALIAS}"
        values = () if condition is None else condition.values
        if condition is not None:
            names = ", ".join(
                self._quote(name) for name in {**self.columns, **dict.fromkeys(self.keys)}
            )
            relation = (
                f"(select {names} from {self._sql_name} "
                f"where {condition.expression} in ({_VALUES_MARK})) {_TABLE_ALIAS}"
            )
        if self.driver is POSTGRESQL:
            row = ", ".join(
                f"{value} as {self._quote(name)}" for name, value in self._value_sql().items()
            )
            relation += f" cross join lateral (select {row}) {_ROW_ALIAS}"
        return RowQuery(
            message=_escape_percent(message(self._message_tail(now_ms))),
            relation=_escape_percent(relation).replace(
                _VALUES_MARK, ", ".join(["%s"] * len(values))
            ),
            parameters=values,
            keys=[_escape_percent(self._column(name)) for name in self._range_keys],
            literals=[self._literal(name) for name in self._range_keys],
        )

    def bounds_query(self, rows_per_part: int) -> str | None:
        """Return the query of the last key of each part, or None if the table is one part."""
        if not self._range_keys:
            return None
        names = ", ".join(self._quote(name) for name in self._range_keys)
        texts = ", ".join(self._key_text(name) for name in self._range_keys)
        numbered_rows = f"select {names}, row_number() over (order by {names}) as {_ROW_ALIAS}"
        return (
            f"select {texts} from ({numbered_rows} from {self._sql_name}) numbered "
            f"where {_ROW_ALIAS} % {rows_per_part} = 0 order by {_ROW_ALIAS}"
        )

    @property
    def _range_keys(self) -> Sequence[str]:
        """The columns by whose ranges the table is split; empty if it is one part."""
        if self.driver is POSTGRESQL:
            return self.keys
        ordered_types = _ORDERED_NUMBERS + _ORDERED_TEXTS
        return (
            self.keys
            if all(kind_name(self.source_types[key]) in ordered_types for key in self.keys)
            else ()
        )

    def _key_text(self, name: str) -> str:
        column = self._quote(name)
        if self.driver is POSTGRESQL:
            return f"{column}::text"
        is_number = kind_name(self.source_types[name]) in _ORDERED_NUMBERS
        return column if is_number else f"cast({column} as char)"

    def _literal(self, name: str) -> str:
        if self.driver is not POSTGRESQL:
            return "%s"
        # The enum type's own name is unknown here; PostgreSQL infers it from the column.
        source_type = self.source_types[name]
        return "%s" if source_type == "enum" else f"%s::{_escape_percent(source_type)}"

    @property
    def _expressions(self) -> Expressions:
        return _POSTGRES if self.driver is POSTGRESQL else _MYSQL

    def _value_sql(self) -> Mapping[str, str]:
        values = {}
        for name, data_type in self.columns.items():
            expression = expression_of(self._expressions, self.source_types[name], data_type)
            assert expression is not None, (
                "`LoadedDatabase.relation` has refused an unloadable column"
            )
            values[name] = expression.format(c=self._column(name))
        return values

    def _message_tail(self, now_ms: int) -> str:
        table = {"db": self.database, "schema": self.schema, "table": self.name}
        if self.driver is not POSTGRESQL:
            table = {"db": self.schema, "table": self.name}
        source = {"connector": self.driver.name, "ts_ms": now_ms, "snapshot": "true", **table}
        tail = {"source": source, "op": "r", "ts_ms": now_ms, "transaction": None}
        return f",{json.dumps(tail, ensure_ascii=False, separators=(',', ':'))[1:]}"

    def _postgres_message(self, tail: str) -> str:
        head = '{"before":null,"after":'
        return f"'{head}' || row_to_json({_ROW_ALIAS})::text || {self._sql_text(tail)}"

    def _mysql_message(self, tail: str) -> str:
        pieces, separator = [], '{"before":null,"after":{'
        for name, value in self._value_sql().items():
            # The server returns NULL for a value that it cannot convert; such a NULL must not be
            # loaded.
            text = f"if({self._column(name)} is null, 'null', {value})"
            pieces += [self._sql_text(f"{separator}{json.dumps(name)}:"), text]
            separator = ","
        pieces.append(self._sql_text(f"}}{tail}"))
        return f"cast(concat({', '.join(pieces)}) as binary)"

    @property
    def _sql_name(self) -> str:
        return dialect_of(self.driver).name(self.schema, self.name)

    def _sql_text(self, text: str) -> str:
        """Return a text as an SQL literal. Only MySQL needs its backslashes escaped."""
        if self.driver is not POSTGRESQL:
            text = text.replace("\\", "\\\\")
        return "'{}'".format(text.replace("'", "''"))

    def _column(self, name: str) -> str:
        return f"{_TABLE_ALIAS}.{self._quote(name)}"

    def _quote(self, name: str) -> str:
        return dialect_of(self.driver).name(name)


def _escape_percent(sql: str) -> str:
    """Return the SQL with escaped percent signs, for a statement with parameters."""
    return sql.replace("%", "%%")
