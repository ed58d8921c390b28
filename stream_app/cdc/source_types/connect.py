"""Maps Kafka Connect's schema of a column to the column's type.

A connector with ``column.propagate.source.type`` repeats the database's own type in parameters of
the schema; a known type has priority. Otherwise the literal and the semantic type decide.

Source: Paimon `flink/action/cdc/format/debezium/DebeziumSchemaUtils.java#toDataType` and
`#avroToPaimonDataType`. Paimon does not know the semantic types of ``time.precision.mode`` =
``connect``, ``isostring`` and ``nanoseconds``. It takes a Decimal without a precision for
DECIMAL(20, 0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stream_app.cdc.source_types.mysql import decimal_type, mysql_type_of
from stream_app.cdc.source_types.postgresql import postgresql_type_of
from stream_app.cdc.source_types.stored_times import StoredType, stored_type
from stream_app.cdc.source_types.type_text import TypeText, parse_type_text
from stream_app.model.schema.data_type import (
    BYTES,
    DECIMAL_PRECISION_MAX,
    STRING,
    DataType,
    TypeRoot,
)
from stream_app.model.source.mapping_options import MappingOption, MappingOptions

SOURCE_TYPE = "__debezium.source.column.type"
SOURCE_LENGTH = "__debezium.source.column.length"
SOURCE_SCALE = "__debezium.source.column.scale"

CONNECT = "org.apache.kafka.connect.data."
TIME = "io.debezium.time."
DECIMAL = CONNECT + "Decimal"
VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
BITS = "io.debezium.data.Bits"
JSON = "io.debezium.data.Json"

LITERALS: dict[str, DataType] = {
    "int8": DataType(root=TypeRoot.TINYINT),
    "int16": DataType(root=TypeRoot.SMALLINT),
    "int32": DataType(root=TypeRoot.INT),
    "int64": DataType(root=TypeRoot.BIGINT),
    "float": DataType(root=TypeRoot.FLOAT),
    "float32": DataType(root=TypeRoot.FLOAT),
    "double": DataType(root=TypeRoot.DOUBLE),
    "float64": DataType(root=TypeRoot.DOUBLE),
    "boolean": DataType(root=TypeRoot.BOOLEAN),
    "bytes": BYTES,
    "string": STRING,
}
"""Literal type → type of its columns; others, such as array and struct, are STRING with JSON."""
_TIME_DIGITS = {TIME + "MicroTime": 6, TIME + "NanoTime": 9, TIME + "IsoTime": 9}
"""Type of a time → the digits of a second that its values may have."""
_DATABASES: dict[str, Callable[[TypeText, MappingOptions], DataType | None]] = {
    "mysql": mysql_type_of,
    "mariadb": mysql_type_of,
    "vitess": mysql_type_of,
    "postgresql": postgresql_type_of,
}
"""The name of a connector → the mapping of its database's types."""


def _time(root: TypeRoot, precision: int) -> DataType:
    return DataType(root=root, precision=precision)


SEMANTICS: dict[str, DataType] = {
    CONNECT + "Date": DataType(root=TypeRoot.DATE),
    TIME + "Date": DataType(root=TypeRoot.DATE),
    TIME + "IsoDate": DataType(root=TypeRoot.DATE),
    CONNECT + "Time": _time(TypeRoot.TIME, 3),
    TIME + "Time": _time(TypeRoot.TIME, 3),
    TIME + "MicroTime": _time(TypeRoot.TIME, 3),
    TIME + "NanoTime": _time(TypeRoot.TIME, 3),
    TIME + "IsoTime": _time(TypeRoot.TIME, 3),
    CONNECT + "Timestamp": _time(TypeRoot.TIMESTAMP, 3),
    TIME + "Timestamp": _time(TypeRoot.TIMESTAMP, 3),
    TIME + "MicroTimestamp": _time(TypeRoot.TIMESTAMP, 6),
    TIME + "NanoTimestamp": _time(TypeRoot.TIMESTAMP, 9),
    TIME + "IsoTimestamp": _time(TypeRoot.TIMESTAMP, 6),
    TIME + "ZonedTimestamp": _time(TypeRoot.TIMESTAMP, 6),
}
"""Semantic types with a meaning of their own; a column of any other has its literal type.

Paimon stores milliseconds of a TIME. It declares TIME(0), which here would cut the fraction off.
"""


def connect_type(
    literal: str,
    semantic: str,
    parameters: Mapping[str, str],
    connector: str,
    options: MappingOptions,
) -> StoredType:
    """Return the type of a column, nullable.

    Args:
        literal: e.g. ``int64``.
        semantic: the schema's name, such as ``io.debezium.time.Date``; empty without one.
        connector: the name of Debezium's connector; empty if unknown.
    """
    nearest_type = _nearest_type(literal, semantic, parameters, connector, options)
    is_of_database = _database_type(parameters, connector, options) is not None
    digits = None if is_of_database else _TIME_DIGITS.get(semantic)
    return stored_type(nearest_type, options, digits=digits, sends_text=literal == "string")


def _nearest_type(
    literal: str,
    semantic: str,
    parameters: Mapping[str, str],
    connector: str,
    options: MappingOptions,
) -> DataType:
    """Return a field's type, by the first that decides it: database type, semantic, literal."""
    if MappingOption.TO_STRING in options or semantic == VARIABLE_SCALE:
        return STRING
    database_type = _database_type(parameters, connector, options)
    if database_type is not None:
        return database_type
    if semantic == BITS:
        length = _integer_or_none(parameters.get("length"))
        return DataType(root=TypeRoot.BINARY, length=(length + 7) // 8) if length else BYTES
    if semantic == DECIMAL:
        return _connect_decimal(parameters)
    if semantic == JSON:
        return options.document_type
    return SEMANTICS.get(semantic) or LITERALS.get(literal, STRING)


def _database_type(
    parameters: Mapping[str, str], connector: str, options: MappingOptions
) -> DataType | None:
    name = parameters.get(SOURCE_TYPE)
    type_of = _DATABASES.get(connector)
    if name is None or type_of is None:
        return None
    # MySQL's ENUM and SET bring their labels in brackets.
    source_type = TypeText(
        parse_type_text(str(name)).name,
        _integer_or_none(parameters.get(SOURCE_LENGTH)),
        _integer_or_none(parameters.get(SOURCE_SCALE)),
    )
    return type_of(source_type, options)


def _connect_decimal(parameters: Mapping[str, str]) -> DataType:
    precision = _integer_or_none(parameters.get("connect.decimal.precision"))
    scale = _integer_or_none(parameters.get("scale")) or 0
    if precision is None:
        # MySQL's BIGINT UNSIGNED is sent so, and nothing else without a fraction.
        precision = DECIMAL_PRECISION_MAX if scale else 20
    return decimal_type(precision, scale)


def _integer_or_none(text: object) -> int | None:
    digits = str(text)
    is_number = digits.removeprefix("-").isdecimal() and digits.isascii() and len(digits) < 12
    return int(digits) if is_number else None
