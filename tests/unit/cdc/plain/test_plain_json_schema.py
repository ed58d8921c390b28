"""The format json-schema decodes the JSON behind the head, and survives malformed bytes."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from stream_app.cdc.message_format import MessageFormat
from tests.support.brokers.schema_registry import Registry, schema_registry
from tests.support.messages.avro_events import batch
from tests.support.messages.debezium_messages import a_format, reasons_of, rows_of

COLUMNS = "id BIGINT, name STRING, price DECIMAL(12,2), at TIMESTAMP(6), flag BOOLEAN, f DOUBLE"
TYPES = {"integer": ["id"], "string": ["name", "at"], "number": ["price", "f"], "boolean": ["flag"]}
SCHEMA = {
    "type": "object",
    "properties": {name: {"type": kind} for kind, names in TYPES.items() for name in names},
}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as running:
        yield running


def of_schema(registry: Registry, **options: str) -> MessageFormat:
    settings = {name.replace("_", "-"): value for name, value in options.items()}
    url = {"schema.registry.url": registry.url}
    return a_format(COLUMNS, name="json-schema", options=url | settings)


def framed_message(number: int, body: bytes) -> bytes:
    return struct.pack(">BI", 0, number) + body


def a_row(rng: random.Random) -> dict[str, Any]:
    row = {
        "name": rng.choice(["Ada", "李雷", "", 'a"b\\', None, 5]),
        "price": rng.choice([1, 1.5, 1.555, "2.50", None]),
        "at": rng.choice(["2024-02-29 23:59:59.123456", "2024-02-29T00:00:00Z", "no", None]),
        "flag": rng.choice([True, False, None, "x"]),
        "f": rng.choice([0.1, 1e300, -1, None]),
        "more": 1,
    }
    sent_columns = {name: value for name, value in row.items() if rng.random() < 0.8}
    return {"id": rng.choice([1, -(2**63), 7, None]), **sent_columns}


@pytest.mark.parametrize("seed", range(20))
def test_the_schema_header_changes_no_row(registry: Registry, seed: int) -> None:
    rng = random.Random(seed)
    options = {
        "missing_columns": rng.choice(["warn", "ignore", "quarantine"]),
        "unknown_columns": rng.choice(["warn", "ignore", "quarantine"]),
    }
    bodies = [json.dumps(a_row(rng)).encode() for _ in range(rng.choice([1, 30, 300]))]
    numbers = (
        registry.add(SCHEMA, schemaType="JSON"),
        registry.add({**SCHEMA, "title": "more"}, schemaType="JSON"),
    )
    values = [framed_message(rng.choice(numbers), body) for body in bodies]
    decoded_batch = of_schema(registry, **options).decode(batch(values))
    settings = {name.replace("_", "-"): value for name, value in options.items()}
    plain = a_format(COLUMNS, name="json", options=settings).decode(batch(bodies))
    assert repr(rows_of(decoded_batch)) == repr(rows_of(plain))
    assert reasons_of(decoded_batch) == reasons_of(plain)
    assert decoded_batch.drift == plain.drift
    bad_records = decoded_batch.bad_records.to_pylist()
    assert [record["value"] for record in bad_records] == [
        values[record["offset"]] for record in bad_records
    ]


def test_random_bytes_stop_no_job_and_harm_no_other_message(registry: Registry, seed: int) -> None:
    rng = random.Random(seed)
    number = registry.add(SCHEMA, schemaType="JSON")
    good = framed_message(
        number, b'{"id":1,"name":"Ada","price":1.5,"at":null,"flag":true,"f":0.5}'
    )
    key = framed_message(number, b'{"id":5}')
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    for _ in range(400):
        position = rng.randrange(len(good))
        cut = (
            good[:position] + rng.randbytes(rng.randrange(9)) + good[position + rng.randrange(9) :]
        )
        values += [good, rng.choice([cut, rng.randbytes(20), good[:position], None])]
        keys += [key, rng.choice([key, key[:-1], rng.randbytes(9), None])]
    decoded_batch = of_schema(registry).decode(batch(values, keys))
    rows = {position for position, *_ in rows_of(decoded_batch)}
    assert set(range(0, len(values), 2)) <= rows
    assert len(rows) + decoded_batch.bad_records.num_rows + decoded_batch.skipped_count == len(
        values
    )
    assert decoded_batch.decoder_error_count == 0
    for record in decoded_batch.bad_records.to_pylist():
        place = record["offset"]
        assert (record["key"], record["value"]) == (keys[place], values[place])


def test_a_hundred_thousand_messages_are_decoded_at_once(registry: Registry) -> None:
    number = registry.add(SCHEMA, schemaType="JSON")
    values = [
        framed_message(number, b'{"id":%d,"name":"%b"}' % (index, b"x" * 40))
        for index in range(100_000)
    ]
    decoded_batch = of_schema(registry, missing_columns="ignore").decode(batch(values))
    assert decoded_batch.bad_records.num_rows == decoded_batch.decoder_error_count == 0
    assert decoded_batch.changes.rows.column("id").to_pylist() == [*range(100_000)]
