"""Messages describe their table, and the decoder can then read each of its columns."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest

from stream_app.message_format_registry import format_named
from stream_app.model.schema.data_type import TypeRoot
from stream_app.model.source.mapping_options import JsonColumns, parse_mapping_options
from stream_app.model.source.source_table import SourceTable
from stream_app.variants.json_texts import variant_texts
from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    messages,
    reasons_of,
    rows_of,
)


def described_source(batch: pa.RecordBatch, *options: str) -> SourceTable | None:
    return (
        format_named("debezium-json")
        .make_source_extractor({})
        .describe(batch, parse_mapping_options(options))
    )


def columns_of(table: SourceTable | None) -> dict[str, str]:
    assert table is not None
    return {column.name: str(column.data_type) for column in table.columns}


def rows_as_described(
    batch: pa.RecordBatch, *options: str
) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The rows, decoded into a table of the described columns; null where an image is bare."""
    table = described_source(batch, *options)
    assert table is not None
    columns = ", ".join(f"`{column.name}` {column.data_type}" for column in table.columns)
    settings = {"replica-identity": "default", "truncate": "ignore"}
    decoded_batch = a_format(columns, table.primary_keys, options=settings).decode(batch)
    names = columns_of(table)
    return [dict(zip(names, row[2:], strict=True)) for row in rows_of(decoded_batch)], reasons_of(
        decoded_batch
    )


def test_an_envelope_has_types_nullability_and_key() -> None:
    table = described_source(captured_messages("debezium_pg_schema", "pgs.shop.customers"))
    assert table is not None
    assert table.primary_keys == ("id",)
    assert columns_of(table) == {
        "id": "INT NOT NULL",
        "name": "STRING NOT NULL",
        "email": "STRING",
        "tier": "SMALLINT",
        "balance": "STRING",  # decimal.handling.mode = string
        "joined": "DATE",
        "updated_at": "TIMESTAMP(6)",
        "note": "STRING",
        "phone": "STRING",  # added by ALTERs of the source
        "score": "DOUBLE",
        "level": "BIGINT",
    }


def test_a_key_of_two_columns_has_the_keys_order() -> None:
    table = described_source(captured_messages("debezium_pg_schema", "pgs.shop.orders"))
    assert table is not None
    assert table.primary_keys == ("order_id", "line")
    assert columns_of(table)["line"] == "INT NOT NULL"


def test_documents_are_variants_where_that_is_asked_for() -> None:
    """The decoder reads all of their values, as those of other types."""
    messages = captured_messages("debezium_pg_schema", "pgs.shop.all_types")
    mapping = parse_mapping_options([], json_columns=JsonColumns.VARIANT)
    table = format_named("debezium-json").make_source_extractor({}).describe(messages, mapping)
    assert table is not None
    names = [column.name for column in table.columns if column.data_type.root is TypeRoot.VARIANT]
    assert names
    columns = ", ".join(f"`{column.name}` {column.data_type}" for column in table.columns)
    settings = {"replica-identity": "default", "truncate": "ignore"}
    decoded_batch = a_format(columns, table.primary_keys, options=settings).decode(messages)
    assert list(reasons_of(decoded_batch)) == [0]
    texts = [variant_texts(decoded_batch.changes.rows.column(name)).drop_null() for name in names]
    assert any(len(text) for text in texts)


def test_every_column_of_an_envelope_is_read_as_the_described_type() -> None:
    """PostgreSQL's infinite dates are bad records in any column of dates."""
    rows, reasons = rows_as_described(captured_messages("debezium_pg_schema", "pgs.shop.all_types"))
    assert list(reasons) == [0]
    assert "'c_date'" in reasons[0]
    (full,) = (row for row in rows if row["id"] == 2)
    assert full == {
        "id": 2,
        "c_bool": True,
        "c_int2": -32768,
        "c_int8": 9223372036854775807,
        "c_real": 1.5,
        "c_double": 0.1,
        "c_num": "123456789012345678901234567890.123456789",
        "c_dec": "-1234567890123456789012345678.0123456789",
        "c_money": "1234.56",
        "c_char": "ab   ",
        "c_varchar": "varchar",
        "c_text": 'tab\t quote" back\\ \x01',
        "c_bytea": b"\x00\xff\x10",
        "c_date": dt.date(2024, 2, 29),
        "c_time": 86399999999,  # microseconds: a TIME of Paimon keeps milliseconds
        "c_timetz": "07:30:00Z",
        "c_ts3": dt.datetime(2024, 2, 29, 23, 59, 59, 123000),  # noqa: DTZ001 - without a zone
        "c_ts": dt.datetime(2024, 2, 29, 23, 59, 59, 123456),  # noqa: DTZ001
        "c_tstz": dt.datetime(2024, 3, 1, 7, 59, 59, 123456),  # noqa: DTZ001 - UTC
        "c_interval": 37091106700000,
        "c_uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "c_json": '{"b": 1.10,  "a": [1, null]}',
        "c_jsonb": '{"a": [1, null], "b": 1.10}',
        "c_enum": "happy",
        "c_bit": True,
        "c_bits": b"\x00\x16",
        "c_ints": "[1,null,3]",
        "c_texts": '["x","y,z",null]',
        "c_inet": "192.0.2.1/24",
        "c_xml": '<a b="1">t</a>',
        "c_range": "[1,10)",
    }


@pytest.mark.parametrize(
    ("file", "topic"),
    [
        ("debezium_pg_schema", "pgs.shop.customers"),
        ("debezium_pg_schema", "pgs.shop.orders"),
        ("debezium_pg_schema", "pgs.shop.no_key"),
        ("debezium_pg_plain", "pg.shop.customers"),
        ("debezium_pg_plain", "pg.shop.all_types"),
        ("debezium_pg_flat", "pgf.shop.customers"),
        ("debezium_pg_flat", "pgf.shop.all_types"),
        ("debezium_mariadb_plain", "mdb.shop.customers"),
        ("debezium_mariadb_plain", "mdb.shop.all_types"),
    ],
)
def test_no_record_is_bad_in_the_described_table(file: str, topic: str) -> None:
    rows, reasons = rows_as_described(captured_messages(file, topic))
    assert rows
    assert reasons == {}


def test_plain_json_describes_columns_as_strings() -> None:
    """Values stand as they were sent: a connector's encodings are not told."""
    batch = captured_messages("debezium_mariadb_plain", "mdb.shop.all_types")
    table = described_source(batch)
    assert table is not None
    assert table.primary_keys == ("id",)
    assert not any(column.is_typed for column in table.columns)
    assert set(columns_of(table).values()) == {"STRING", "STRING NOT NULL"}
    rows, _ = rows_as_described(batch)
    assert rows[0]["c_ubig"] is None
    assert rows[1]["c_float"] == "1.5"


@pytest.mark.parametrize("topic", ["pgs.message", "pgs.transaction"])
def test_messages_without_rows_describe_no_table(topic: str) -> None:
    assert described_source(captured_messages("debezium_pg_schema", topic)) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "no JSON",
        "[1]",
        '{"schema":null,"payload":null}',
        '{"ts_ms":1}',
        '{"status":"END","id":"1","event_count":1,"data_collections":[]}',
        '{"schema":{"type":"struct","fields":[]},"payload":{}}',
    ],
)
def test_unreadable_messages_describe_no_table(value: str | None) -> None:
    assert described_source(messages(value)) is None


def test_options_of_the_mapping() -> None:
    batch = captured_messages("debezium_pg_schema", "pgs.shop.customers")
    assert columns_of(described_source(batch, "to-nullable"))["name"] == "STRING"
    assert columns_of(described_source(batch, "to-nullable"))["id"] == "INT NOT NULL"
    assert set(columns_of(described_source(batch, "to-string")).values()) == {
        "STRING",
        "STRING NOT NULL",
    }


def enveloped_message(
    fields: list[dict[str, Any]], row: dict[str, Any], connector: str = "mysql", **more: Any
) -> str:
    """A message of a connector with ``column.propagate.source.type``."""
    image = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
    payload = {"before": None, "after": row, "source": {"connector": connector}, "op": "c", **more}
    return json.dumps({"schema": {"type": "struct", "fields": [image]}, "payload": payload})


def field(column: str, literal: str, source: str, length: int | None = None, **more: Any) -> Any:
    prefix = "__debezium.source.column."
    parameters = {f"{prefix}type": source}
    if length is not None:
        parameters[f"{prefix}length"] = str(length)
    return {"field": column, "type": literal, "optional": True, "parameters": parameters, **more}


def test_types_of_the_database_win_and_are_read() -> None:
    fields = [
        field("id", "int64", "BIGINT UNSIGNED", optional=False, doc="the key"),
        field("flag", "int16", "TINYINT", 1),
        field("name", "string", "VARCHAR", 20),
        field("body", "string", "LONGTEXT"),
        field("tags", "string", "SET", name="io.debezium.data.EnumSet"),
    ]
    row = {"id": 1, "flag": 1, "name": "Łu", "body": "żó{", "tags": "a,b"}
    batch = messages(enveloped_message(fields, row), key='{"id":1}')
    table = described_source(batch)
    assert table is not None
    assert columns_of(table) == {
        "id": "DECIMAL(20, 0) NOT NULL",
        "flag": "BOOLEAN",
        "name": "VARCHAR(20)",
        "body": "STRING",
        "tags": "STRING",
    }
    assert [column.comment for column in table.columns] == ["the key", None, None, None, None]
    ((read,), reasons) = rows_as_described(batch)
    assert (read, reasons) == ({**row, "id": 1, "flag": True}, {})
    ((read,), reasons) = rows_as_described(batch, "longtext-to-bytes", "tinyint1-not-bool")
    assert (read, reasons) == ({**row, "body": "żó{".encode()}, {})


def test_a_key_may_stand_in_the_message() -> None:
    fields = [field("a", "int32", "INT"), field("b", "int32", "INT")]
    value = enveloped_message(fields, {"a": 1, "b": 2}, pkNames=["b"])
    table = described_source(messages(value, key=None))
    assert table is not None
    assert table.primary_keys == ("b",)
    assert columns_of(table) == {"a": "INT", "b": "INT NOT NULL"}
    # A key that names no column, such as that of another table, is none.
    other = described_source(messages(value, key='{"x":1}'))
    assert other is not None
    assert other.primary_keys == ("b",)


def test_versions_of_a_table_are_merged() -> None:
    """The wider type, all columns; one that is not in both may be null."""
    first = enveloped_message(
        [field("id", "int32", "INT"), field("old", "string", "VARCHAR", 5, optional=False)],
        {"id": 1, "old": "x"},
    )
    second = enveloped_message(
        [field("id", "int64", "BIGINT"), field("new", "string", "VARCHAR", 9, optional=False)],
        {"id": 1, "new": "x"},
    )
    for batch in (messages(first, second), messages(second, first)):
        assert columns_of(described_source(batch)) == {
            "id": "BIGINT NOT NULL",
            "old": "VARCHAR(5)",
            "new": "VARCHAR(9)",
        }
