"""Computes columns by their functions, in the order of functions.txt, and compares the values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import valid_of
from stream_app.cdc.columns.column_cast import cast_alone
from stream_app.cdc.columns.column_reading import (
    ColumnReading,
    Encoding,
    Family,
    JsonKind,
    family_of,
)
from stream_app.cdc.columns.wire_values import wire_value
from stream_app.cdc.computed.column_definition import (
    DefinitionError,
    parse_definition,
    sort_definitions,
)
from stream_app.cdc.computed.column_functions import applied_function, function_of
from stream_app.format.arrow_schema import arrow_type
from stream_app.model.schema.data_type import DataType, parse_data_type
from tests.support.suite.datadriven import Case, run_file

MOMENT = pa.scalar(1500, pa.timestamp("ms"))


def test_functions_of_computed_columns_give_these_values() -> None:
    run_file(Path(__file__).with_name("functions.txt"), _handle)


def _handle(case: Case) -> str:
    try:
        return _order(case) if case.command == "order" else _values(case)
    except DefinitionError as error:
        return str(error)


def _order(case: Case) -> str:
    definitions = [parse_definition(line) for line in case.input_lines]
    references = [
        (definition.name, definition.arguments[0] if function_of(definition).reads_column else None)
        for definition in definitions
    ]
    return " ".join(sort_definitions(references))


def _values(case: Case) -> str:
    column_type = parse_data_type(case.header.removeprefix("of "))
    calls, *texts = case.input_lines
    column = array_of([json.loads(text) for text in texts], column_type)
    outcomes = []
    types = []
    for call in re.findall(r"\w+\((?:[^()]|\([^()]*\))*\)", calls):
        definition = parse_definition(f"x={call}")
        function = applied_function(definition, column_type, arrow_type)
        taken = column if function_of(definition).reads_column else pa.repeat(MOMENT, len(texts))
        values, has_failed = function.compute(taken)
        has_failed = np.zeros(len(texts), np.bool_) if has_failed is None else has_failed
        assert not (has_failed & valid_of(values)).any(), "what fails is null"
        types.append(str(function.result_type))
        outcomes.append(
            [
                "fails" if fails else _value_text(value)
                for value, fails in zip(values, has_failed, strict=True)
            ]
        )
    return "\n".join([" ".join(types), *(" ".join(row) for row in zip(*outcomes, strict=True))])


def array_of(values: list[Any], data_type: DataType) -> pa.Array:
    """Values of JSON as a column."""
    is_time = family_of(data_type) in (Family.DATE, Family.TIME, Family.TIMESTAMP)
    reading = ColumnReading(
        name="c", data_type=data_type, arrow_type=arrow_type(data_type), scale=data_type.scale,
        encoding=Encoding.ISO if is_time else Encoding.TEXT, is_required=False, is_key=False,
    )  # fmt: skip
    parts = []
    for value in values:
        if value is None:
            parts.append(pa.nulls(1, reading.arrow_type))
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        kind, parsed_value = wire_value(reading, JsonKind.STRING, text)
        cast_value, has_failed = cast_alone(reading, kind, [parsed_value])
        assert has_failed is None, value
        parts.append(cast_value)
    return pa.concat_arrays(parts) if parts else pa.nulls(0, reading.arrow_type)


def _value_text(value: pa.Scalar) -> str:
    python_value = value.as_py()
    if python_value is None or isinstance(python_value, bool | int | str):
        return json.dumps(python_value, ensure_ascii=False)
    return json.dumps(str(value.cast(pa.string())))
