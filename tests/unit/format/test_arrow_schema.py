"""Each column type has its Arrow type, and data files have their columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stream_app.format.arrow_schema import FIELD_ID, arrow_schema, arrow_type, key_value_file_schema
from stream_app.model.schema.data_type import parse_columns, parse_data_type
from stream_app.model.schema.table_schema import new_table_schema


@pytest.mark.parametrize(
    ("type_text", "expected"),
    [
        ("BOOLEAN", pa.bool_()),
        ("TINYINT", pa.int8()),
        ("SMALLINT", pa.int16()),
        ("INT", pa.int32()),
        ("BIGINT", pa.int64()),
        ("FLOAT", pa.float32()),
        ("DOUBLE", pa.float64()),
        ("DECIMAL(12,2)", pa.decimal128(12, 2)),
        ("CHAR(3)", pa.string()),
        ("STRING", pa.string()),
        ("BINARY(3)", pa.binary()),
        ("BYTES", pa.binary()),
        ("DATE", pa.date32()),
        ("TIME(0)", pa.time32("ms")),
        ("TIME(9)", pa.time32("ms")),
        ("TIMESTAMP(0)", pa.timestamp("ms")),
        ("TIMESTAMP(3)", pa.timestamp("ms")),
        ("TIMESTAMP(4)", pa.timestamp("us")),
        ("TIMESTAMP", pa.timestamp("us")),
        ("TIMESTAMP(7)", pa.timestamp("ns")),
        ("TIMESTAMP_LTZ(3)", pa.timestamp("ms", "UTC")),
        ("TIMESTAMP_LTZ(9)", pa.timestamp("ns", "UTC")),
    ],
)
def test_type_in_arrow(type_text: str, expected: pa.DataType) -> None:
    assert arrow_type(parse_data_type(type_text)) == expected


SCHEMA = new_table_schema(
    columns=parse_columns("v DOUBLE, dt STRING, id BIGINT"),
    primary_keys=("dt", "id"),
    partition_keys=("dt",),
    options={"bucket": "1"},
    time_ms=0,
)


def summary(schema: pa.Schema) -> list[tuple[str, str, bool, int]]:
    return [
        (field.name, str(field.type), field.nullable, int(field.metadata[FIELD_ID]))
        for field in schema
    ]


VALUES = [
    ("v", "double", True, 1),
    ("dt", "string", False, 2),
    ("id", "int64", False, 3),
]
SYSTEM = [
    ("_SEQUENCE_NUMBER", "int64", False, 2_147_483_646),
    ("_VALUE_KIND", "int8", False, 2_147_483_645),
]


def test_columns_of_a_data_file() -> None:
    key = ("_KEY_id", "int64", False, 1_073_741_826)
    assert summary(key_value_file_schema(SCHEMA, is_thin=False)) == [key, *SYSTEM, *VALUES]


def test_columns_of_a_thin_data_file() -> None:
    assert summary(key_value_file_schema(SCHEMA, is_thin=True)) == [*SYSTEM, *VALUES]


def test_columns_of_a_table() -> None:
    assert summary(arrow_schema(SCHEMA.fields)) == VALUES
