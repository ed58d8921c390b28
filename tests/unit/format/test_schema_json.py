"""Schema files of Java survive a round trip, and broken ones are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stream_app.errors import CorruptFileError, UnsupportedTableError
from stream_app.format.schema_json import decode_schema, encode_schema
from stream_app.model.schema.data_type import DataField, RowType, parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from tests.support.files.plain_object import plain_object
from tests.unit.format.vectors import vectors

SCHEMA = new_table_schema(
    columns=parse_columns(
        "dt STRING, id BIGINT, a DECIMAL(12,2), b TIMESTAMP(3), c TIMESTAMP_LTZ(6), d TIME(3), "
        "e CHAR(5), f VARBINARY(8), g BYTES NOT NULL, h VARCHAR(9), i DOUBLE"
    ),
    primary_keys=("dt", "id"),
    partition_keys=("dt",),
    options={"bucket": "4", "ключ": "значение"},
    time_ms=1_720_496_663_041,
    comment="orders",
)


@pytest.mark.parametrize("name", list(vectors()["tables"]))
def test_schemas_of_java_survive(name: str) -> None:
    written = vectors()["tables"][name]["schema-0"]
    schema = decode_schema(json.dumps(written).encode())
    again = encode_schema(schema)
    assert plain_object(again) == written
    assert list(plain_object(again)) == list(written)
    assert decode_schema(again) == schema


def test_every_type_survives() -> None:
    assert decode_schema(encode_schema(SCHEMA)) == SCHEMA


def test_descriptions_and_defaults_survive() -> None:
    described_field = DataField(
        field_id=9,
        name="x",
        data_type=SCHEMA.fields.types[2],
        description="an x",
        default_value="5",
    )
    schema = replace(SCHEMA, fields=RowType((*SCHEMA.fields, described_field)))
    assert decode_schema(encode_schema(schema)) == schema


def test_an_unknown_comment_is_left_out() -> None:
    """Java reads a JSON null as the text "null"."""
    assert b"null" not in encode_schema(replace(SCHEMA, comment=None))


def test_options_are_texts() -> None:
    options: dict[str, Any] = {"bucket": 4}
    schema = replace(SCHEMA, options=options)
    assert plain_object(encode_schema(schema))["options"] == {"bucket": "4"}
    written = plain_object(encode_schema(schema))
    written["options"] = {"bucket": 4, "write-only": True}
    read = decode_schema(json.dumps(written).encode())
    assert read.options == {"bucket": "4", "write-only": "true"}


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        pytest.param(None, {}, {"bucket": "1", "file.format": "orc"}, id="first-version"),
        pytest.param(2, {}, {"file.format": "orc"}, id="second"),
        pytest.param(2, {"file.format": "parquet"}, {"file.format": "parquet"}, id="second-told"),
        pytest.param(3, {}, {}, id="current"),
    ],
)
def test_schemas_of_older_versions_get_their_defaults(
    version: int | None, options: dict[str, str], expected: dict[str, str]
) -> None:
    written = _written() | {"version": version, "options": options}
    assert decode_schema(json.dumps(written).encode()).options == expected


def _written() -> dict[str, Any]:
    written: dict[str, Any] = plain_object(encode_schema(SCHEMA))
    return written


def test_time_may_be_missing() -> None:
    written = _written()
    del written["timeMillis"]
    assert decode_schema(json.dumps(written).encode()).time_ms == 0


@pytest.mark.parametrize("kind", ["MULTISET", "MULTISET NOT NULL"])
def test_types_that_are_not_known_are_refused_by_name(kind: str) -> None:
    written = _written()
    for value in (kind, {"type": "ARRAY", "element": {"type": kind, "element": "INT"}}):
        written["fields"][3]["type"] = value
        with pytest.raises(UnsupportedTableError, match=f"column 'b' has the type {kind}"):
            decode_schema(json.dumps(written).encode())


def test_blobs_stand_alone_in_a_table_without_a_key() -> None:
    written = _written()
    in_array = {"type": "ARRAY", "element": "BLOB"}
    for keys, kind, why in (
        (["a"], "BLOB", "a table with a primary key"),
        ([], in_array, "another type"),
        ([], {"type": "MAP", "key": "INT", "value": "BLOB"}, "another type"),
    ):
        written["primaryKeys"], written["fields"][3]["type"] = keys, kind
        with pytest.raises(UnsupportedTableError, match=f"column 'b' has BLOBs in {why}"):
            decode_schema(json.dumps(written).encode())
    written["fields"][3]["type"] = "BLOB NOT NULL"
    schema = decode_schema(json.dumps(written).encode())
    assert str(schema.fields.types[3]) == "BLOB NOT NULL"
    assert decode_schema(encode_schema(schema)) == schema


def test_vectors_are_objects_with_a_length() -> None:
    written = _written()
    written["fields"][3]["type"] = {"type": "VECTOR NOT NULL", "element": "FLOAT", "length": 3}
    schema = decode_schema(json.dumps(written).encode())
    assert str(schema.fields.types[3]) == "VECTOR<FLOAT, 3> NOT NULL"
    assert plain_object(encode_schema(schema))["fields"] == written["fields"]
    written["fields"][3]["type"]["element"] = "STRING"
    with pytest.raises(UnsupportedTableError, match="column 'b' has the type VECTOR of STRING"):
        decode_schema(json.dumps(written).encode())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        pytest.param("id", None, "'id' is missing", id="no-id"),
        pytest.param("fields", None, "'fields' is missing", id="no-fields"),
        pytest.param("fields", ["a"], "it is str, not an object", id="field-is-text"),
        pytest.param("highestFieldId", "9", "'highestFieldId' is '9'", id="text-for-number"),
    ],
)
def test_broken_schemas_are_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        decode_schema(json.dumps(_written() | {key: value}).encode())


def test_schema_is_what_the_model_says() -> None:
    assert isinstance(SCHEMA, TableSchema)
    assert plain_object(encode_schema(SCHEMA))["fields"][1] == {
        "id": 2,
        "name": "id",
        "type": "BIGINT NOT NULL",
    }
