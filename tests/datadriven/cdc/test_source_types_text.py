"""Maps types of databases and of Kafka Connect to types of columns, as text.

* ``mysql`` and ``postgresql``: each line is a type. The arguments are ``options=a,b`` (of
  ``type-mapping``), ``inexact=`` and ``json-as=``.
* ``connect``: each line is the schema of a column, ``literal semantic name=value …``. The names are
  those of its parameters, and ``-`` stands for no semantic type. ``connector=NAME`` is an argument.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.cdc.source_types.connect import SOURCE_LENGTH, SOURCE_SCALE, SOURCE_TYPE
from stream_app.cdc.source_types.connect import connect_type as type_of_connect
from stream_app.cdc.source_types.mysql import mysql_type
from stream_app.cdc.source_types.postgresql import postgresql_type
from stream_app.errors import UsageError
from stream_app.model.schema.data_type import DataType
from stream_app.model.source.mapping_options import (
    InexactTimes,
    JsonColumns,
    MappingOptions,
    parse_mapping_options,
)
from tests.support.suite.datadriven import Case, files, run_file

_SHORT = {"type": SOURCE_TYPE, "length": SOURCE_LENGTH, "column-scale": SOURCE_SCALE}


def _handle(case: Case) -> str:
    try:
        options = parse_mapping_options(
            case.args.get("options", "").split(","),
            inexact=InexactTimes(case.args.get("inexact", "number")),
            json_columns=JsonColumns(case.args.get("json-as", "string")),
        )
    except UsageError as error:
        return str(error)
    lines = []
    for line in case.input_lines:
        if case.command == "connect":
            type_name = _connect(line, case.args.get("connector", ""), options)
        else:
            types = {"mysql": mysql_type, "postgresql": postgresql_type}
            type_name = types[case.command](line, options)
        lines.append(f"{line} -> {type_name or 'unknown'}")
    return "\n".join(lines)


def _connect(line: str, connector: str, options: MappingOptions) -> DataType | None:
    literal, semantic, *rest = line.split(" ")
    pairs = (word.replace("_UNSIGNED", " UNSIGNED").split("=", 1) for word in rest)
    parameters = {_SHORT.get(name, name): value for name, value in pairs}
    # Debezium's parameter of a database's bit string has the same name as the column's length.
    if semantic == "io.debezium.data.Bits" and SOURCE_LENGTH in parameters:
        parameters["length"] = parameters[SOURCE_LENGTH]
    name = "" if semantic == "-" else semantic
    return type_of_connect(literal, name, parameters, connector, options).data_type


@pytest.mark.parametrize(
    "path", files(Path(__file__).parent / "source_types"), ids=lambda p: p.stem
)
def test_source_types_are_mapped_to_column_types(path: Path) -> None:
    run_file(path, _handle)
