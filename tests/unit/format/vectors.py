"""Values computed by Paimon's Java, and how their JSON becomes values of ours."""

from __future__ import annotations

import decimal
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.format.arrow_schema import arrow_type
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    DataType,
    RowType,
    TypeRoot,
    parse_data_type,
)

_FILE = Path(__file__).resolve().parents[2] / "fixtures" / "format_vectors.json"
NANOS_OF_UNIT = {"ms": 1_000_000, "us": 1_000, "ns": 1}


@cache
def vectors() -> dict[str, Any]:
    return json.loads(_FILE.read_text())


def hashed_rows() -> list[dict[str, Any]]:
    return vectors()["rows_with_hash_and_bucket"]


def plain_rows() -> list[dict[str, Any]]:
    """Rows of scalar columns that Java encoded with row kind +I."""
    return [
        row
        for row in vectors()["rows_only"]
        if "row kind" not in row["label"]
        and not any(text.startswith(("ARRAY", "MAP", "ROW")) for text in row["types"])
    ]


def types_of(row: dict[str, Any]) -> list[DataType]:
    return [parse_data_type(text) for text in row["types"]]


def values_of(row: dict[str, Any]) -> list[object]:
    return [
        python_value_of(value, data_type)
        for value, data_type in zip(row["values"], types_of(row), strict=True)
    ]


def python_value_of(value: Any, data_type: DataType) -> object:
    if value is None:
        return None
    if data_type.root in FLOAT_ROOTS:
        return float(value)
    if data_type.root in BINARY_ROOTS:
        return bytes.fromhex(value.removeprefix("0x"))
    if data_type.root is TypeRoot.DECIMAL:
        return decimal.Decimal(value)
    if data_type.root in TIMESTAMP_ROOTS:
        return int(np.datetime64(value, "ns").astype(np.int64))
    return value


def arrow_column(values: list[Any], data_type: DataType) -> pa.Array:
    """Values in the convention of binary_row as an Arrow column, without rounding."""
    type_ = arrow_type(data_type)
    if data_type.root in TIMESTAMP_ROOTS:
        per_tick = NANOS_OF_UNIT[type_.unit]
        ticks = [None if value is None else value // per_tick for value in values]
        return pa.array(ticks, pa.int64()).cast(type_)
    if data_type.root in (TypeRoot.DATE, TypeRoot.TIME):
        return pa.array(values, pa.int32()).cast(type_)
    return pa.array(values, type_)


def row_type(*columns: tuple[str, str]) -> RowType:
    return RowType(
        tuple(
            DataField(field_id=index, name=name, data_type=parse_data_type(text))
            for index, (name, text) in enumerate(columns)
        )
    )


def unhex(record: Any) -> Any:
    """Avro records of the fixture, whose bytes are written as 0x…"""
    if isinstance(record, dict):
        return {key: unhex(value) for key, value in record.items()}
    if isinstance(record, list):
        return [unhex(value) for value in record]
    if isinstance(record, str) and record.startswith("0x"):
        return bytes.fromhex(record[2:])
    return record


def snapshots_of_tables() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{name}-{entry['snapshot']['id']}", entry)
        for name, table in vectors()["tables"].items()
        for entry in table["snapshots"]
    ]


def avro_files(suffix: str) -> list[tuple[str, dict[str, Any]]]:
    """Manifest lists ('') or manifests (' manifests') of all tables."""
    rows = []
    for label, entry in snapshots_of_tables():
        for kind in ("deltaManifestList", "changelogManifestList"):
            files = entry.get(kind + suffix, [])
            rows += [
                (f"{label}-{kind}", file)
                for file in (files if isinstance(files, list) else [files])
            ]
    return rows
