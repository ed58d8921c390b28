"""debezium-avro extracts the facts about the source that the same messages as JSON give."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.message_format import FormatSetup, SourceExtractor
from stream_app.cdc.source_tables import NO_TABLE
from stream_app.cdc.wire.wire_format import avro_as_json
from stream_app.message_format_registry import FORMATS, make_source_extractor
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS, parse_mapping_options
from tests.support.brokers.schema_registry import Registry, confluent_message, schema_registry
from tests.support.messages.avro_events import (
    ENVELOPE,
    KEY,
    SOURCE,
    TIME,
    a_row,
    batch,
    event,
    setup_of,
)

FLAT: dict[str, Any] = {
    "type": "record",
    "name": "Flat",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "__op", "type": ["null", "string"]},
        {"name": "__db", "type": ["null", "string"]},
        {"name": "__table", "type": ["null", "string"]},
        {"name": "__source_ts_ms", "type": ["null", "long"]},
    ],
}
HEARTBEAT = {"type": "record", "name": "H", "fields": [{"name": "ts_ms", "type": "long"}]}
MARKER = {
    "type": "record",
    "name": "T",
    "fields": [
        {"name": "status", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "event_count", "type": ["null", "long"]},
        {"name": "data_collections", "type": ["null", {"type": "array", "items": "string"}]},
    ],
}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as running:
        yield running


def source_extractor(registry: Registry) -> SourceExtractor:
    driver_extractor = make_source_extractor("debezium-avro", {"schema.registry.url": registry.url})
    task_extractor: SourceExtractor = pickle.loads(pickle.dumps(driver_extractor))
    return task_extractor


def changes(rng: random.Random, count: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Schemas and values: whole and flattened messages of several tables, and what is not a row."""
    for _ in range(count):
        change = event(rng)
        change["source"] |= {
            "db": rng.choice(["a", "b", "数据"]),
            "table": rng.choice(["orders", "items", None, ""]),
            "ts_ms": rng.choice([0, -5, 1709251199123]),
        }
        flat = {
            "id": rng.randrange(9),
            "__op": rng.choice(["c", "t", None]),
            "__db": rng.choice(["a", None]),
            "__table": rng.choice(["orders", None]),
            "__source_ts_ms": rng.choice([None, 17]),
        }
        marker = {"status": "END", "id": "7", "event_count": 1, "data_collections": ["x"]}
        yield rng.choice(
            [(ENVELOPE, change), (ENVELOPE, change), (FLAT, flat), (HEARTBEAT, {"ts_ms": 1}),
             (MARKER, marker)]
        )  # fmt: skip


def both_batches(
    registry: Registry, seed: int, count: int
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The same messages as Avro and as JSON, with tombstones among them."""
    numbers = {
        avro_schema["name"]: registry.add(avro_schema)
        for avro_schema in (ENVELOPE, FLAT, HEARTBEAT, MARKER)
    }
    avro: list[bytes | None] = []
    plain: list[bytes | None] = []
    for schema, value in changes(random.Random(seed), count):
        number = numbers[schema["name"]]
        avro += [confluent_message(number, schema, value), None]
        plain += [avro_as_json(avro[-2] or b"", registry.schemas[number]["schema"]), None]
    return batch(avro), batch(plain)


def test_tables_are_those_of_the_same_messages_as_json(registry: Registry, seed: int) -> None:
    avro, plain = both_batches(registry, seed, 400)
    origins, expected = (
        extractor.find_origins(messages)
        for extractor, messages in (
            (source_extractor(registry), avro),
            (make_source_extractor("debezium-json", {}), plain),
        )
    )
    assert origins.unassigned_reasons == expected.unassigned_reasons
    assert [origins.tables[code] if code != NO_TABLE else None for code in origins.codes] == [
        expected.tables[code] if code != NO_TABLE else None for code in expected.codes
    ]
    assert len(set(origins.codes.tolist())) > 3


def test_times_are_those_of_the_same_messages_as_json(registry: Registry, seed: int) -> None:
    avro, plain = both_batches(registry, seed, 200)
    of_avro, of_json = source_extractor(registry), make_source_extractor("debezium-json", {})
    assert of_avro.find_change_times is not None
    assert of_json.find_change_times is not None
    times = of_avro.find_change_times(avro)
    assert times.equals(of_json.find_change_times(plain))
    assert 0 < times.null_count < len(times)


def test_broken_messages_are_unreadable_and_harm_no_other(registry: Registry) -> None:
    number = registry.add(ENVELOPE)
    change = {**event(random.Random(1)), "op": "c", "before": None}
    change["after"] = a_row(random.Random(2))
    change["source"] |= {"db": "a", "table": "orders"}
    good = confluent_message(number, ENVELOPE, change)
    messages = batch([good, good[:-1], b"{}", b"\0\0\0\0\7\0", good])
    origins = source_extractor(registry).find_origins(messages)
    assert origins.codes.tolist() == [0, NO_TABLE, NO_TABLE, NO_TABLE, 0]
    assert [str(table) for table in origins.tables] == ["a.orders"]
    assert origins.unassigned_reasons[1].startswith(f"is not Avro of schema {number}")
    assert "does not begin with 0" in origins.unassigned_reasons[2]
    assert (
        origins.unassigned_reasons[3] == "names schema 7, which the schema registry does not have"
    )
    times = source_times(registry, messages)
    assert times[1:4] == [None] * 3
    assert times[0] == times[4]


def source_times(registry: Registry, messages: pa.RecordBatch) -> list[Any]:
    read = source_extractor(registry).find_change_times
    assert read is not None
    times: list[Any] = read(messages).to_pylist()
    return times


def columns_of(registry: Registry, fields: list[Any], connector: str, options: str = "") -> str:
    """The columns and the key that a message of a table with these columns tells."""
    row = {"type": "record", "name": "Value", "fields": fields}
    schema = {
        **ENVELOPE,
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": SOURCE},
            {"name": "op", "type": "string"},
        ],
    }
    source = {"version": "3", "connector": connector, "ts_ms": 1, "snapshot": "false"}
    source |= {"db": "d", "table": "t"}
    change = {"before": None, "after": None, "source": source, "op": "d"}
    value = confluent_message(registry.add(schema), schema, change)
    key = confluent_message(registry.add(KEY), KEY, {"id": 1})
    description = source_extractor(registry).describe(
        batch([value], [key]), parse_mapping_options([options])
    )
    assert description is not None
    shown = [
        f"{column.name} {column.data_type}" + (f" -- {column.comment}" if column.comment else "")
        for column in description.columns
    ]
    return "\n".join([*shown, f"key {', '.join(description.primary_keys)}"])


def field(name: str, data_type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": data_type, **more}


def test_columns_are_those_of_the_envelope_of_json(registry: Registry) -> None:
    source_type = "__debezium.source.column."
    fields = [
        field("id", "long"),
        field("small", {"type": "int", "connect.type": "int16"}),
        field("amount", ["null", {
            "type": "bytes", "logicalType": "decimal", "scale": 2, "precision": 12,
            "connect.parameters": {"scale": "2", "connect.decimal.precision": "12"},
            "connect.name": "org.apache.kafka.connect.data.Decimal",
        }]),
        field("wide", ["null", {
            "type": "bytes", "logicalType": "decimal", "scale": 0, "precision": 64,
            "connect.name": "org.apache.kafka.connect.data.Decimal",
        }]),
        field("at", ["null", {"type": "long", "connect.name": f"{TIME}Timestamp"}], doc="when"),
        field("title", ["null", {
            "type": "string", "connect.doc": "of the book",
            "connect.parameters": {f"{source_type}type": "VARCHAR", f"{source_type}length": "20"},
        }]),
        field("tags", ["null", {"type": "array", "items": "string"}]),
        field("mood", {"type": "enum", "name": "M", "symbols": ["ok"]}),
    ]  # fmt: skip
    assert columns_of(registry, fields, "mysql").splitlines() == [
        "id BIGINT NOT NULL",
        "small SMALLINT NOT NULL",
        "amount DECIMAL(12, 2)",
        "wide DECIMAL(20, 0)",
        "at TIMESTAMP(3) -- when",
        "title VARCHAR(20) -- of the book",
        "tags STRING",
        "mood STRING NOT NULL",
        "key id",
    ]
    assert "small SMALLINT\n" in columns_of(registry, fields, "mysql", "to-nullable")


def test_logical_types_without_a_name_of_connect(registry: Registry) -> None:
    kinds = {
        "date": "int",
        "time-millis": "int",
        "time-micros": "long",
        "timestamp-millis": "long",
        "timestamp-micros": "long",
        "uuid": "string",
    }
    fields = [
        field("id", "long"),
        *(
            field(name.replace("-", "_"), ["null", {"type": data_type, "logicalType": name}])
            for name, data_type in kinds.items()
        ),
        field("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}),
    ]
    assert columns_of(registry, fields, "").splitlines() == [
        "id BIGINT NOT NULL",
        "date DATE",
        "time_millis TIME(3)",
        "time_micros BIGINT",
        "timestamp_millis TIMESTAMP(3)",
        "timestamp_micros TIMESTAMP(6)",
        "uuid STRING",
        "price DECIMAL(9, 3) NOT NULL",
        "key id",
    ]


def test_a_table_follows_a_new_schema(registry: Registry) -> None:
    """The messages of a new number tell its columns, and those of a known one cost no question."""
    first, row = FLAT, {"id": 1, "__op": "c", "__db": "a", "__table": "t", "__source_ts_ms": 1}
    second = {**FLAT, "name": "Flat2", "fields": [*FLAT["fields"], field("phone", "string")]}
    setup = setup_of("id BIGINT", ("id",), {"schema.registry.url": registry.url})
    options = {**setup.options, "unknown-columns": "evolve"}
    decode = format_pipeline(
        "debezium-avro",
        FormatSetup(
            columns=setup.columns,
            arrow_schema=setup.arrow_schema,
            primary_keys=("id",),
            options=options,
            keeps_update_before=False,
            mapping_options=NO_MAPPING_OPTIONS,
        ),
    )
    old = confluent_message(registry.add(first), first, row)
    new = confluent_message(registry.add(second), second, {**row, "phone": "1"})
    description = decode.decode(batch([old, new])).description
    assert description is not None
    phone_types = [
        str(column.data_type) for column in description.columns if column.name == "phone"
    ]
    assert phone_types == ["STRING"]  # older rows have none
    assert decode.decode(batch([old, old])).description is None
    for _ in range(2):  # the decoder reports what differs until the table follows
        again = decode.decode(batch([old, new])).description
        assert again is not None
        assert again.column("phone") is not None


def test_every_format_makes_its_source_extractor_of_its_options() -> None:
    for name, declaration in FORMATS.items():
        extractor = make_source_extractor(name, {"schema.registry.url": "http://127.0.0.1:9"})
        assert (extractor.find_change_times is not None) == declaration.has_times


def test_each_version_of_a_table_has_the_messages_of_its_schema(registry: Registry) -> None:
    source = {"version": "3", "connector": "mysql", "ts_ms": 1, "db": "d", "table": "t"}
    changes = [
        {"before": None, "after": {"id": index, "n": index}, "source": source, "op": "c"}
        for index in range(3)
    ]

    def value(index: int, kind: str) -> bytes:
        row = {"type": "record", "name": "Value", "fields": [field("id", "long"), field("n", kind)]}
        fields = [field("before", ["null", row]), field("after", ["null", "Value"])]
        schema = {
            **ENVELOPE, "fields": [*fields, field("source", SOURCE), field("op", "string")]
        }  # fmt: skip
        return confluent_message(registry.add(schema), schema, changes[index])

    versions = source_extractor(registry).find_versions
    assert versions is not None
    messages = [value(0, "int"), None, value(1, "long"), b"broken", value(2, "int")]
    types = {
        place: str(column.data_type.as_nullable())
        for index, table in versions(batch(messages), NO_MAPPING_OPTIONS)
        if (column := table.column("n")) is not None
        for place in index.tolist()
    }
    assert types == {0: "INT", 2: "BIGINT", 4: "INT"}
