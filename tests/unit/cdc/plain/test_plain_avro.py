"""The format avro decodes bytes as the same row in JSON, and survives malformed bytes."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from stream_app.cdc.wire.wire_format import avro_as_json
from stream_app.errors import SourceError, UsageError
from stream_app.message_format_registry import FORMATS
from tests.support.brokers.schema_registry import Registry, confluent_message, schema_registry
from tests.support.messages.avro_events import KEY, ROW, a_row, batch, setup_of
from tests.support.messages.debezium_messages import a_format, reasons_of, rows_of

COLUMNS = (
    "id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP(6), day DATE, raw BYTES, "
    "flag BOOLEAN, score DOUBLE, ratio FLOAT, tags STRING, mood STRING"
)
AS_AVRO = {
    "column.amount.encoding": "base64",
    "column.at.encoding": "epoch-micros",
    "column.day.encoding": "epoch-days",
    "column.ratio.encoding": "float32",
}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as running:
        yield running


@pytest.mark.parametrize("seed", range(20))
def test_avro_means_what_its_json_means(registry: Registry, seed: int) -> None:
    rng = random.Random(seed)
    missing_names = {*rng.sample(["tags", "score", "mood"], rng.randrange(3)), "amount"}
    schema = {
        **ROW,
        "fields": [field for field in ROW["fields"] if field["name"] not in missing_names],
    }
    number = registry.add(schema)
    rows = [a_row(rng) for _ in range(rng.choice([1, 30, 300]))]
    values = [confluent_message(number, schema, row) for row in rows]
    options = {"missing-columns": rng.choice(["warn", "ignore", "quarantine"])}
    setup = setup_of(COLUMNS, ("id",), {**options, **AS_AVRO})
    of_json = FORMATS["json"].make(setup)
    settings = {**options, "schema.registry.url": registry.url}
    of_avro = FORMATS["avro"].make(setup_of(COLUMNS, ("id",), settings))
    text = json.dumps(schema)
    plain = of_json.decode(batch([avro_as_json(value, text) for value in values]))
    decoded_batch = of_avro.decode(batch(values))
    assert repr(rows_of(decoded_batch)) == repr(rows_of(plain))
    assert reasons_of(decoded_batch) == reasons_of(plain)
    assert decoded_batch.drift.keys() == plain.drift.keys()
    assert [
        sighting.record_count for _, sighting in sorted(decoded_batch.drift.items(), key=str)
    ] == [sighting.record_count for _, sighting in sorted(plain.drift.items(), key=str)]


def test_decimals_have_the_scale_of_the_schema(registry: Registry) -> None:
    number = registry.add(ROW)
    row = {**a_row(random.Random(1)), "amount": b"\x01\xe2", "at": 0, "day": 0}
    decoder = a_format(COLUMNS, name="avro", options={"schema.registry.url": registry.url})
    [(_, _, _, _, amount, *_)] = rows_of(
        decoder.decode(batch([confluent_message(number, ROW, row)]))
    )
    assert str(amount) == "4.82"


def test_random_bytes_stop_no_job_and_harm_no_other_message(registry: Registry, seed: int) -> None:
    rng = random.Random(seed)
    numbers = registry.add(ROW), registry.add(KEY)
    good = confluent_message(numbers[0], ROW, {**a_row(rng), "amount": None, "at": 0, "day": 0})
    key = confluent_message(numbers[1], KEY, {"id": 5})
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    for _ in range(400):
        position = rng.randrange(len(good))
        cut = (
            good[:position] + rng.randbytes(rng.randrange(9)) + good[position + rng.randrange(9) :]
        )
        values += [good, rng.choice([cut, rng.randbytes(20), good[:position], None])]
        keys += [key, rng.choice([key, key[:-1], rng.randbytes(9), None])]
    decoder = a_format(COLUMNS, name="avro", options={"schema.registry.url": registry.url})
    decoded_batch = decoder.decode(batch(values, keys))
    rows = {position for position, *_ in rows_of(decoded_batch)}
    assert set(range(0, len(values), 2)) <= rows
    assert len(rows) + decoded_batch.bad_records.num_rows + decoded_batch.skipped_count == len(
        values
    )
    assert decoded_batch.decoder_error_count == 0
    bad_records = decoded_batch.bad_records.to_pylist()
    assert all(record["value"] == values[record["offset"]] for record in bad_records)


def test_a_registry_that_does_not_answer_stops_the_job_and_makes_nothing_bad() -> None:
    url = {"schema.registry.url": "http://127.0.0.1:9"}
    decoder = a_format("id BIGINT", name="avro", options=url)
    with pytest.raises(SourceError, match="does not give schema 1") as error:
        decoder.decode(batch([b"\0\0\0\0\1\2"]))
    assert error.value.where == "source.avro.schema.registry.url"


def test_the_address_of_the_registry_is_needed() -> None:
    with pytest.raises(UsageError, match=r"options of avro lack schema\.registry\.url"):
        a_format("id BIGINT", name="avro")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, b"\x01"),
        (["null", "string"], b"\x01\x02q"),
        ("long", b"\xff" * 10 + b"\x01"),
        ("long", b"\xff" * 9 + b"\x7f"),
        ({"type": "array", "items": {"type": "map", "values": "long"}}, b"\x02\x02\x01\x02\0\0"),
    ],
)
def test_bytes_outside_of_their_type_are_not_a_row(
    registry: Registry, field: Any, value: bytes
) -> None:
    """fastavro takes -1 for the last symbol and branch, and cuts long numbers."""
    fields = [{"name": "id", "type": "long"}, {"name": "mood", "type": field}]
    number = registry.add({"type": "record", "name": "R", "fields": fields})
    url = {"schema.registry.url": registry.url, "missing-columns": "ignore"}
    decoder = a_format(COLUMNS, name="avro", options=url)
    decoded_batch = decoder.decode(batch([struct.pack(">BI", 0, number) + b"\x02" + value]))
    assert rows_of(decoded_batch) == []
    [reason] = reasons_of(decoded_batch).values()
    assert f"is not Avro of schema {number}" in reason


@pytest.mark.parametrize(
    "field",
    [
        {"type": "enum", "name": "E", "symbols": ["\ud800"]},
        {"type": "fixed", "name": "F", "size": 2**70},
    ],
)
def test_a_schema_beyond_what_arrow_holds_is_not_a_schema(registry: Registry, field: Any) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "mood", "type": field}]
    number = registry.add({"type": "record", "name": "R", "fields": fields})
    decoder = a_format(COLUMNS, name="avro", options={"schema.registry.url": registry.url})
    decoded_batch = decoder.decode(batch([struct.pack(">BI", 0, number) + b"\x02\0"]))
    assert decoded_batch.decoder_error_count == 0
    [reason] = reasons_of(decoded_batch).values()
    assert reason.startswith("has a schema that is not Avro's")
