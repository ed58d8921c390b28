"""debezium-avro: what the bytes mean is what the same message as JSON means."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, DecodedBatch, TableTraits
from stream_app.cdc.debezium.avro.wire_format import json_of
from stream_app.cdc.message_format import FormatSetup, MessageFormat
from stream_app.errors import SourceError, UsageError, WrongSourceError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.message_formats import FORMATS, format_named
from stream_app.model.schema.data_type import parse_columns
from tests.support.schema_registry import Registry, encoded, schema_registry
from tests.unit.cdc.debezium_messages import a_format, reasons_of, rows_of

DECIMAL = {
    "type": "bytes", "scale": 2, "precision": 12, "connect.version": 1,
    "connect.parameters": {"scale": "2"}, "logicalType": "decimal",
    "connect.name": "org.apache.kafka.connect.data.Decimal",
}  # fmt: skip
TIME = "io.debezium.time."
ROW: dict[str, Any] = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": ["null", DECIMAL], "default": None},
        {"name": "at", "type": ["null", {"type": "long", "connect.name": f"{TIME}MicroTimestamp"}]},
        {"name": "day", "type": ["null", {"type": "int", "connect.name": f"{TIME}Date"}]},
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "flag", "type": ["null", "boolean"]},
        {"name": "score", "type": ["null", "double"]},
        {"name": "ratio", "type": ["null", "float"]},
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
        {"name": "mood", "type": ["null", {"type": "enum", "name": "M", "symbols": ["ok", "bad"]}]},
    ],
}  # fmt: skip
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.mysql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": [{"type": "string", "connect.default": "false"}, "null"]},
        {"name": "db", "type": "string"},
        {"name": "table", "type": ["null", "string"]},
    ],
}
ENVELOPE: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
COLUMNS = (
    "id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP(6), day DATE, raw BYTES, "
    "flag BOOLEAN, score DOUBLE, ratio FLOAT, tags STRING, mood STRING"
)
PLACEHOLDER = "__debezium_unavailable_value"


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as running:
        yield running


def setup_of(
    columns: str, keys: tuple[str, ...], options: dict[str, str], keeps: bool = True
) -> FormatSetup:
    row_type = parse_columns(columns)
    return FormatSetup(
        columns=row_type,
        arrow_schema=arrow_schema(row_type),
        primary_keys=keys,
        options=options,
        keep_update_before=keeps,
        traits=TableTraits(),
    )


def avro(registry: Registry, columns: str = COLUMNS, **options: str) -> MessageFormat:
    told = {name.replace("_", "-"): value for name, value in options.items()}
    return a_format(
        columns, name="debezium-avro", options={"schema.registry.url": registry.url, **told}
    )


def batch(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
) -> pa.RecordBatch:
    keys = keys or [None] * len(values)
    rows = [
        {"topic": "t", "partition": 0, "offset": at, "key": key, "value": value}
        for at, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def a_row(rng: random.Random) -> dict[str, Any]:
    some = {
        "name": rng.choice(["Ada", "李雷 🚀", "", PLACEHOLDER, "x" * 200]),
        "amount": rng.choice([b"\x01\xe2", b"\xff", b"\x7f" * 5, b"\x7f" * 20, b""]),
        "at": rng.choice([0, 1709251199123456, -1, 2**63 - 1]),
        "day": rng.choice([0, 19000, -800000]),
        "raw": rng.choice([b"", b"\x00\xff", b"abc", PLACEHOLDER.encode()]),
        "flag": rng.choice([True, False]),
        "score": rng.choice([0.1, 1e300, float("nan"), float("inf"), -2.0]),
        "ratio": rng.choice([0.5, 9.899999618530273, float("-inf")]),
        "tags": rng.choice([[], ["a", None], ["b"] * 300]),
        "mood": rng.choice(["ok", "bad"]),
    }
    row = {name: value if rng.random() < 0.8 else None for name, value in some.items()}
    return {"id": rng.choice([0, 1, -1, 64, 2**40, -(2**63)]), **row}


def event(rng: random.Random) -> dict[str, Any]:
    op = rng.choice("cruuudtmx")
    before = a_row(rng) if op in "ud" and rng.random() < 0.9 else None
    after = a_row(rng) if op in "cru" and rng.random() < 0.95 else None
    source = {
        "version": "3", "connector": rng.choice(["mysql", "postgresql"]), "ts_ms": 1,
        "snapshot": rng.choice([None, "false"]), "db": "shop",
        "table": rng.choice(["orders", None]),
    }  # fmt: skip
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": None}


def envelope(*gone: str, **types: Any) -> dict[str, Any]:
    """The schema of messages, without some columns, and others of other types."""
    found = copy.deepcopy(ENVELOPE)
    row: Any = found["fields"][0]["type"][1]
    row["fields"] = [
        {**each, "type": types.get(each["name"], each["type"])}
        for each in row["fields"]
        if each["name"] not in gone
    ]
    return found


def outcome(decoded: DecodedBatch) -> dict[int, Any]:
    found: dict[int, Any] = dict(reasons_of(decoded))
    for at, *cells in rows_of(decoded):
        found.setdefault(at, []).append(repr(cells))
    return found


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.slow
def test_avro_means_what_its_json_means(registry: Registry, seed: int) -> None:
    rng = random.Random(seed)
    schema = envelope(*rng.sample(["tags", "score", "mood"], rng.randrange(3)))
    number = registry.add(schema)
    values = [encoded(number, schema, event(rng)) for _ in range(rng.choice([1, 20, 200]))]
    text = json.dumps(schema)
    options = {
        "truncate": "ignore",
        "unproven-keys": "quarantine",
        "replica-identity": rng.choice(["auto", "full", "default"]),
        "missing-columns": rng.choice(["warn", "ignore", "quarantine"]),
    }
    keeps, keys = rng.random() < 0.6, rng.choice([("id",), ("id", "day"), ()])
    columns = COLUMNS.replace("tags STRING", rng.choice(["tags STRING", "tags ARRAY<STRING>"]))
    table = setup_of(columns, keys, options, keeps)
    of_json = FORMATS["debezium-json"].make(table)
    told = {**options, "schema.registry.url": registry.url}
    of_avro = FORMATS["debezium-avro"].make(setup_of(columns, keys, told, keeps))
    plain = of_json.decode(batch([json_of(value, text) for value in values]))
    found = of_avro.decode(batch(values))
    assert outcome(found) == outcome(plain)
    assert found.skipped == plain.skipped
    assert found.tables == plain.tables
    assert {name: one.records for name, one in found.columns.items()} == {
        name: one.records for name, one in plain.columns.items()
    }


def test_a_broken_message_is_bad_and_harms_no_other(registry: Registry) -> None:
    schema = envelope("tags")
    number = registry.add(schema)
    rng = random.Random(5)
    good = encoded(
        number,
        schema,
        {
            **event(rng),
            "op": "c",
            "before": None,
            "after": {**a_row(rng), "amount": None, "at": 0, "day": 0},
        },
    )
    broken = [
        good[:-1],
        good + b"\x00",
        good[:5],
        good[:9] + b"\xff" * 20,
        good[:5] + bytes([200]) + good[6:],
        b"\x01" + good[1:],
        b"{}",
        b"",
        good[:1] + (77).to_bytes(4, "big") + good[5:],
    ]
    mixed = [each for one in broken for each in (good, one, good)]
    found = avro(registry).decode(batch(mixed))
    assert {at for at, *_ in rows_of(found)} == {
        at for at, each in enumerate(mixed) if each is good
    }
    reasons = reasons_of(found)
    assert len(reasons) == len(broken)
    assert found.decoder_errors == 0
    assert reasons[25] == "names schema 77, which the schema registry does not have"
    assert "does not begin with 0 and the number of a schema" in reasons[22]


def test_keys_of_avro_prove_rows(registry: Registry) -> None:
    schema, rng = envelope("tags"), random.Random(1)
    number, key_number = registry.add(schema), registry.add(KEY)
    row = {**a_row(rng), "id": 1, "name": "a", "amount": None, "at": 0, "day": 0, "raw": None}
    change = {**event(rng), "op": "u", "before": None, "after": row}
    change["source"]["connector"] = "postgresql"
    value = encoded(number, schema, change)
    keys: list[bytes | None] = [encoded(key_number, KEY, {"id": 1}), b'{"id":1}', b"5"]
    found = avro(registry, unproven_keys="quarantine").decode(batch([value] * 3, keys))
    assert [at for at, *_ in rows_of(found)] == [0, 1]
    assert "which row it changes is not certain" in reasons_of(found)[2]


def test_columns_of_the_schema_that_the_table_does_not_have(registry: Registry) -> None:
    schema, rng = envelope("tags"), random.Random(2)
    number = registry.add(schema)
    row = {**a_row(rng), "amount": None, "at": 0, "day": 0, "raw": None}
    value = encoded(number, schema, {**event(rng), "op": "c", "before": None, "after": row})
    found = avro(registry, "id BIGINT, name STRING, phone STRING").decode(batch([value] * 3))
    assert len(rows_of(found)) == 3
    assert {name: one.records for (_, name), one in found.columns.items()} == dict.fromkeys(
        ["phone", "amount", "at", "day", "raw", "flag", "score", "ratio", "mood"], 3
    )
    with pytest.raises(WrongSourceError, match="'amount' is not in the table"):
        avro(registry, "id BIGINT", unknown_columns="stop").decode(batch([value]))


def test_a_schema_is_asked_for_once(registry: Registry) -> None:
    schema, rng = envelope("tags"), random.Random(3)
    number = registry.add(schema)
    value = encoded(number, schema, {**event(rng), "op": "m"})
    for _ in range(3):
        assert avro(registry).decode(batch([value, None])).skipped == 2
    assert registry.asked.count(number) == 1


def test_a_registry_with_a_login_and_one_that_is_away() -> None:
    schema = envelope("tags")
    with schema_registry("reader:secret") as registry:
        number = registry.add(schema)
        value = encoded(number, schema, {**event(random.Random(3)), "op": "m"})
        with pytest.raises(WrongSourceError, match="refuses the login: HTTP 401"):
            avro(registry).decode(batch([value]))
        login = {"schema.registry.basic.auth.user.info": "reader:secret"}
        url = {"schema.registry.url": f"http://127.0.0.1:9,{registry.url}"}
        of = a_format(COLUMNS, name="debezium-avro", options=url | login)
        assert of.decode(batch([value])).skipped == 1
    with pytest.raises(SourceError, match="does not give schema 4711"):
        avro(registry).decode(batch([b"\x00" + (4711).to_bytes(4, "big")]))


def test_the_registry_must_be_named() -> None:
    with pytest.raises(UsageError, match=r"lack schema\.registry\.url"):
        a_format(name="debezium-avro")
    with pytest.raises(UsageError, match="'registry:8081' is not an address"):
        a_format(name="debezium-avro", options={"schema.registry.url": "registry:8081"})


def test_the_first_messages_are_looked_at_as_json(registry: Registry) -> None:
    schema, rng = envelope("tags"), random.Random(4)
    number, key_number = registry.add(schema), registry.add(KEY)
    change = {**event(rng), "op": "d", "before": a_row(rng), "after": None}
    change["source"] |= {"connector": "postgresql", "table": "orders"}
    messages = batch([encoded(number, schema, change)], [encoded(key_number, KEY, {"id": 1})])
    options = {"schema.registry.url": registry.url}
    table = setup_of("dt STRING, id BIGINT, name STRING", ("dt", "id"), options)
    survey = format_named("debezium-avro").survey(table, {"t": messages})
    assert survey.tables() == {("t", "shop.orders"): 1}
    (notice,) = survey.notices()
    assert "the message's key (id) lacks dt of the primary key" in notice.what
