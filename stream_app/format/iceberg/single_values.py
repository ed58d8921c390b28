"""Encodes values of partitions and bounds in Iceberg's forms.

Source: Iceberg's table specification, "Single-value serialization" and "Avro".
"""

from __future__ import annotations

import datetime
import re
import struct
from typing import Any

from stream_app.format.binary_row import unscaled_bytes, unscaled_decimal
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    RowType,
    TypeRoot,
)
from stream_app.model.schema.iceberg_schema import MICROS_PRECISION_MAX

FIRST_PARTITION_FIELD_ID = 1000
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_PACKED_FORMATS = {
    TypeRoot.BOOLEAN: "<?",
    TypeRoot.TINYINT: "<i",
    TypeRoot.SMALLINT: "<i",
    TypeRoot.INT: "<i",
    TypeRoot.DATE: "<i",
    TypeRoot.BIGINT: "<q",
    TypeRoot.FLOAT: "<f",
    TypeRoot.DOUBLE: "<d",
    TypeRoot.TIMESTAMP: "<q",
    TypeRoot.TIMESTAMP_LTZ: "<q",
}
_AVRO: dict[TypeRoot, object] = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.DATE: {"type": "int", "logicalType": "date"},
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
}


def single_value(value: Any, data_type: DataType) -> bytes:
    """Encode a value in `binary_row`'s convention as the bytes of a bound."""
    if data_type.root in STRING_ROOTS:
        return bytes(value, "utf-8")
    if data_type.root in BINARY_ROOTS:
        return bytes(value)
    if data_type.root is TypeRoot.DECIMAL:
        return unscaled_bytes(unscaled_decimal(value, data_type.scale))
    return struct.pack(_PACKED_FORMATS[data_type.root], avro_value(value, data_type))


def has_single_value(data_type: DataType) -> bool:
    """Return whether Iceberg has bounds of the type."""
    return not data_type.is_nested and data_type.root is not TypeRoot.TIME


def avro_value(value: Any, data_type: DataType) -> Any:
    """Convert a value in `binary_row`'s convention to a partition value in Avro."""
    is_micros = data_type.root in TIMESTAMP_ROOTS and data_type.precision <= MICROS_PRECISION_MAX
    return value // 1000 if is_micros and value is not None else value


def row_value(value: Any) -> Any:
    """Convert a partition value of Avro's reader to `binary_row`'s convention."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=datetime.UTC) - _EPOCH) // _MICROSECOND * 1000
    if isinstance(value, datetime.date):
        return (value - _EPOCH.date()).days
    return value


def partition_record(partition_type: RowType) -> dict[str, object]:
    """Return the Avro schema of partitions, whose fields readers look up by id."""
    fields = [
        {
            "name": avro_name(field_index, field.name),
            "type": ["null", _avro_type(field.data_type, field_index)],
            "default": None,
            "field-id": FIRST_PARTITION_FIELD_ID + field_index,
        }
        for field_index, field in enumerate(partition_type)
    ]
    return {"type": "record", "name": "r102", "fields": fields}


def avro_name(field_index: int, name: str) -> str:
    """Return the name of a partition field in Avro, which allows few characters."""
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"partition_{field_index}"


def _avro_type(data_type: DataType, field_index: int) -> object:
    if data_type.root in TIMESTAMP_ROOTS:
        unit = "micros" if data_type.precision <= MICROS_PRECISION_MAX else "nanos"
        is_utc = data_type.root is TypeRoot.TIMESTAMP_LTZ
        return {"type": "long", "logicalType": f"timestamp-{unit}", "adjust-to-utc": is_utc}
    if data_type.root is TypeRoot.DECIMAL:
        precision, scale = data_type.precision, data_type.scale
        size = (10**precision - 1).bit_length() // 8 + 1
        decimal_type = {"logicalType": "decimal", "precision": precision, "scale": scale}
        return {"type": "fixed", "name": f"decimal_{field_index}", "size": size, **decimal_type}
    return _AVRO[data_type.root]
