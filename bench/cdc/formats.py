"""Measures decode of every format: messages a second of one core, beside the goal of 300,000.

    python -m bench.cdc.formats [--messages N] [--repeat N] [--format NAME] [--bytes N] [--profile]

Messages are changes of a shop's orders, with a changelog: 35 % inserts, 60 % updates, 5 % deletes.
They have about 400 bytes, depending on the format; --bytes sets the mean for all formats. Times are
the shortest processor times of the repeats. Events also have the time of a bare parse by
pyarrow.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.json as pj

from bench.cdc.decode import messages_of
from bench.goal import Goal
from bench.processor_profile import print_profile
from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.schema_registry_port import RegisteredSchema
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns
from tests.support.brokers.schema_registry import answer_of, confluent_message, schema_registry
from tests.support.messages.registered_messages import protobuf_bytes

COLUMNS = (
    "id BIGINT NOT NULL, customer STRING, amount DECIMAL(12,2), updated_at TIMESTAMP(6), "
    "dt STRING NOT NULL, note STRING"
)
GOAL = 300_000
GOALS_MICROS = {"debezium-avro": 0.4, "debezium-bson": 1.5}
Row = dict[str, Any]


def a_row(rng: random.Random, number: int, letters: int = 40) -> Row:
    """Return a random row. Half of the rows have a note of this number of letters."""
    cents = rng.randrange(-(10**9), 10**10)
    return {
        "id": number,
        "customer": f"customer-{rng.randrange(99999):05}",
        "amount": cents / 100,
        "updated_at": f"2024-02-29 23:59:{rng.randrange(60):02}.{rng.randrange(10**6):06}",
        "dt": f"2024-03-{rng.randrange(1, 29):02}",
        "note": rng.choice([None, "x" * letters]),
    }


def change_row(rng: random.Random, row: Row) -> Row:
    """Return an older version of a row: another amount and time, and sometimes another note."""
    letters = len(row["note"]) if row["note"] is not None else 40
    older = a_row(rng, row["id"], letters)
    names = ["amount", "updated_at", *(["note"] if rng.random() < 0.1 else [])]
    return {**row, **{name: older[name] for name in names}}


def changed_fields(older: Row, row: Row) -> Row:
    return {name: value for name, value in older.items() if value != row[name]}


def texts(row: Row) -> Row:
    return {name: None if value is None else str(value) for name, value in row.items()}


def debezium(op: str, older: Row, row: Row) -> Row:
    source = {"version": "3.7.0.Final", "connector": "mysql", "db": "shop", "table": "orders"}
    images = {"before": None if op == "c" else older, "after": None if op == "d" else row}
    return {**images, "source": source, "op": op, "ts_ms": 1795232574433}


def mongodb(op: str, older: Row, row: Row) -> Row:
    """Return a message whose documents are texts of extended JSON."""
    message = debezium(op, extended_json(older), extended_json(row))
    source = {**message.pop("source"), "connector": "mongodb", "collection": "orders"}
    texts = {
        name: None if message[name] is None else json.dumps(message[name])
        for name in ("before", "after")
    }
    return {**message, **texts, "source": source}


def extended_json(row: Row) -> Row:
    updated_at = datetime.datetime.fromisoformat(row["updated_at"]).replace(tzinfo=datetime.UTC)
    return {
        **row,
        "_id": {"$oid": "67ab25755c0d5ac87eb8c632"},
        "id": {"$numberLong": str(row["id"])},
        "updated_at": {"$date": int(1000 * updated_at.timestamp())},
    }


def canal(op: str, older: Row, row: Row) -> Row:
    kind = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[op]
    types = {"customer": "text", "dt": "date"} | {"id": "bigint", "amount": "decimal(12,2)"}
    return {
        "data": [texts(row)],
        "database": "shop",
        "es": 1709251201000,
        "id": 2,
        "isDdl": False,
        "mysqlType": types,
        "old": [texts(changed_fields(older, row))] if op == "u" else None,
        "pkNames": ["id"],
        "table": "orders",
        "type": kind,
    }


def maxwell(op: str, older: Row, row: Row) -> Row:
    kind = {"c": "insert", "u": "update", "d": "delete"}[op]
    head = {"database": "shop", "table": "orders", "type": kind, "ts": 1795232609, "xid": 329}
    message: Row = {**head, "position": "binlog.000001:125871", "server_id": 1, "data": row}
    return {**message, "old": changed_fields(older, row)} if op == "u" else message


def ogg(op: str, older: Row, row: Row) -> Row:
    head = {"table": "SHOP.ORDERS", "op_type": {"c": "I", "u": "U", "d": "D"}[op]}
    message: Row = {**head, "op_ts": "2024-02-29 23:59:12.123456", "pos": "00000000000000001776"}
    if op != "c":
        message["before"] = older
    return message if op == "d" else {**message, "after": row}


def dms(op: str, older: Row, row: Row) -> Row:
    old = {f"BI_{name}": value for name, value in older.items()} if op == "u" else {}
    operation = {"c": "insert", "u": "update", "d": "delete"}[op]
    metadata = {"timestamp": "2024-10-27T12:39:03.210671Z", "record-type": "data"}
    table = {"operation": operation, "schema-name": "shop", "table-name": "orders"}
    return {"data": {**row, **old}, "metadata": {**metadata, **table}}


def avro_image(row: Row) -> Row:
    """Return a row as in Connect's AvroConverter: the amount in bytes, the time in microseconds."""
    cents = round(row["amount"] * 100)
    moment = datetime.datetime.fromisoformat(row["updated_at"]).replace(tzinfo=datetime.UTC)
    epoch = datetime.datetime.fromtimestamp(0, datetime.UTC)
    unscaled_bytes = cents.to_bytes((cents.bit_length() + 8) // 8, "big", signed=True)
    micros = (moment - epoch) // datetime.timedelta(microseconds=1)
    return {**row, "amount": unscaled_bytes, "updated_at": micros}


def avro_schema() -> Any:
    connect = "org.apache.kafka.connect.data."
    decimal = {"type": "bytes", "connect.name": f"{connect}Decimal"}
    timestamp = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    types = {
        "id": "long",
        "customer": ["null", "string"],
        "amount": ["null", {**decimal, "connect.parameters": {"scale": "2"}}],
        "updated_at": ["null", timestamp],
        "dt": "string",
        "note": ["null", "string"],
    }
    row = {"type": "record", "name": "Value", "fields": _fields(types)}
    names = ("version", "connector", "db", "table")
    source = {"type": "record", "name": "Source", "fields": _fields(dict.fromkeys(names, "string"))}
    images = {"before": ["null", row], "after": ["null", "Value"]}
    other_fields = {"source": source, "op": "string", "ts_ms": ["null", "long"]}
    return {"type": "record", "name": "Envelope", "fields": _fields({**images, **other_fields})}


def _fields(types: Row) -> list[Row]:
    return [{"name": name, "type": type_name} for name, type_name in types.items()]


def plain(op: str, older: Row, row: Row) -> Row:
    del op, older
    return {**row, "more": "y" * 180}


def row_schema() -> Any:
    """Return the schema of a plain row: that of the envelope's image, and the text of `plain`."""
    row = avro_schema()["fields"][0]["type"][1]
    return {**row, "fields": [*row["fields"], {"name": "more", "type": "string"}]}


def event(op: str, older: Row, row: Row) -> Row:
    """Return a row as the data of a CloudEvent."""
    del op, older
    attributes = {"specversion": "1.0", "id": "5f0c", "source": "/shop", "type": "order"}
    return {**attributes, "data": {**row, "more": "y" * 100}}


def debezium_event(op: str, older: Row, row: Row) -> Row:
    """Return a change as Debezium's converter for CloudEvents writes it."""
    message = debezium(op, older, row)
    source = message["source"]
    return {
        "id": f"name:shop;lsn:29274832;txId:{row['id']}",
        "source": "/debezium/mysql/shop",
        "specversion": "1.0",
        "type": "io.debezium.connector.mysql.DataChangeEvent",
        "datacontenttype": "application/json",
        "iodebeziumop": op,
        "iodebeziumtsms": "1795232574433",
        **{f"iodebezium{name}": source[name] for name in ("connector", "db", "table")},
        "data": {"before": message["before"], "after": message["after"]},
    }


@dataclass(frozen=True)
class Arm:
    name: str
    message: Callable[[str, Row, Row], Row]
    options: tuple[tuple[str, str], ...] = ()


ARMS = (
    Arm(
        "debezium-json",
        debezium,
        (("decimal.handling.mode", "double"), ("time.precision.mode", "isostring")),
    ),
    Arm("debezium-avro", debezium),
    Arm(
        "debezium-bson",
        mongodb,
        (
            ("replica-identity", "full"),
            ("time.precision.mode", "isostring"),
        ),
    ),
    Arm("canal-json", canal),
    Arm("maxwell-json", maxwell),
    Arm("ogg-json", ogg),
    Arm("aws-dms-json", dms),
    Arm("json", plain),
    Arm("avro", plain),
    Arm("json-schema", plain),
    Arm("protobuf", plain),
    Arm(
        "debezium-json-schema",
        debezium,
        (("decimal.handling.mode", "double"), ("time.precision.mode", "isostring")),
    ),
)
EVENTS = (
    Arm("cloudevents", event),
    Arm(
        "debezium-cloudevents",
        debezium_event,
        (("decimal.handling.mode", "double"), ("time.precision.mode", "isostring")),
    ),
)
AVRO_SCHEMAS = {"debezium-avro": avro_schema, "avro": row_schema}
KINDS = dict.fromkeys(AVRO_SCHEMAS, "AVRO") | {
    "json-schema": "JSON",
    "debezium-json-schema": "JSON",
    "protobuf": "PROTOBUF",
}
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Row {
  int64 id = 1;
  optional string customer = 2;
  string amount = 3;
  google.protobuf.Timestamp updated_at = 4;
  string dt = 5;
  optional string note = 6;
  string more = 7;
}
"""


def protobuf_row(row: Row) -> bytes:
    """Return a row as a Protobuf serializer writes it, with the amount as text."""
    values = {name: value for name, value in row.items() if value is not None}
    registered_schema = RegisteredSchema(1, "PROTOBUF", PROTO)
    return protobuf_bytes(registered_schema, [0], {**values, "amount": str(row["amount"])})


def letters_for(arm: Arm, size: int) -> int:
    """Return the letters of a note that give the mean message this size, or 0 if it is larger."""
    sizes = [sum(map(len, values_of(arm, 2000, letters))) / 2000 for letters in (0, 100)]
    return max(0, round((size - sizes[0]) * 100 / (sizes[1] - sizes[0])))


def values_of(arm: Arm, count: int, letters: int = 40) -> list[bytes]:
    rng = random.Random(7)
    schema_of = AVRO_SCHEMAS.get(arm.name)
    schema = None if schema_of is None else fastavro.parse_schema(schema_of())
    values = []
    for number in range(count):
        draw = rng.random()
        op = "u" if draw < 0.6 else "d" if draw < 0.65 else "c"
        row = a_row(rng, number, letters)
        older = change_row(rng, row)
        if arm.name == "protobuf":
            updated_at = row["updated_at"].replace(" ", "T") + "Z"
            values.append(protobuf_row({**plain(op, older, row), "updated_at": updated_at}))
        elif schema is not None:
            older, row = avro_image(older), avro_image(row)
            values.append(confluent_message(1, schema, arm.message(op, older, row)))
        else:
            message = arm.message(op, older, row)
            head = struct.pack(">BI", 0, 1) if arm.name in KINDS else b""
            values.append(head + json.dumps(message, separators=(",", ":")).encode())
    return values


def measure(
    arm: Arm, count: int, repeat: int, size: int | None = None, *, profile: bool = False
) -> tuple[float, float]:
    """Return the processor seconds for a message, and its bytes."""
    values = values_of(arm, count, 40 if size is None else letters_for(arm, size))
    with schema_registry() as registry:
        kind = KINDS.get(arm.name)
        schema = PROTO if kind == "PROTOBUF" else AVRO_SCHEMAS.get(arm.name, dict)()
        registry.schemas[1] = answer_of(schema, schemaType=kind)
        url = {} if kind is None else {"schema.registry.url": registry.url}
        return _measure(arm, url, values, repeat, profile=profile)


def _measure(
    arm: Arm, url: dict[str, str], values: list[bytes], repeat: int, *, profile: bool
) -> tuple[float, float]:
    messages = messages_of(values)
    columns = parse_columns(COLUMNS)
    decoder = format_pipeline(
        arm.name,
        FormatSetup(
            columns=columns,
            arrow_schema=arrow_schema(columns),
            primary_keys=("id",),
            options=dict(arm.options) | url,
            keeps_update_before=True,
        ),
    )
    bad_records = decoder.decode(messages).bad_records
    assert bad_records.num_rows == 0, bad_records.slice(0, 1).to_pylist()
    times = []
    for _ in range(repeat):
        start_s = time.process_time()
        decoder.decode(messages)
        times.append(time.process_time() - start_s)
    if profile:
        print_profile(lambda: decoder.decode(messages))
    return min(times) / len(values), messages.column("value").nbytes / len(values)


def parse_seconds(arm: Arm, count: int, repeat: int) -> float:
    """Return the processor seconds in which pyarrow.json parses a message, with inferred types."""
    lines = pa.py_buffer(b"\n".join(values_of(arm, count)))
    read_options = pj.ReadOptions(use_threads=False, block_size=lines.size)
    times = []
    for _ in range(repeat):
        start_s = time.process_time()
        pj.read_json(pa.BufferReader(lines), read_options)
        times.append(time.process_time() - start_s)
    return min(times) / count


def goals(count: int, repeat: int) -> Iterator[Goal]:
    """Yield goals for the formats that `bench.cdc.decode` does not measure."""
    for arm in ARMS:
        if arm.name in GOALS_MICROS:
            seconds, _ = measure(arm, count, repeat)
            name = f"decode, µs a message, {arm.name}"
            yield Goal(name, 1e6 * seconds, GOALS_MICROS[arm.name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--format", choices=[arm.name for arm in (*ARMS, *EVENTS)])
    parser.add_argument("--bytes", type=int, help="the mean size of messages, of every format")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    for arm in (*ARMS, *EVENTS):
        if options.format in (None, arm.name):
            seconds, size = measure(
                arm, options.messages, options.repeat, options.bytes, profile=options.profile
            )
            parse_text = ""
            if arm in EVENTS:
                parse_s = parse_seconds(arm, options.messages, options.repeat)
                parse_text = f", a bare parse {1e6 * parse_s:.2f} µs"
            print(
                f"{arm.name:20} {size:5.0f} B  {1e-3 / seconds:5.0f} k/s  "
                f"{1e-6 * size / seconds:4.0f} MB/s  {1e6 * seconds:.2f} µs{parse_text}"
            )
    print(f"goal: {GOAL:,} messages of 400 bytes a second and core")


if __name__ == "__main__":
    main()
