"""Maps types of PostgreSQL to types of columns.

Source: Paimon `flink/action/cdc/postgres/PostgresTypeUtils.java`. Different here: arrays are
STRING, because tables have scalar columns; VARBIT is VARBINARY, because its length varies.
"""

from __future__ import annotations

from dataclasses import replace

from stream_app.cdc.source_types.mysql import bits_type, decimal_type, text_type
from stream_app.cdc.source_types.type_text import TypeText, parse_type_text
from stream_app.model.schema.data_type import (
    BYTES,
    DECIMAL_PRECISION_MAX,
    STRING,
    STRING_MAX,
    TIMESTAMP_PRECISION_MAX,
    DataType,
    TypeRoot,
)
from stream_app.model.source.mapping_options import MappingOption, MappingOptions

_SIMPLE = {
    **{
        name: DataType(root=root)
        for name, root in (
            ("BOOL", TypeRoot.BOOLEAN),
            ("INT2", TypeRoot.SMALLINT),
            ("SMALLSERIAL", TypeRoot.SMALLINT),
            ("INT4", TypeRoot.INT),
            ("SERIAL", TypeRoot.INT),
            ("INT8", TypeRoot.BIGINT),
            ("BIGSERIAL", TypeRoot.BIGINT),
            ("FLOAT4", TypeRoot.FLOAT),
            ("FLOAT8", TypeRoot.DOUBLE),
            ("DATE", TypeRoot.DATE),
        )
    },
    "BYTEA": BYTES,
    **dict.fromkeys(("TEXT", "ENUM", "UUID"), STRING),
}
_TIMES = {
    "TIME": TypeRoot.TIME,
    "TIMESTAMP": TypeRoot.TIMESTAMP,
    "TIMESTAMPTZ": TypeRoot.TIMESTAMP_LTZ,
}
_DOCUMENTS = frozenset({"JSON", "JSONB"})
_ELEMENTS = frozenset(
    {"NUMERIC", "BPCHAR", "CHARACTER", "VARCHAR"} | _DOCUMENTS | _SIMPLE.keys() | _TIMES.keys()
)
"""Types of which Paimon knows arrays."""
_SQL_NAMES = {
    "BOOLEAN": "BOOL",
    "SMALLINT": "INT2",
    "INTEGER": "INT4",
    "INT": "INT4",
    "BIGINT": "INT8",
    "REAL": "FLOAT4",
    "DOUBLE PRECISION": "FLOAT8",
    "DECIMAL": "NUMERIC",
    "CHARACTER VARYING": "VARCHAR",
    "BIT VARYING": "VARBIT",
    "TIME WITHOUT TIME ZONE": "TIME",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
}
"""SQL's names of the types, as people and `format_type` write them."""
_BARE_NUMERIC = DataType(root=TypeRoot.DECIMAL, precision=DECIMAL_PRECISION_MAX, scale=18)


def postgresql_type(text: str, options: MappingOptions) -> DataType | None:
    """Return the column's type for PostgreSQL's spelling, e.g. ``timestamptz(3)``, or None.

    A single number of a date or time is its precision, which JDBC calls the scale.
    """
    source_type = parse_type_text(text)
    name = _SQL_NAMES.get(source_type.name, source_type.name)
    if name not in _TIMES:
        return postgresql_type_of(replace(source_type, name=name), options)
    digits = 6 if source_type.length is None else source_type.length
    return postgresql_type_of(TypeText(name, None, digits), options)


def postgresql_type_of(source_type: TypeText, options: MappingOptions) -> DataType | None:
    """Return `postgresql_type` of a name, length and scale of JDBC or Debezium."""
    name, length = source_type.name, source_type.length or 0
    if MappingOption.TO_STRING in options:
        return STRING
    if name in _TIMES:
        precision = min(max(source_type.scale or 0, 0), TIMESTAMP_PRECISION_MAX)
        return DataType(root=_TIMES[name], precision=precision)
    if name.startswith("_") and name[1:] in _ELEMENTS:
        return STRING
    match name:
        case "NUMERIC":
            return _numeric(length, source_type.scale or 0)
        case "BPCHAR" | "CHARACTER" | "CHAR":
            return text_type(TypeRoot.CHAR, length, options)
        case "VARCHAR":
            return text_type(TypeRoot.VARCHAR, length, options)
        case "BIT" | "VARBIT":
            return _bits(name, length)
        case _:
            return options.document_type if name in _DOCUMENTS else _SIMPLE.get(name)


def _numeric(precision: int, scale: int) -> DataType:
    if precision <= 0:
        return _BARE_NUMERIC
    return decimal_type(precision, scale)


def _bits(name: str, length: int) -> DataType:
    if name == "BIT" or length == 1:
        return bits_type(max(length, 1))
    is_bounded = 0 < length < STRING_MAX
    return DataType(root=TypeRoot.VARBINARY, length=(length + 7) // 8) if is_bounded else BYTES
