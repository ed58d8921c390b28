"""Machine code reads Avro as arrays do, or not at all, and reads its bytes alone."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.json_records.decoder_choice import ARRAYS, COMPILED, DECODER
from stream_app.cdc.wire.avro.avro_types import parse_schema
from tests.support.brokers.schema_registry import Registry, confluent_message, schema_registry
from tests.support.messages.avro_events import DECIMAL, PLACEHOLDER, ROW, SOURCE, batch, event
from tests.support.messages.debezium_messages import a_format, reasons_of, rows_of
from tests.unit.cdc.compiled.guarded_memory import guarded_pages
from tests.unit.cdc.compiled.shop_messages import mutated

pytest.importorskip("numba")
from stream_app.cdc.compiled.avro_layout import AvroLayout, AvroMessages

COLUMNS = (
    "id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP(6), day DATE, raw BYTES, "
    "flag BOOLEAN, score DOUBLE, ratio FLOAT, mood STRING, wide DECIMAL(30,4), "
    "tight DECIMAL(12,2), other DECIMAL(12,3), gone STRING, nothing STRING"
)
WIDE = {**DECIMAL, "scale": 4, "connect.parameters": {"scale": "4"}}
TIGHT = {**DECIMAL, "type": "fixed", "name": "Tight", "size": 6}
PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "x", "type": "double"}, {"name": "note", "type": ["string", "null"]}],
}
FIELDS = [
    *(field for field in ROW["fields"] if field["name"] != "tags"),
    {"name": "wide", "type": [WIDE, "null"]},
    {"name": "tight", "type": ["null", TIGHT]},
    {"name": "other", "type": DECIMAL},
    {"name": "nothing", "type": "null"},
    {"name": "unknown", "type": ["null", PLACE]},
    {"name": "more", "type": ["null", {"type": "enum", "name": "N", "symbols": ["a", "b"]}]},
]
ENVELOPE: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", {**ROW, "fields": FIELDS}]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": ["null", SOURCE]},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
        {"name": "block", "type": ["null", {**PLACE, "name": "Block"}]},
    ],
}
OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"replica-identity": "full"},
    {"replica-identity": "default"},
    {"unavailable.value.placeholder": "hex:01"},
    {"unknown-columns": "quarantine"},
)


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as running:
        yield running


def a_row(rng: random.Random, row: dict[str, Any]) -> dict[str, Any]:
    sizes = [0, 1, 5, 8, 9, 16, 17] if rng.random() < 0.1 else [1, 5]
    place = {"x": 0.5, "note": rng.choice([None, "here"])}
    return {
        **row,
        "amount": rng.choice([None, rng.randbytes(rng.choice(sizes))]),
        "wide": rng.choice([None, rng.randbytes(rng.choice([*sizes, 12]))]),
        "tight": rng.choice([None, b"\0\0" + rng.randbytes(4), b"\xff" * 6]),
        "other": rng.randbytes(3),
        "nothing": None,
        "unknown": rng.choice([None, place]),
        "more": rng.choice([None, "a", "b"]),
    }


def a_message(rng: random.Random, number: int) -> bytes:
    change = event(rng)
    for side in ("before", "after"):
        change[side] = change[side] and a_row(rng, change[side])
    if rng.random() < 0.02:
        change["source"] = None
    block = {"x": 1.5, "note": PLACEHOLDER}
    return confluent_message(number, ENVELOPE, {**change, "block": rng.choice([None, block])})


def everything(decoded_batch: DecodedBatch) -> tuple[Any, ...]:
    """All that a decoder tells, comparable."""
    assert decoded_batch.decoder_error_count == 0
    return (
        repr(rows_of(decoded_batch)),
        reasons_of(decoded_batch),
        decoded_batch.skipped_count,
        sorted(decoded_batch.tables.items()),
        decoded_batch.schemas,
        {column: sighting.record_count for column, sighting in decoded_batch.drift.items()},
        decoded_batch.changes.rows.schema,
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.slow
def test_machine_code_and_arrays_make_the_same_of_messages(registry: Registry, seed: int) -> None:
    rng = random.Random(seed)
    number = registry.add(ENVELOPE)
    share = [0.0, 0.02, 0.3, 1.0][seed % 4]
    values = [a_message(rng, number) for _ in range(150)]
    values = [
        value[:5] + mutated(value[5:], rng) if rng.random() < share else value for value in values
    ]
    options = {
        "schema.registry.url": registry.url,
        "truncate": "ignore",
        "unproven-keys": "quarantine",
        **OPTIONS[seed % len(OPTIONS)],
    }
    arrays, machine = (
        a_format(
            COLUMNS,
            ("id",),
            name="debezium-avro",
            options={**options, DECODER: kind},
            keeps_update_before=seed % 2 == 0,
        ).decoder
        for kind in (ARRAYS, COMPILED)
    )
    for size in (1, 49, 100):
        part, values = values[:size], values[size:]
        assert everything(machine.decode(batch(part))) == everything(arrays.decode(batch(part)))


def a_layout(schema: Any = ENVELOPE) -> AvroLayout:
    layout = AvroLayout.for_schema(
        parse_schema(json.dumps(schema)),
        ("before", "after"),
        {"id": 0, "name": 0, "amount": 12, "wide": 30, "mood": 0, "score": 0},
        [("op",), ("source", "db"), ("n",), ("inner", "n")],
    )
    assert layout is not None
    return layout


def test_usual_messages_are_not_declined() -> None:
    rng = random.Random(3)
    read = a_layout().read(pa.array([a_message(rng, 1) for _ in range(300)], pa.binary()), 5)
    assert read is not None
    assert np.count_nonzero(read.is_parsed) > 200


@pytest.mark.parametrize(
    ("written", "number"),
    [
        (b"\x00", 0),
        (b"\x01", -1),
        (b"\x80\x00", 0),  # longer than it needs to be
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 2**63 - 1),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -(2**63)),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", None),
        (b"\xff" * 10 + b"\x01", None),
        (b"\x80", None),
        (b"", None),
        (b"\x00\x00", None),
    ],
)
def test_numbers_of_variable_length(written: bytes, number: int | None) -> None:
    fields = [{"name": "after", "type": {**ROW, "fields": [{"name": "id", "type": "long"}]}}]
    layout = a_layout({"type": "record", "name": "E", "fields": fields})
    read = layout.read(pa.array([written, b"\x02"], pa.binary()), 0)
    assert read is not None
    assert read.is_parsed.tolist() == [number is not None, True]
    expected = [number, 1] if number is not None else [1]
    assert read.columns["id"].numeric_values().to_pylist() == expected


@pytest.mark.parametrize(
    ("schema", "good", "bad_values"),
    [
        ("string", b"\x04ab", [b"\x06ab", b"\x03ab", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"]),
        (["null", "string"], b"\x02\x00", [b"\x04\x00", b"\x01\x00", b"\x02"]),
        ({"type": "enum", "name": "X", "symbols": ["a"]}, b"\x00", [b"\x02", b"\x01"]),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc", [b"ab", b"abcd"]),
        ("double", b"12345678", [b"1234567", b""]),
        ("float", b"1234", [b"123"]),
        ("boolean", b"\x02", [b"", b"\x01\x01"]),
    ],
)
def test_the_layout_declines_a_value_beyond_the_end_of_its_message(
    schema: Any, good: bytes, bad_values: list[bytes]
) -> None:
    of_field = {"type": "record", "name": "E", "fields": [{"name": "n", "type": schema}]}
    read = a_layout(of_field).read(pa.array([good, *bad_values, good], pa.binary()), 0)
    assert read is not None
    assert read.is_parsed.tolist() == [True, *[False] * len(bad_values), True]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": "long"},
        {"type": "map", "values": "long"},
        ["null", "long", "string"],
        ["long"],
        ["null", {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["int"]}]}],
    ],
)
def test_other_schemas_are_left_to_arrays(schema: Any) -> None:
    of_field = {"type": "record", "name": "E", "fields": [{"name": "n", "type": schema}]}
    root = parse_schema(json.dumps(of_field))
    assert AvroLayout.for_schema(root, (), {}, ()) is None


def test_texts_of_a_record_that_is_null_are_null() -> None:
    inner = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "string"}]}
    fields = [{"name": "inner", "type": ["null", inner]}, {"name": "n", "type": "string"}]
    layout = a_layout({"type": "record", "name": "E", "fields": fields})
    read = layout.read(pa.array([b"\x02\x02a\x02b", b"\x00\x02c", b"\x02\x00\x00"], pa.binary()), 0)
    assert read is not None
    assert read.texts["inner", "n"].binary().to_pylist() == [b"a", None, b""]
    assert read.texts["n",].binary().to_pylist() == [b"b", b"c", b""]


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("seed", range(4))
def test_no_byte_behind_the_messages_is_read(seed: int) -> None:
    """The last message ends where memory does, and what lies behind it changes nothing."""
    rng, layout = random.Random(seed), a_layout()
    data, _pages = guarded_pages()
    parsed_count = 0
    for index in range(400):
        values = [a_message(rng, 1) for _ in range(rng.choice([1, 2, 5]))]
        values = [
            value if rng.random() < 0.6 else b"head." + mutated(value[5:], rng) for value in values
        ]
        values[-1] = (
            values[-1][: rng.randrange(5, len(values[-1]) + 1)] if index % 2 else values[-1]
        )
        joined_bytes = b"".join(values)
        data[len(data) - len(joined_bytes) :] = np.frombuffer(joined_bytes, np.uint8)
        offsets = np.cumsum([0, *map(len, values)]) + len(data) - len(joined_bytes)
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
        ends = layout.read(pa.Array.from_buffers(pa.binary(), len(values), buffers), 5)
        before = layout.read(
            pa.array([*values, b"\xff" * 40], pa.binary()).slice(0, len(values)), 5
        )
        assert shown_parts(ends) == shown_parts(before)
        assert ends is not None
        parsed_count += int(ends.is_parsed.sum())
    assert parsed_count


def shown_parts(read: AvroMessages | None) -> Any:
    assert read is not None
    columns = {
        name: (
            column.binary() if column.avro_type.kind == "string" else column.numeric_values()
        ).to_pylist()
        for name, column in read.columns.items()
        if column.avro_type.kind in ("string", "long", "double", "enum")
    }
    decimals = {
        name: read.columns[name].decimals(pa.decimal128(38, 2)).view(pa.binary(16)).to_pylist()
        for name in ("wide",)
    }
    texts = [text_column.binary().to_pylist() for text_column in read.texts.values()]
    return read.is_parsed.tolist(), repr(columns), decimals, texts
