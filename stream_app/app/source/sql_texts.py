"""Generates SQL expressions for the canonical texts of rows, for PostgreSQL, MariaDB and MySQL.

The functions are pure: a column's types in the database and in the table determine its expression.
`format.row_hash.row_texts` defines the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stream_app.cdc.source_types.type_text import parse_type_text
from stream_app.model.checksum.sum_conditions import MICROSECONDS
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)
from stream_app.network.jdbc import POSTGRESQL, Driver

_PIECES_MAX = 50
"""The maximum arguments of one call of ``concat``; PostgreSQL accepts at most 100."""
TEXT, BYTES, INTEGER = TypeRoot.VARCHAR, TypeRoot.VARBINARY, TypeRoot.BIGINT

Expressions = Mapping[tuple[TypeRoot, str], str]
"""(Type family in the table, type in the database) → the SQL expression of a value's text.

``{c}`` stands for the column, and ``{zeros}`` for as many zeros as the decimal's scale.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedColumn:
    """A column's index in the table, and the SQL expression of its text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SumDialect:
    """The SQL of one kind of database.

    Attributes:
        quote: the character that encloses a name.
        join_texts: returns the expression that joins the texts of a row's columns.
        digest: the expression that hashes a text into hexadecimal digits.
        half: the sum of one half of all digests as numbers; ``{}`` is the half's first digit.
        array: the expression of an array's text; empty if the database has no arrays. ``{c}`` is
            the array, and ``{element}`` the text of its element `e`.
        enums_query: the query of the names of enum types; empty without one.
        settings: statements that run before the others.
        replica: the query that tells whether the database may be a lagging replica.
        gone_codes: the error codes of a missing table; empty if the catalog lists all tables.
    """

    quote: str
    expressions: Expressions
    join_texts: Callable[[Sequence[SummedColumn]], str]
    digest: str
    half: str
    replica: str
    array: str = ""
    enums_query: str = ""
    settings: tuple[str, ...] = ()
    gone_codes: tuple[int, ...] = ()

    def name(self, *path: str) -> str:
        """Return a name, quoted for a statement."""
        quote = self.quote
        return ".".join(f"{quote}{part.replace(quote, 2 * quote)}{quote}" for part in path)

    def text_expression(self, column: str, source_type: str, data_type: DataType) -> str | None:
        """Return the expression of a column's text, or None if SQL cannot compute it."""
        return self._text(self.name(column), source_type, data_type)

    def _text(self, value: str, source_type: str, data_type: DataType) -> str | None:
        if self.array and data_type.root is TypeRoot.ARRAY:
            inner = element_kind(source_type)
            element_text = self._text("e", inner, *data_type.inner) if inner else None
            if element_text is None:
                return None
            return self.array.format(c=value, element=element_text)
        expression = expression_of(self.expressions, source_type, data_type)
        return expression and expression.format(c=value, zeros="0" * data_type.scale)

    def hashes_query(
        self, relation: str, columns: Sequence[SummedColumn], keys: Sequence[SummedColumn]
    ) -> str:
        """Return the query of each row's key text `k`, key digest `g` and row digest `r`."""
        key, row = self.join_texts(keys), self.join_texts(columns)
        digest_columns = f"{self.digest.format(key)} as g, {self.digest.format(row)} as r"
        return f"select {key} as k, {digest_columns} from {relation}"

    def sums_query(self, hashes_query: str) -> str:
        """Return the query of each group's digits, number of rows, and two sums."""
        group = "substr(g, 1, 3)"
        sums = f"{self.half.format(1)}, {self.half.format(17)}"
        return f"select {group}, count(*), {sums} from ({hashes_query}) h group by {group}"

    def rows_query(self, hashes_query: str, groups: Iterable[int]) -> str:
        """Return the query of the key text and the digest of each row in some groups."""
        digits = ", ".join(f"'{group:03x}'" for group in groups)
        return f"select k, r from ({hashes_query}) h where substr(g, 1, 3) in ({digits})"


def expression_of(expressions: Expressions, source_type: str, data_type: DataType) -> str | None:
    """Return the expression for a column of these types, or None without one."""
    if data_type.root in TIMESTAMP_ROOTS and data_type.precision > MICROSECONDS:
        return None
    return expressions.get((_family(data_type), kind_name(source_type)))


def kind_name(source_type: str) -> str:
    """Return a database type's name in lower case, without its lengths."""
    kind = parse_type_text(source_type).name.lower()
    for word in (" unsigned", " zerofill"):
        kind = kind.replace(word, "")
    return kind


def element_kind(source_type: str) -> str:
    """Return the type of the elements of PostgreSQL's array type; empty for other types."""
    kind, brackets, _ = kind_name(source_type).rpartition("[]")
    return kind.strip() if brackets else ""


def dialect_of(driver: Driver) -> SumDialect:
    """Return the dialect of a driver's database."""
    return _POSTGRES if driver is POSTGRESQL else _MYSQL


def _family(data_type: DataType) -> TypeRoot:
    for roots, family in (
        (INTEGER_ROOTS, INTEGER),
        (STRING_ROOTS, TEXT),
        (BINARY_ROOTS, BYTES),
        (TIMESTAMP_ROOTS, TypeRoot.TIMESTAMP),
    ):
        if data_type.root in roots:
            return family
    return data_type.root


def _postgres_row(columns: Sequence[SummedColumn]) -> str:
    texts = [f"'{column.index}=' || {column.text} || ';'" for column in columns]
    chunks = [texts[start : start + _PIECES_MAX] for start in range(0, len(texts), _PIECES_MAX)]
    calls = [f"concat({', '.join(chunk)})" for chunk in chunks]
    return calls[0] if len(calls) == 1 else f"concat({', '.join(calls)})"


def _mysql_row(columns: Sequence[SummedColumn]) -> str:
    texts = [f"concat('{column.index}=', {column.text}, ';')" for column in columns]
    return "concat({}, '')".format(", ".join(f"ifnull({text}, '')" for text in texts))


def for_kinds(root: TypeRoot, kinds: Iterable[str], expression: str) -> Expressions:
    """Map several types of the database to the same expression."""
    return {(root, kind): expression for kind in kinds}


def arrays_of(*kinds: str) -> list[str]:
    """Return PostgreSQL's array types, with and without a length of their elements."""
    return [array for kind in kinds for array in (f"{kind}[]", f"{kind} []")]


PLAIN_ELEMENTS = (
    *("boolean", "smallint", "integer", "bigint"),
    *("text", "character varying", "uuid", "citext"),
)
"""Types whose values in arrays have the same JSON under all settings of a connector."""
POSTGRES_MICROS = "round(extract(epoch from {c}) * 1000000)::bigint::text"
_POSTGRES_TEXT = "octet_length(convert_to({c}::text, 'UTF8')) || ':' || {c}::text"
# A cast would cut the padding off.
_POSTGRES_PADDED = (
    "case when {c} is not null then "
    "octet_length(convert_to(format('%s', {c}), 'UTF8')) || ':' || format('%s', {c}) end"
)
# No ARRAY of the table has the text of several dimensions.
_POSTGRES_ARRAY = (
    "case when array_ndims({c}) > 1 then {c}::text when {c} is not null then "
    "(select '[' || coalesce(string_agg(coalesce({element}, 'null'), ',' order by at), '') || ']' "
    "from unnest({c}) with ordinality as elements (e, at)) end"
)
POSTGRES_TIMES = ("time without time zone", "time")
_POSTGRES = SumDialect(
    quote='"',
    expressions={
        (TypeRoot.BOOLEAN, "boolean"): "{c}::int::text",
        (TypeRoot.BOOLEAN, "bit"): "{c}::text",
        **for_kinds(INTEGER, ("smallint", "integer", "bigint", "oid"), "{c}::text"),
        **for_kinds(INTEGER, POSTGRES_TIMES, POSTGRES_MICROS),
        (TypeRoot.DECIMAL, "numeric"): "round({c} * 1{zeros}::numeric)::text",
        (TypeRoot.FLOAT, "real"): "encode(float4send({c}), 'hex')",
        (TypeRoot.DOUBLE, "double precision"): "encode(float8send({c}), 'hex')",
        **for_kinds(
            TEXT,
            ("text", "character varying", "uuid", "json", "jsonb", "citext", "enum"),
            _POSTGRES_TEXT,
        ),
        (TEXT, "character"): _POSTGRES_PADDED,
        **for_kinds(
            TEXT,
            arrays_of(*PLAIN_ELEMENTS, "enum"),
            _POSTGRES_TEXT.replace("{c}", "to_json({c})"),
        ),
        (BYTES, "bytea"): "encode({c}, 'hex')",
        (TypeRoot.DATE, "date"): "({c} - date '1970-01-01')::text",
        **for_kinds(
            TypeRoot.TIME,
            POSTGRES_TIMES,
            "trunc(extract(epoch from {c}) * 1000)::bigint::text",
        ),
        **for_kinds(
            TypeRoot.TIMESTAMP,
            ("timestamp without time zone", "timestamp with time zone"),
            POSTGRES_MICROS,
        ),
    },
    join_texts=_postgres_row,
    digest="md5(convert_to({}, 'UTF8'))",
    replica="select pg_is_in_recovery()",
    half="sum(('x' || substr(r, {}, 16))::bit(64)::bigint)",
    array=_POSTGRES_ARRAY,
    enums_query="select format_type(oid, null) from pg_type where typtype = 'e'",
)
MYSQL_MICROS = (
    "if({c} < '00:00:00', -1, 1) * "
    "((hour({c}) * 3600 + minute({c}) * 60 + second({c})) * 1000000 + microsecond({c}))"
)
_MYSQL_TEXT = "concat(octet_length(convert({c} using utf8mb4)), ':', convert({c} using utf8mb4))"
_MYSQL = SumDialect(
    quote="`",
    expressions={
        **for_kinds(
            TypeRoot.BOOLEAN,
            ("tinyint", "bit", "boolean"),
            "case when {c} <> 0 then '1' when {c} = 0 then '0' end",
        ),
        **for_kinds(
            INTEGER,
            ("tinyint", "smallint", "mediumint", "int", "bigint", "year"),
            "cast({c} as char)",
        ),
        (INTEGER, "time"): f"cast({MYSQL_MICROS} as char)",
        **for_kinds(
            TypeRoot.DECIMAL,
            ("decimal", "bigint"),
            "cast(cast({c} * 1{zeros} as decimal(65, 0)) as char)",
        ),
        **for_kinds(
            TEXT,
            ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"),
            _MYSQL_TEXT,
        ),
        **for_kinds(
            BYTES,
            ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
            "lower(hex({c}))",
        ),
        (TypeRoot.DATE, "date"): "cast(datediff({c}, '1970-01-01') as char)",
        (TypeRoot.TIME, "time"): f"cast(({MYSQL_MICROS}) div 1000 as char)",
        **for_kinds(
            TypeRoot.TIMESTAMP,
            ("datetime", "timestamp"),
            "cast(timestampdiff(microsecond, '1970-01-01', {c}) as char)",
        ),
    },
    join_texts=_mysql_row,
    digest="md5({})",
    replica="select @@global.read_only",
    half="sum(cast(conv(substr(r, {}, 16), 16, 10) as unsigned))",
    settings=("set time_zone = '+00:00'",),
    gone_codes=(1049, 1146),
)
