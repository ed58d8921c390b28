"""System tables have the columns, types and rows that Paimon's Java gives for the same table."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stream_app
from stream_app.errors import UsageError
from stream_app.table.read.system_tables import ROW_FORMS, SYSTEM_TABLES
from tests.support.jobs.table_writer import by_content
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.judges.paimon_java import PaimonJava

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

PAIMONS = {
    "aggregation_fields", "audit_log", "binlog", "branches", "buckets", "consumers",
    "file_key_ranges", "files", "manifests", "options", "partitions", "ro", "row_tracking",
    "schemas", "snapshots", "statistics", "table_indexes", "tags",
}  # fmt: skip
"""Source: Paimon 1.4 `table/system/SystemTableLoader.java`."""
AS_JSON = {"fields", "partition_keys", "primary_keys", "options", "colstat"}
"""Columns whose text is JSON, of schemas and statistics: blanks and order do not count."""

COLUMNS = [
    ("p", "STRING NOT NULL"),
    ("day", "DATE NOT NULL"),
    ("k", "BIGINT NOT NULL"),
    ("Amount", "DECIMAL(10, 2)"),
    ("ratio", "DOUBLE"),
    ("share", "FLOAT"),
    ("text", "STRING"),
    ("code", "CHAR(3)"),
    ("flag", "BOOLEAN"),
    ("at", "TIMESTAMP(6)"),
    ("zoned", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("clock", "TIME(3)"),
    ("small", "SMALLINT"),
]
KINDS: dict[str, dict[str, Any]] = {
    "keyed": {
        "primary_keys": ("p", "day", "k"),
        "partition_keys": ("p", "day"),
        "options": {"bucket": "2"},
    },
    "input": {
        "primary_keys": ("p", "day", "k"),
        "partition_keys": ("p",),
        "options": {"bucket": "2", "changelog-producer": "input", "metadata.stats-mode": "counts"},
    },
    "vectors": {
        "primary_keys": ("k",),
        "options": {
            "bucket": "2",
            "deletion-vectors.enabled": "true",
            "fields.text.stats-mode": "none",
            "data-file.thin-mode": "true",
        },
    },
    "append": {
        "partition_keys": ("day",),
        "options": {"bucket": "-1", "fields.text.other.thing": "x"},
    },
}


def row(epoch: int, k: int) -> Row:
    time = dt.datetime(2024, 1, 2, 3, 4, 5 * (k % 2), 120 * epoch)  # noqa: DTZ001
    full: Row = {
        "p": ("a:b {x}", "plain")[k % 2],
        "day": dt.date(1969 + k % 2, 12, 31),
        "k": k - 3,
        "Amount": Decimal("1234567.50") * k,
        "ratio": 1e10 / (1 + k),
        "share": 0.1 * k,
        "text": f"a text of epoch {epoch} that is long",
        "code": "abc",
        "flag": bool(k % 2),
        "at": time,
        "zoned": time.replace(microsecond=0, tzinfo=dt.UTC),
        "clock": dt.time(3, 4, 5),
        "small": -k,
    }
    if k == 5:
        full |= dict.fromkeys(("Amount", "ratio", "text", "at", "flag"))
    return full


@pytest.fixture(scope="module", params=KINDS)
def table(
    request: pytest.FixtureRequest,
    paimon_java: PaimonJava,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Three epochs, compacted in the middle; a column added, one renamed; tag, branch, consumer."""
    path = tmp_path_factory.mktemp("system") / "db.db" / str(request.param)
    paimon_java.create(path, COLUMNS, **KINDS[request.param])
    for epoch in range(2):
        paimon_java.write(path, [("+I", row(epoch, k)) for k in range(8)], identifier=epoch)
    paimon_java.compact(path)
    paimon_java.tag(path, "kept", 1)
    paimon_java.branch(path, "side", "kept")
    paimon_java.alter(path, ("add", "later", "INT"), ("rename", "small", "tiny"))
    changed_rows = [("+I", {**row(3, k), "tiny": 7, "later": k}) for k in range(3)]
    for _, values in changed_rows:
        del values["small"]
    options = {"write-only": "true"}
    paimon_java.write(path, changed_rows, identifier=3, options=options)
    paimon_java.changelog(path, options={"scan.mode": "latest", "consumer-id": "reader"})
    paimon_java.collect_statistics(path)
    return path


@pytest.mark.parametrize("name", [*SYSTEM_TABLES, *ROW_FORMS])
def test_each_system_table_equals_javas(paimon_java: PaimonJava, table: Path, name: str) -> None:
    ours = stream_app.open_table(str(table)).system(name)
    if name == "snapshots":  # Paimon 2 has two columns more
        assert ours.column_names[-2:] == ["operation", "writer_version"]
        ours = ours.drop_columns(["operation", "writer_version"])
    types = paimon_java.types(f"{table}${name}")
    assert [(field.name, sql_type(field)) for field in ours.schema] == [
        (column, _plain(text)) for column, text in types
    ]
    java_rows = paimon_java.read(f"{table}${name}")
    assert bool(java_rows) or name == "table_indexes"
    our_rows = normal_rows(ours)
    if name in ("schemas", "statistics"):
        our_rows, java_rows = _parsed_rows(our_rows), _parsed_rows(java_rows)
    assert by_content(our_rows) == by_content(java_rows)


def _parsed_rows(rows: list[Row]) -> list[Row]:
    return [
        {name: json.loads(value) if name in AS_JSON else value for name, value in row.items()}
        for row in rows
    ]


def _plain(text: str) -> str:
    """Arrow keeps no length of texts; the audit log's columns have those of the table."""
    return text.replace("CHAR(3)", "STRING").replace("TIMESTAMP(3) WITH", "TIMESTAMP WITH")


def sql_type(field: pa.Field) -> str:
    return _sql(field.type) + ("" if field.nullable else " NOT NULL")


def _sql(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_field)}>"
    if pa.types.is_struct(kind):
        return f"ROW<{', '.join(f'`{column.name}` {sql_type(column)}' for column in kind)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
        return f"TIMESTAMP({digits})" if kind.tz is None else "TIMESTAMP WITH LOCAL TIME ZONE"
    return {
        pa.string(): "STRING", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
        pa.bool_(): "BOOLEAN", pa.float32(): "FLOAT", pa.float64(): "DOUBLE",
        pa.date32(): "DATE", pa.time32("ms"): "TIME(3)",
    }[kind]  # fmt: skip


def test_all_system_tables_of_paimon_but_row_tracking_are_read(table: Path) -> None:
    assert {*SYSTEM_TABLES, *ROW_FORMS} == PAIMONS - {"row_tracking"}
    with pytest.raises(UsageError, match="does not read the system table 'row_tracking'"):
        stream_app.open_table(str(table)).system("row_tracking")
