"""Maps columns' types to Arrow, and lists the columns of a key-value data file.

The units matter: Paimon's Java readers derive a timestamp's unit from the declared precision, and
ignore the unit in the file. A wrong unit gives wrong instants, not an error.

Source: Paimon `format/parquet/ParquetSchemaConverter.java`, `KeyValue.java` and
`table/SpecialFields.java`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import pyarrow as pa

from stream_app.model.schema.data_type import (
    TIMESTAMP_ROOTS,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)
from stream_app.model.schema.table_schema import (
    KEY_PREFIX,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    TableSchema,
)
from stream_app.model.schema.type_members import inner_field_id
from stream_app.variants.layout import VARIANT_TYPE

FIELD_ID = b"PARQUET:field_id"
"""Metadata key of an Arrow field from which Parquet takes the field's id."""

_NANOS_OF_UNIT = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_KEY_FIELD_ID_START = 1_073_741_823
_SEQUENCE_NUMBER_FIELD_ID = 2_147_483_646
_VALUE_KIND_FIELD_ID = 2_147_483_645


def arrow_type(  # noqa: PLR0911, C901, PLR0912 - a table
    data_type: DataType, field_id: int = 0, depth: int = 0
) -> pa.DataType:
    """Return the Arrow type of a column, in memory and in Parquet.

    Args:
        field_id: the id of the column, or of the field of the enclosing ROW.
        depth: the number of ARRAYs and MAPs between that field and the type.
    """
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return pa.bool_()
        case TypeRoot.TINYINT:
            return pa.int8()
        case TypeRoot.SMALLINT:
            return pa.int16()
        case TypeRoot.INT:
            return pa.int32()
        case TypeRoot.BIGINT:
            return pa.int64()
        case TypeRoot.FLOAT:
            return pa.float32()
        case TypeRoot.DOUBLE:
            return pa.float64()
        case TypeRoot.DECIMAL:
            return pa.decimal128(data_type.precision, data_type.scale)
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return pa.string()
        case TypeRoot.BINARY | TypeRoot.VARBINARY | TypeRoot.BLOB:
            return pa.binary()
        case TypeRoot.DATE:
            return pa.date32()
        case TypeRoot.TIME:
            return pa.time32("ms")  # Paimon keeps only milliseconds, for each precision
        case TypeRoot.TIMESTAMP:
            return pa.timestamp(timestamp_unit(data_type.precision))
        case TypeRoot.TIMESTAMP_LTZ:
            return pa.timestamp(timestamp_unit(data_type.precision), "UTC")
        case TypeRoot.ARRAY | TypeRoot.VECTOR:  # Parquet, and so Arrow here, stores both as lists
            return pa.list_(_inner_field("element", data_type.element, field_id, depth + 1))
        case TypeRoot.MAP:
            assert data_type.key is not None
            key = _inner_field("key", data_type.key.not_null(), field_id, -depth - 1)
            return pa.map_(key, _inner_field("value", data_type.element, field_id, depth + 1))
        case TypeRoot.ROW:
            return pa.struct(
                [
                    _arrow_field(field.name, field.data_type, field.field_id)
                    for field in data_type.fields
                ]
            )
        case TypeRoot.VARIANT:
            members = enumerate(VARIANT_TYPE)
            return pa.struct([_with_id(member, field_id) for field_id, member in members])


def _inner_field(name: str, data_type: DataType | None, field_id: int, depth: int) -> pa.Field:
    """Return the field of elements, of keys (at a negative depth) or of values."""
    assert data_type is not None
    stored_type = arrow_type(data_type, field_id, abs(depth))
    field = pa.field(name, stored_type, nullable=data_type.nullable)
    return _with_id(field, inner_field_id(field_id, depth))


def timestamp_unit(precision: int) -> str:
    """Return the unit of stored timestamps of this precision: ``ms``, ``us`` or ``ns``."""
    if precision <= 3:
        return "ms"
    return "us" if precision <= 6 else "ns"


def arrow_scalar(value: object, data_type: DataType) -> pa.Scalar:
    """Convert a value in `binary_row`'s convention to Arrow."""
    target_type = arrow_type(data_type)
    if data_type.root in TIMESTAMP_ROOTS:
        assert isinstance(value, int), value
        ticks = value // _NANOS_OF_UNIT[target_type.unit]
        return pa.array([ticks], pa.int64()).view(target_type)[0]
    if data_type.root in (TypeRoot.DATE, TypeRoot.TIME):
        return pa.array([value], pa.int32()).view(target_type)[0]
    return pa.scalar(value, target_type)


def arrow_schema(row_type: RowType) -> pa.Schema:
    """Return the columns as an Arrow schema, with nullability and Parquet field ids."""
    return pa.schema(
        [_arrow_field(field.name, field.data_type, field.field_id) for field in row_type]
    )


def key_value_file_schema(schema: TableSchema, *, is_thin: bool) -> pa.Schema:
    """Return the Arrow schema of a key-value data or changelog file.

    Args:
        is_thin: whether to omit the ``_KEY_`` columns (``data-file.thin-mode``).
    """
    keys = () if is_thin else schema.key_type.fields
    return pa.schema(
        [
            *(
                _arrow_field(
                    KEY_PREFIX + key.name,
                    key.data_type,
                    _KEY_FIELD_ID_START + key.field_id,
                )
                for key in keys
            ),
            _system_field(SEQUENCE_NUMBER, pa.int64(), _SEQUENCE_NUMBER_FIELD_ID),
            _system_field(VALUE_KIND, pa.int8(), _VALUE_KIND_FIELD_ID),
            *arrow_schema(schema.fields),
        ]
    )


def stored_fields(columns: Iterable[DataField]) -> list[pa.Field]:
    """Return the Arrow fields of columns without Paimon's ids, to compare with a file's fields."""
    return [pa.field(column.name, arrow_type(column.data_type)) for column in columns]


@lru_cache(4_096)
def _arrow_field(name: str, data_type: DataType, field_id: int) -> pa.Field:
    stored_type = arrow_type(data_type, field_id)
    return _with_id(pa.field(name, stored_type, nullable=data_type.nullable), field_id)


def _system_field(name: str, stored_type: pa.DataType, field_id: int) -> pa.Field:
    return _with_id(pa.field(name, stored_type, nullable=False), field_id)


def _with_id(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({FIELD_ID: str(field_id).encode()})
