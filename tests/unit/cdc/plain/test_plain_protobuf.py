"""The format protobuf agrees with Google's library, and survives malformed bytes."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.plain.protobuf_values import protobuf_document
from stream_app.cdc.schema_registry_port import RegisteredSchema
from stream_app.cdc.wire.protobuf.protobuf_fields import protobuf_connect_field, protobuf_fields_of
from stream_app.cdc.wire.protobuf.protobuf_schemas import message_class
from tests.support.brokers.schema_registry import Registry, schema_registry
from tests.support.messages.avro_events import batch
from tests.support.messages.debezium_messages import a_format, reasons_of, rows_of
from tests.support.messages.registered_messages import One, protobuf_bytes

SCHEMA = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Mood { A = 0; B = 5; C = -1; }
message Row {
  int64 id = 1;
  string name = 2;
  optional string note = 3;
  google.protobuf.Timestamp at = 4;
  google.protobuf.StringValue text = 5;
  google.protobuf.Int64Value count = 6;
  Mood mood = 7;
  optional double price = 8;
  bool flag = 9;
  bytes raw = 10;
  sint32 small = 11;
  sfixed64 wide = 12;
  float ratio = 13;
  repeated int32 lots = 14;
  map<string, int64> more = 15;
  Row within = 16;
  uint64 large = 1000;
}
"""
COLUMNS = (
    "id BIGINT, name STRING, note STRING, at TIMESTAMP(9), text STRING, count BIGINT, mood STRING, "
    "price DOUBLE, flag BOOLEAN, raw BYTES, small INT, wide BIGINT, ratio FLOAT, large BIGINT"
)
AS_SENT = {"column.at.encoding": "epoch-nanos", "column.ratio.encoding": "float32"}
MOMENTS = ("2024-02-29T23:59:59.123456789Z", "1969-12-31T23:59:59.5Z", "9999-01-01T00:00:00Z")
IGNORE = {"unknown-columns": "ignore"}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as running:
        yield running


def registered_schema(registry: Registry) -> RegisteredSchema:
    return RegisteredSchema(registry.add(SCHEMA, schemaType="PROTOBUF"), "PROTOBUF", SCHEMA)


def protobuf(registry: Registry, **options: str) -> MessageFormat:
    url = {"schema.registry.url": registry.url}
    return a_format(COLUMNS, name="protobuf", options={**url, **IGNORE, **options})


def a_row(rng: random.Random) -> dict[str, Any]:
    row = {
        "name": rng.choice(["Ada", "李雷 🚀", "", "x" * 300]),
        "note": rng.choice(["", "note"]),
        "at": rng.choice(MOMENTS),
        "text": rng.choice(["", "wrapped"]),
        "count": rng.choice([0, -(2**63), 5]),
        "mood": rng.choice(["A", "B", "C", 77]),
        "price": rng.choice([0.1, 1e300, "NaN", "Infinity", 0]),
        "flag": rng.choice([True, False]),
        "raw": rng.choice(["", "AP8Q"]),
        "small": rng.choice([0, -(2**31), 2**31 - 1]),
        "wide": rng.choice([-(2**63), 1]),
        "ratio": rng.choice([0.1, "-Infinity"]),
        "lots": rng.choice([[], [1, 2, 3]]),
        "more": rng.choice([{}, {"a": 1, "b": 2}]),
        "within": rng.choice([{}, {"id": 9, "name": "inner"}]),
        "large": rng.choice([0, 2**64 - 1, 2**63 - 1]),
    }  # fmt: skip
    sent_fields = {name: value for name, value in row.items() if rng.random() < 0.6}
    return {"id": rng.choice([0, 1, -1, 2**40, -(2**63)]), **sent_fields}


@pytest.mark.parametrize("seed", range(20))
def test_columns_have_what_google_reads(registry: Registry, seed: int) -> None:
    rng = random.Random(seed)
    schema = registered_schema(registry)
    values = [protobuf_bytes(schema, [0], a_row(rng)) for _ in range(rng.choice([1, 40, 400]))]
    message_type = message_class(One(schema), schema.schema_number, [0])
    texts = [
        json.dumps(protobuf_document(message_type, value[6:], schema.schema_number)).encode()
        for value in values
    ]
    plain = a_format(COLUMNS, name="json", options={**AS_SENT, **IGNORE}).decode(batch(texts))
    decoded_batch = protobuf(registry).decode(batch(values))
    assert repr(rows_of(decoded_batch)) == repr(rows_of(plain))
    assert reasons_of(decoded_batch) == reasons_of(plain)


def test_fields_in_any_order_and_again_are_read_as_google_does(
    registry: Registry, seed: int
) -> None:
    """Pieces of messages one after another are one message, whose later values count."""
    rng = random.Random(seed)
    schema = registered_schema(registry)
    message_type = message_class(One(schema), schema.schema_number, [0])
    head = protobuf_bytes(schema, [0], {})
    values = []
    for _ in range(300):
        parts = [
            protobuf_bytes(schema, [0], a_row(rng))[len(head) :] for _ in range(rng.randrange(4))
        ]
        values.append(head + b"".join(parts))
    decoded_batch = protobuf(registry).decode(batch(values))
    rows = {position: cells for position, _, *cells in rows_of(decoded_batch)}
    reasons = reasons_of(decoded_batch)
    assert rows.keys() | reasons.keys() == set(range(len(values)))
    assert len(rows) > 20
    for position, cells in rows.items():
        message = message_type.FromString(values[position][len(head) :])
        assert cells[:2] == [message.id, message.name]
        assert cells[9:12] == [message.raw, message.small, message.wide]


def test_random_bytes_stop_no_job_and_harm_no_other_message(registry: Registry, seed: int) -> None:
    rng = random.Random(seed)
    schema = registered_schema(registry)
    good = protobuf_bytes(schema, [0], {**a_row(rng), "at": None, "large": 1})
    values: list[bytes | None] = []
    for _ in range(400):
        position = rng.randrange(len(good))
        cut = (
            good[:position] + rng.randbytes(rng.randrange(9)) + good[position + rng.randrange(9) :]
        )
        strange = struct.pack(">BI", 0, schema.schema_number) + rng.randbytes(rng.randrange(30))
        values += [good, rng.choice([cut, strange, good[:position], None])]
    decoded_batch = protobuf(registry).decode(batch(values, [good] * len(values)))
    rows = {position for position, *_ in rows_of(decoded_batch)}
    assert set(range(0, len(values), 2)) <= rows
    assert len(rows) + decoded_batch.bad_records.num_rows + decoded_batch.skipped_count == len(
        values
    )
    assert decoded_batch.decoder_error_count == 0


def test_a_message_of_a_hundred_thousand_fields_is_left_to_google(registry: Registry) -> None:
    schema = registered_schema(registry)
    head = protobuf_bytes(schema, [0], {})
    long = head + b"\x08\x01" * 100_000 + b"\x08\x07"
    good = protobuf_bytes(schema, [0], {"id": 3})
    decoded_batch = protobuf(registry).decode(batch([good, long, good]))
    assert [row[2] for row in rows_of(decoded_batch)] == [3, 7, 3]


def test_a_row_is_what_its_serializer_was_given(registry: Registry) -> None:
    schema = registered_schema(registry)
    row = {"id": 5, "at": "2024-02-29T23:59:59.000000001Z", "mood": "B", "count": 7}
    [cells] = rows_of(protobuf(registry).decode(batch([protobuf_bytes(schema, [0], row)])))
    assert cells[2:9] == (5, "", None, "2024-02-29 23:59:59.000000001", None, 7, "B")


ODD_SCHEMA = """
syntax = "proto2";
enum Mood { A = 0; B = 5; }
message Row {
  optional int64 id = 1;
  optional Mood mood = 2;
  repeated Mood moods = 3;
  optional string name = 4;
  oneof choice { string text = 5; int64 count = 6; }
  optional int64 seven = 7 [default = 7];
  map<string, Mood> more = 8;
  optional Row within = 9;
}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\x10\x4d", "'mood' has a value"),
        (b"\x18\x05\x18\x4d", "'moods' has a value"),
        (b"\x42\x05\x0a\x01k\x10\x4d", "'more' has a value"),
        (b"\x4a\x02\x10\x4d", "'mood' has a value"),
        (b"\x22\x01\xff", "the text of 'name' is not UTF-8"),
        (b"\x4a\x03\x22\x01\xff", "the text of 'name' is not UTF-8"),
        (b"\x0a\x01q", "'id' has a value"),
        (b"\x2a\x01q\x30\x04", (None, 4, 7)),
        (b"\x30\x04\x2a\x01q", ("q", None, 7)),
        (b"\x38\x00", (None, None, 0)),
    ],
)
def test_nothing_is_lost_that_google_does_not_take(
    registry: Registry, body: bytes, expected: object
) -> None:
    number = registry.add(ODD_SCHEMA, schemaType="PROTOBUF")
    columns = "id BIGINT, mood STRING, name STRING, text STRING, count BIGINT, seven BIGINT"
    url = {"schema.registry.url": registry.url}
    for more in ("", ", moods STRING, more STRING, within STRING"):
        decoder = a_format(columns + more, name="protobuf", options={**url, **IGNORE})
        message = struct.pack(">BI", 0, number) + b"\0\x08\x01" + body
        decoded_batch = decoder.decode(batch([message]))
        if isinstance(expected, tuple):
            [row] = rows_of(decoded_batch)
            assert row[5:8] == expected
        elif more or body[0] not in b"\x18\x42\x4a":  # columns that the table lacks stay unread
            assert rows_of(decoded_batch) == []
            assert str(expected) in reasons_of(decoded_batch)[0]


def test_a_field_with_a_default_has_its_own_type(registry: Registry) -> None:
    schema = RegisteredSchema(
        registry.add(ODD_SCHEMA, schemaType="PROTOBUF"), "PROTOBUF", ODD_SCHEMA
    )
    message_type = message_class(One(schema), schema.schema_number, [0])
    types = {
        field.name: protobuf_connect_field(field).literal
        for field in protobuf_fields_of(message_type.DESCRIPTOR)
    }
    assert types["seven"] == "int64"
