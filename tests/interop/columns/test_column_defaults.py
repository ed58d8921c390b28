"""A column's DEFAULT is written as Paimon's Java writer does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stream_app
from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA, ROW_KIND
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.pipeline import StepPlace
from stream_app.errors import UnsupportedTableError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import RowType, parse_columns
from stream_app.table.opening import open_file_store_table
from stream_app.table.pipeline_steps.column_defaults import defaults_step
from tests.support.jobs.table_writer import by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change, SmallTable

pytestmark = pytest.mark.usefixtures("unsynced")

DEFAULTS = {
    "BOOLEAN": "yes", "TINYINT": "-7", "SMALLINT": "300", "INT": "5.9", "BIGINT": "'12'",
    "FLOAT": "1.5", "DOUBLE": "1e300", "DECIMAL(5,2)": "1.005", "DECIMAL(2,0)": "12345",
    "STRING": "'a 'b' c'", "VARCHAR(3)": "abcdef", "CHAR(4)": "x", "BYTES": "äö", "BINARY(3)": "a",
    "DATE": "2024-02-29", "TIME(3)": "12:34:56.789", "TIMESTAMP(3)": "2024-01-02 03:04:05.678",
    "TIMESTAMP(9)": "2024-01-02 03:04:05.123456789",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": "'2024-01-02 03:04:05'",
}  # fmt: skip


def table_with_defaults(java: PaimonJava, path: Path, *, keys: bool) -> str:
    """A table whose every column but the key has a DEFAULT, the partition's too."""
    columns = [("k", "INT"), ("p", "STRING"), *((f"c{n}", t) for n, t in enumerate(DEFAULTS))]
    java.create(path, columns, primary_keys=["k"] if keys else [],
                partition_keys=[] if keys else ["p"],
                options={"bucket": "1" if keys else "-1"})  # fmt: skip
    changes = [("default", f"c{number}", text) for number, text in enumerate(DEFAULTS.values())]
    java.alter(path, ("default", "p", "somewhere"), *changes)
    return str(path)


def decoded_rows(location: str, *payloads: dict[str, Any]) -> list[Change]:
    """Return the rows that our job decodes from Debezium's messages for this table."""
    schema = open_file_store_table(location).schema
    decode = format_pipeline("debezium-json", FormatSetup(
        columns=schema.fields, arrow_schema=arrow_schema(schema.fields),
        primary_keys=schema.primary_keys, options={}, keeps_update_before=False,
    )).with_steps({StepPlace.DEFAULTS: defaults_step(schema.fields)})  # fmt: skip
    messages = [
        {"topic": "t", "partition": 0, "offset": n, "value": json.dumps(payload).encode()}
        for n, payload in enumerate(payloads)
    ]
    decoded_batch = decode.decode(pa.RecordBatch.from_pylist(messages, MESSAGE_SCHEMA))
    assert decoded_batch.bad_records.num_rows == 0
    kinds = [
        RowKind(kind).short for kind in decoded_batch.changes.rows.column(ROW_KIND).to_pylist()
    ]
    values = decoded_batch.changes.rows.drop_columns([ROW_KIND])
    columns = [values.column(name) for name in values.schema.names]
    return [
        (
            kind,
            {name: column[row] for name, column in zip(values.schema.names, columns, strict=True)},
        )
        for row, kind in enumerate(kinds)
    ]


@pytest.mark.java
@pytest.mark.parametrize("keys", [True, False])
def test_nulls_and_missing_values_become_the_default(
    paimon_java: PaimonJava, tmp_path: Path, keys: bool
) -> None:
    """A null that the source meant as well: Paimon's writer knows no difference."""
    ours, javas = (
        table_with_defaults(paimon_java, tmp_path / "db.db" / n, keys=keys) for n in "ab"
    )
    nulls: dict[str, Any] = {f"c{number}": None for number in range(len(DEFAULTS))}
    own_values: dict[str, Any] = {"p": "here", "c3": 1, "c9": "own"}
    changes = decoded_rows(
        ours,
        {"before": None, "after": {"k": 1}, "op": "c"},
        {"before": None, "after": {"k": 2, **nulls}, "op": "c"},
        {"before": None, "after": {"k": 3, **own_values}, "op": "c"},
    )
    SmallTable(open_file_store_table(ours)).commit(*changes)
    every: dict[str, Any] = {"p": None, **nulls}
    inserted_rows = [{"k": 1, **every}, {"k": 2, **every}, {"k": 3, **every, **own_values}]
    paimon_java.batch_write(javas, [("+I", row) for row in inserted_rows])
    expected = by_content(paimon_java.read(javas))
    assert by_content(paimon_java.read(ours)) == expected
    rows = stream_app.open_table(ours).read().read_all()
    assert by_content(normal_rows(rows)) == expected
    [cut] = [n for n, kind in enumerate(DEFAULTS) if kind == "DECIMAL(2,0)"]
    assert all(rows.column(f"c{n}").null_count == 0 for n in range(len(DEFAULTS)) if n != cut)


@pytest.mark.java
def test_readers_fill_nothing_in(paimon_java: PaimonJava, tmp_path: Path) -> None:
    """Readers leave null in rows from before the DEFAULT, and with the option of older Paimons."""
    path = tmp_path / "db.db" / "t"
    paimon_java.create(path, [("k", "INT"), ("v", "INT")], options={"bucket": "-1"})
    paimon_java.batch_write(path, [("+I", {"k": 1, "v": None})])
    paimon_java.alter(path, ("option", "fields.v.default-value", "6"))
    paimon_java.batch_write(path, [("+I", {"k": 2, "v": None})])
    paimon_java.alter(path, ("add", "w", "INT"))
    paimon_java.alter(path, ("default", "v", "7"), ("default", "w", "8"))
    expected = [{"k": 1, "v": None, "w": None}, {"k": 2, "v": None, "w": None}]
    assert by_content(paimon_java.read(path)) == by_content(expected)
    rows = normal_rows(stream_app.open_table(str(path)).read().read_all())
    assert by_content(rows) == by_content(expected)
    [(_, row)] = decoded_rows(str(path), {"before": None, "after": {"k": 3}, "op": "c"})
    assert {name: value.as_py() for name, value in row.items()} == {"k": 3, "v": 7, "w": 8}


def test_a_default_that_is_not_a_value_is_refused_at_start() -> None:
    key, value = parse_columns("k INT, v INT")
    columns = RowType((key, replace(value, default_value="many")))
    with pytest.raises(UnsupportedTableError, match=r"'v' has a DEFAULT .*not a valid INT"):
        defaults_step(columns)
