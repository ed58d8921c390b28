"""debezium-avro decodes bytes to the rows that the same message as JSON gives."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.json_records.decoder_choice import ARRAYS, AUTO, DECODER
from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.wire.wire_format import avro_as_json
from stream_app.errors import SourceError, UsageError, WrongSourceError
from stream_app.message_format_registry import FORMATS, format_named
from tests.support.brokers.schema_registry import Registry, confluent_message, schema_registry
from tests.support.messages.avro_events import DECIMAL, ENVELOPE, KEY, a_row, batch, event, setup_of
from tests.support.messages.debezium_messages import a_format, reasons_of, rows_of

COLUMNS = (
    "id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP(6), day DATE, raw BYTES, "
    "flag BOOLEAN, score DOUBLE, ratio FLOAT, tags STRING, mood STRING"
)


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as running:
        yield running


def avro(registry: Registry, columns: str = COLUMNS, **options: str) -> MessageFormat:
    settings = {name.replace("_", "-"): value for name, value in options.items()}
    return a_format(
        columns, name="debezium-avro", options={"schema.registry.url": registry.url, **settings}
    )


def envelope(*missing_names: str, **types: Any) -> dict[str, Any]:
    """The schema of messages, without some columns, and others of other types."""
    envelope = copy.deepcopy(ENVELOPE)
    row: Any = envelope["fields"][0]["type"][1]
    row["fields"] = [
        {**field, "type": types.get(field["name"], field["type"])}
        for field in row["fields"]
        if field["name"] not in missing_names
    ]
    return envelope


def outcome(decoded_batch: DecodedBatch) -> dict[int, Any]:
    outcomes: dict[int, Any] = dict(reasons_of(decoded_batch))
    for position, *cells in rows_of(decoded_batch):
        outcomes.setdefault(position, []).append(repr(cells))
    return outcomes


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("decoder", [AUTO, ARRAYS])
@pytest.mark.slow
def test_avro_means_what_its_json_means(registry: Registry, decoder: str, seed: int) -> None:
    rng = random.Random(seed)
    schema = envelope(*rng.sample(["tags", "score", "mood"], rng.randrange(3)))
    number = registry.add(schema)
    values = [
        confluent_message(number, schema, event(rng)) for _ in range(rng.choice([1, 20, 200]))
    ]
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
    settings = {**options, "schema.registry.url": registry.url, DECODER: decoder}
    of_avro = FORMATS["debezium-avro"].make(setup_of(columns, keys, settings, keeps))
    plain = of_json.decode(batch([avro_as_json(value, text) for value in values]))
    decoded_batch = of_avro.decode(batch(values))
    assert outcome(decoded_batch) == outcome(plain)
    assert decoded_batch.skipped_count == plain.skipped_count
    assert decoded_batch.tables == plain.tables
    assert {name: sighting.record_count for name, sighting in decoded_batch.drift.items()} == {
        name: sighting.record_count for name, sighting in plain.drift.items()
    }


def test_a_broken_message_is_bad_and_harms_no_other(registry: Registry) -> None:
    schema = envelope("tags")
    number = registry.add(schema)
    rng = random.Random(5)
    good = confluent_message(
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
    mixed_values = [value for message in broken for value in (good, message, good)]
    decoded_batch = avro(registry).decode(batch(mixed_values))
    assert {position for position, *_ in rows_of(decoded_batch)} == {
        position for position, value in enumerate(mixed_values) if value is good
    }
    reasons = reasons_of(decoded_batch)
    assert len(reasons) == len(broken)
    assert decoded_batch.decoder_error_count == 0
    assert reasons[25] == "names schema 77, which the schema registry does not have"
    assert "does not begin with 0 and the number of a schema" in reasons[22]


def test_keys_of_avro_prove_rows(registry: Registry) -> None:
    schema, rng = envelope("tags"), random.Random(1)
    number, key_number = registry.add(schema), registry.add(KEY)
    row = {**a_row(rng), "id": 1, "name": "a", "amount": None, "at": 0, "day": 0, "raw": None}
    change = {**event(rng), "op": "u", "before": None, "after": row}
    change["source"]["connector"] = "postgresql"
    value = confluent_message(number, schema, change)
    keys: list[bytes | None] = [confluent_message(key_number, KEY, {"id": 1}), b'{"id":1}', b"5"]
    decoded_batch = avro(registry, unproven_keys="quarantine").decode(batch([value] * 3, keys))
    assert [position for position, *_ in rows_of(decoded_batch)] == [0, 1]
    assert "which row it changes is not certain" in reasons_of(decoded_batch)[2]


def test_columns_of_the_schema_that_the_table_does_not_have(registry: Registry) -> None:
    schema, rng = envelope("tags"), random.Random(2)
    number = registry.add(schema)
    row = {**a_row(rng), "amount": None, "at": 0, "day": 0, "raw": None}
    value = confluent_message(
        number, schema, {**event(rng), "op": "c", "before": None, "after": row}
    )
    decoded_batch = avro(registry, "id BIGINT, name STRING, phone STRING").decode(
        batch([value] * 3)
    )
    assert len(rows_of(decoded_batch)) == 3
    assert {
        name: sighting.record_count for (_, name), sighting in decoded_batch.drift.items()
    } == dict.fromkeys(["phone", "amount", "at", "day", "raw", "flag", "score", "ratio", "mood"], 3)
    with pytest.raises(WrongSourceError, match="'amount' is not in the table"):
        avro(registry, "id BIGINT", unknown_columns="stop").decode(batch([value]))


def two_images(before: Any, after: Any) -> dict[str, Any]:
    sides = {
        side: {"type": "record", "name": side, "fields": [{"name": "name", "type": data_type}]}
        for side, data_type in (("before", before), ("after", after))
    }
    fields = [{"name": side, "type": ["null", row]} for side, row in sides.items()]
    fields.append({"name": "op", "type": "string"})
    return {"type": "record", "name": "Envelope", "fields": fields}


@pytest.mark.parametrize("decoder", ["arrays", "auto"])
def test_each_image_has_the_symbols_of_its_own_schema(registry: Registry, decoder: str) -> None:
    few, more = ({"type": "enum", "name": n, "symbols": list(n)} for n in ("xa", "abc"))
    schema = two_images(few, more)
    value = {"before": {"name": "a"}, "after": {"name": "c"}, "op": "u"}
    message = confluent_message(registry.add(schema), schema, value)
    decode = avro(registry, "name STRING", truncate="ignore", decoder=decoder).decode
    assert [cells[1:] for cells in rows_of(decode(batch([message])))] == [("-U", "a"), ("+U", "c")]


def test_a_column_that_is_another_before_the_change_is_bad(registry: Registry) -> None:
    """The decoder would read its bytes with the digits of the other image."""
    schema = two_images({**DECIMAL, "connect.parameters": {"scale": "3"}}, DECIMAL)
    value = {"before": {"name": b"\x01"}, "after": {"name": b"\x01"}, "op": "u"}
    message = confluent_message(registry.add(schema), schema, value)
    decoded_batch = avro(registry, "name DECIMAL(12,3)", truncate="ignore").decode(batch([message]))
    assert "has a schema by which 'name' is another before a change" in reasons_of(decoded_batch)[0]


def test_a_schema_is_asked_for_once(registry: Registry) -> None:
    schema, rng = envelope("tags"), random.Random(3)
    number = registry.add(schema)
    value = confluent_message(number, schema, {**event(rng), "op": "m"})
    for _ in range(3):
        assert avro(registry).decode(batch([value, None])).skipped_count == 2
    assert registry.requested_ids.count(number) == 1


def test_a_registry_with_a_login_and_one_that_is_away() -> None:
    schema = envelope("tags")
    with schema_registry("reader:secret") as registry:
        number = registry.add(schema)
        value = confluent_message(number, schema, {**event(random.Random(3)), "op": "m"})
        with pytest.raises(WrongSourceError, match="refuses the login: HTTP 401"):
            avro(registry).decode(batch([value]))
        login = {"schema.registry.basic.auth.user.info": "reader:secret"}
        url = {"schema.registry.url": f"http://127.0.0.1:9,{registry.url}"}
        decoder = a_format(COLUMNS, name="debezium-avro", options=url | login)
        assert decoder.decode(batch([value])).skipped_count == 1
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
    messages = batch(
        [confluent_message(number, schema, change)], [confluent_message(key_number, KEY, {"id": 1})]
    )
    options = {"schema.registry.url": registry.url}
    table = setup_of("dt STRING, id BIGINT, name STRING", ("dt", "id"), options)
    survey = format_named("debezium-avro").survey(table, {"t": messages})
    assert survey.tables() == {("t", "shop.orders"): 1}
    (notice,) = survey.notices()
    assert "the message's key (id) lacks dt of the primary key" in notice.problem
