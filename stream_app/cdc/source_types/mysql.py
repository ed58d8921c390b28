"""Maps types of MySQL and MariaDB to types of columns.

Source: Paimon `flink/action/cdc/mysql/MySqlTypeUtils.java`. Different here: SET is STRING, because
tables have scalar columns; BIT without a length is BIT(1), as in MySQL; TIME keeps its digits.
"""

from __future__ import annotations

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

_INTEGERS = {
    "TINYINT UNSIGNED": TypeRoot.SMALLINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "SMALLINT UNSIGNED": TypeRoot.INT,
    "MEDIUMINT": TypeRoot.INT,
    "INT": TypeRoot.INT,
    "INTEGER": TypeRoot.INT,
    "YEAR": TypeRoot.INT,
    "MEDIUMINT UNSIGNED": TypeRoot.BIGINT,
    "INT UNSIGNED": TypeRoot.BIGINT,
    "INTEGER UNSIGNED": TypeRoot.BIGINT,
    "BIGINT": TypeRoot.BIGINT,
    "LONG": TypeRoot.BIGINT,
}
_FLOATS = {
    "FLOAT": TypeRoot.FLOAT,
    "REAL": TypeRoot.DOUBLE,
    "DOUBLE": TypeRoot.DOUBLE,
    "DOUBLE PRECISION": TypeRoot.DOUBLE,
}
_DECIMALS = frozenset({"DECIMAL", "DEC", "NUMERIC", "FIXED"})
_TEXTS = frozenset(
    {
        *("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "ENUM", "SET", "STRING"),
        *("GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING"),
        *("MULTIPOLYGON", "GEOMETRYCOLLECTION"),
    }
)
_BLOBS = frozenset({"TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"})
_JDBC_TIMESTAMP_LENGTH = 19
"""Characters of 2023-03-23 17:20:00: a longer length counts a point and the fraction."""
_BARE_DECIMAL = DataType(root=TypeRoot.DECIMAL, precision=38, scale=18)


def mysql_type(text: str, options: MappingOptions) -> DataType | None:
    """Return the column's type for MySQL's spelling, e.g. ``varchar(20)``; None if unknown."""
    return mysql_type_of(parse_type_text(text), options)


def mysql_type_of(source_type: TypeText, options: MappingOptions) -> DataType | None:
    """Return the type that `mysql_type` gives, for a parsed type."""
    name, length = source_type.name.removesuffix(" ZEROFILL"), source_type.length
    if MappingOption.TO_STRING in options:
        return STRING
    if source_type.name != name and not name.endswith(" UNSIGNED"):
        name += " UNSIGNED"  # MySQL implies it
    signed_name = name.removesuffix(" UNSIGNED")
    if name in _INTEGERS:
        return DataType(root=_INTEGERS[name])
    if signed_name in _FLOATS:
        return DataType(root=_FLOATS[signed_name])
    if signed_name in _DECIMALS:
        return (
            _BARE_DECIMAL
            if length is None
            else decimal_type(length, max(source_type.scale or 0, 0))
        )
    if name == "JSON":
        return options.document_type
    if name in _TEXTS:
        is_bytes = name == "LONGTEXT" and MappingOption.LONGTEXT_TO_BYTES in options
        return BYTES if is_bytes else STRING
    if name in _BLOBS:
        return BYTES
    return _type_by_length(name, length, options)


def _type_by_length(name: str, length: int | None, options: MappingOptions) -> DataType | None:
    """Return the type of a name that has at most a length; None for an unknown name."""
    match name:
        case "BOOLEAN" | "BOOL":
            return DataType(root=TypeRoot.BOOLEAN)
        case "BIT":
            return bits_type(length or 1)
        case "TINYINT":
            is_bool = length == 1 and MappingOption.TINYINT1_NOT_BOOL not in options
            return DataType(root=TypeRoot.BOOLEAN if is_bool else TypeRoot.TINYINT)
        case "BIGINT UNSIGNED" | "SERIAL":
            if MappingOption.BIGINT_UNSIGNED_TO_BIGINT in options:
                return DataType(root=TypeRoot.BIGINT)
            return DataType(root=TypeRoot.DECIMAL, precision=20)
        case "CHAR" | "VARCHAR":
            return text_type(TypeRoot[name], length, options)
        case "BINARY" | "VARBINARY":
            return DataType(root=TypeRoot.VARBINARY, length=length) if length else BYTES
        case _:
            return _time_type(name, length)


def _time_type(name: str, length: int | None) -> DataType | None:
    match name:
        case "DATE":
            return DataType(root=TypeRoot.DATE)
        case "TIME":
            digits = min(max(length or 0, 0), TIMESTAMP_PRECISION_MAX)
            return DataType(root=TypeRoot.TIME, precision=digits)
        case "DATETIME" | "TIMESTAMP":
            digits = max(length or 0, 0)
            if digits >= _JDBC_TIMESTAMP_LENGTH:
                digits = max(digits - _JDBC_TIMESTAMP_LENGTH - 1, 0)
            precision = min(digits, TIMESTAMP_PRECISION_MAX)
            return DataType(root=TypeRoot.TIMESTAMP, precision=precision)
        case _:
            return None


def decimal_type(precision: int, scale: int) -> DataType:
    """Return DECIMAL with these digits; STRING if Paimon's DECIMAL cannot have them."""
    if 1 <= precision <= DECIMAL_PRECISION_MAX and 0 <= scale <= precision:
        return DataType(root=TypeRoot.DECIMAL, precision=precision, scale=scale)
    return STRING


def bits_type(length: int) -> DataType:
    """Return the type of a number of bits: BOOLEAN for one, otherwise whole bytes."""
    if length == 1:
        return DataType(root=TypeRoot.BOOLEAN)
    return DataType(root=TypeRoot.BINARY, length=(length + 7) // 8)


def text_type(root: TypeRoot, length: int | None, options: MappingOptions) -> DataType:
    """Return CHAR or VARCHAR of a length; STRING without one."""
    if not length or length > STRING_MAX or MappingOption.CHAR_TO_STRING in options:
        return STRING
    return DataType(root=root, length=length)
