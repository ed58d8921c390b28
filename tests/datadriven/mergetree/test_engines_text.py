"""Merges rows of one key by the merge engine of a table, as text.

Each line is a row: its kind, and its values in the order of the columns. A line ``=`` asks for the
row to which the rows above it merge. The first column is the key, and the arguments are the table's
options. ``reads`` asks for some columns, and shows which other columns are read.
"""

from __future__ import annotations

import json
import re
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.errors import StreamAppError, UsageError
from stream_app.mergetree.merge_engines.merge_engine_registry import merge_function_of
from stream_app.mergetree.merge_window import sorted_window
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import DataField, DataType, TypeRoot, parse_columns
from stream_app.model.schema.table_schema import (
    SEQUENCE_NUMBER,
    VALUE_KIND,
    TableSchema,
    new_table_schema,
)
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.lsm_files import a_layout

HERE = Path(__file__).parent
KINDS = {kind.short: kind for kind in RowKind}
ENGINES = ["partial_update", "aggregation", "paimon_fields", "nested_columns", "first_row"]


def schema_of(case: Case) -> TableSchema:
    columns = case.args["columns"]
    options = {key: value for key, value in case.args.items() if key not in ("columns", "asked")}
    return new_table_schema(
        columns=parse_columns(columns),
        primary_keys=(columns.split()[0],),
        partition_keys=(),
        options={"bucket": "1", **options},
        time_ms=0,
    )


def value_of(text: str, column: DataField) -> Any:
    if text == "null":
        return None
    if column.data_type.is_nested:
        return nested_value(json.loads(text), column.data_type)
    match column.data_type.root:
        case TypeRoot.VARCHAR:
            return text
        case TypeRoot.BOOLEAN:
            return text == "true"
        case TypeRoot.DECIMAL:
            return Decimal(text)
        case TypeRoot.DOUBLE | TypeRoot.FLOAT:
            return float(text)
    return int(text)


def nested_value(value: Any, data_type: DataType) -> Any:
    """Return the value of a JSON document, in which an object with texts as keys is a map."""
    if data_type.key is not None and value is not None:
        is_text = data_type.key.root is TypeRoot.VARCHAR
        return [(key if is_text else int(key), member) for key, member in value.items()]
    return value


def show(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list | dict):
        is_map = isinstance(value, list) and bool(value) and isinstance(value[0], tuple)
        text = json.dumps(dict(value) if is_map else value, separators=(",", ":"))
        return f"'{text}'" if '"' in text else text
    return str(value).lower() if isinstance(value, bool) else shlex.quote(str(value))


def merge(case: Case) -> str:
    try:
        schema = schema_of(case)
    except UsageError as error:
        problems = error.problem.removeprefix("the table definition is wrong: ")
        return re.sub("; (?!did you mean)", "\n", problems)
    function = merge_function_of(schema)
    layout = a_layout(case.args["columns"], schema.fields.names[0])
    layout = type(layout)(layout.schema, layout.key_names, schema.sequence_fields)
    rows: list[dict[str, Any]] = []
    shown = []
    for line in case.input_lines:
        kind, *texts = shlex.split(line)
        if kind != "=":
            values = [value_of(t, c) for t, c in zip(texts, schema.fields, strict=True)]
            row = dict(zip(schema.fields.names, values, strict=True))
            number = {SEQUENCE_NUMBER: len(rows) + 1, VALUE_KIND: int(KINDS[kind])}
            rows.append(number | row)
            continue
        batch = pa.RecordBatch.from_pylist(rows, schema=layout.schema)
        try:
            merged_rows = function.merge(sorted_window(batch, layout), layout).to_pylist()
        except StreamAppError as error:
            shown.append(f"error: {error.problem}")
            continue
        for row in merged_rows:
            texts = [show(row[name]) for name in schema.fields.names]
            shown.append(
                f"{RowKind(row[VALUE_KIND]).short} {' '.join(texts)} #{row[SEQUENCE_NUMBER]}"
            )
    return "\n".join(shown) or "fine"


def run(case: Case) -> str:
    if case.command == "merge":
        return merge(case)
    schema, read_columns = schema_of(case), case.args["asked"].split(",")
    besides = schema.merge_rules.needed_columns(read_columns).difference(read_columns)
    return " ".join([*read_columns, *(["and", *sorted(besides)] if besides else [])])


@pytest.mark.parametrize("name", ENGINES)
def test_rows_of_one_key_are_merged_by_the_engine(name: str) -> None:
    run_file(HERE / f"{name}.txt", run)
