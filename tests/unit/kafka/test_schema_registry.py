"""An unknown schema id or a foreign schema makes only its own messages bad."""

from __future__ import annotations

import json
import random
import resource
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import MESSAGE_SCHEMA, DecodedBatch
from stream_app.cdc.debezium.avro.avro_source_extractor import AvroSourceExtractor
from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.schema_registry_port import IdKind
from stream_app.cdc.wire.avro.avro_types import parse_schema
from stream_app.clock import SystemClock
from stream_app.errors import SourceError, UsageError
from stream_app.kafka.registry_apis import RegistryRefusalError, registered_at
from stream_app.kafka.schema_registry import SchemaRegistry
from stream_app.model.source.mapping_options import MappingOptions
from tests.support.brokers.schema_registry import Registry, confluent_message, schema_registry
from tests.support.messages.debezium_messages import a_format, reasons_of, rows_of

ROW = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [{"name": name, "type": "string"} for name in ("connector", "db", "table")],
}


def envelope(*more: dict[str, Any], row: Any = ROW) -> dict[str, Any]:
    fields = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        *more,
    ]
    return {"type": "record", "name": "Envelope", "fields": fields}


GOOD = envelope()
CHANGE = {
    "before": None,
    "after": {"id": 1},
    "source": {"connector": "mysql", "db": "shop", "table": "orders"},
    "op": "c",
}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as running:
        yield running


@dataclass(frozen=True)
class WatchedClock(SystemClock):
    """A clock that does not wait, and notes how long it should have."""

    waits_s: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits_s.append(seconds)


def batch(*values: bytes) -> pa.RecordBatch:
    rows = [
        {"topic": "t", "partition": 0, "offset": index, "value": value}
        for index, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def avro(registry: Registry) -> MessageFormat:
    options = {"schema.registry.url": registry.url}
    return a_format("id BIGINT", name="debezium-avro", options=options)


def message_of(number: int, body: bytes = b"\x00") -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + body


def beside_good_ones(registry: Registry, *strange: bytes) -> tuple[DecodedBatch, dict[int, str]]:
    """Decodes strange messages with a good one before and after; those two are rows."""
    good = confluent_message(registry.add(GOOD), GOOD, CHANGE)
    messages = batch(good, *strange, good)
    decoded_batch = avro(registry).decode(messages)
    assert [position for position, *_ in rows_of(decoded_batch)] == [0, len(strange) + 1]
    source = AvroSourceExtractor(SchemaRegistry((registry.url,)))
    origins = source.find_origins(messages)
    assert [origins.codes[0], origins.codes[-1]] == [0, 0]
    source.find_change_times(messages)
    assert source.describe(messages, MappingOptions()) is not None
    source.find_versions(messages, MappingOptions())
    reasons = reasons_of(decoded_batch)
    assert reasons.keys() == set(range(1, len(strange) + 1))
    assert decoded_batch.decoder_error_count == 0
    return decoded_batch, reasons


def test_schemas_of_other_kinds_refuse_their_messages_alone(registry: Registry) -> None:
    protobuf = registry.add({}, schemaType="PROTOBUF")
    of_json = registry.add({"type": "object"}, schemaType="JSON")
    reference = {"name": "other", "subject": "other", "version": 1}
    references = registry.add(GOOD, references=[reference])
    half = registry.add(GOOD, references=[{**reference, "subject": "\ud800"}])
    no_avro = registry.add({"type": "record", "name": "X", "fields": [{"name": "a", "type": "N"}]})
    numbers = (protobuf, of_json, references, no_avro, 2**31, 2**32 - 1, half)
    strange = [message_of(number) for number in numbers]
    _, reasons = beside_good_ones(registry, *strange)
    assert "which is of type PROTOBUF" in reasons[1]
    assert "which is of type JSON" in reasons[2]
    assert "whose reference 'other' the schema registry does not have" in reasons[3]
    assert reasons[4].startswith("has a schema that is not Avro's")
    assert "which the schema registry does not have" in reasons[6]
    assert "has half of a surrogate pair in its name" in reasons[7]
    assert not {2**31, 2**32 - 1} & set(registry.requested_ids), "no registry counts so far"


def test_apicurios_references_that_nest_too_deeply_refuse_their_schema() -> None:
    def get(path: str, _what: str) -> bytes:
        return b"[" * 100_000 if path.endswith("/references") else b"{}"

    for version in (2, 3):
        with pytest.raises(RegistryRefusalError, match="schema 7, which is nested too deeply"):
            registered_at(f"http://r/apis/registry/v{version}", get, 7, IdKind.AUTO)


@pytest.mark.parametrize("status", [404, 410, 422])
def test_numbers_without_a_schema_refuse_their_messages_alone(
    registry: Registry, status: int
) -> None:
    number = registry.add(GOOD)
    registry.refusals[number] = [(status, "")] * 9
    _, reasons = beside_good_ones(registry, message_of(number))
    assert reasons[1] == f"names schema {number}, which the schema registry does not have"


def test_a_number_without_a_schema_is_asked_for_again_after_a_while(registry: Registry) -> None:
    patient, hasty = (SchemaRegistry((registry.url,), refusal_period_s=age) for age in (3600, 0))
    for client in (patient, patient, hasty):
        with pytest.raises(UnreadableRecordError, match="does not have"):
            client.schema(900)
    assert registry.requested_ids.count(900) == 2
    registry.schemas[900] = {"schema": json.dumps(GOOD)}
    with pytest.raises(UnreadableRecordError):
        patient.schema(900)
    assert hasty.schema(900).text == hasty.schema(900).text == json.dumps(GOOD)
    assert registry.requested_ids.count(900) == 3


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_registry_that_cannot_answer_is_asked_again_and_refuses_no_message(
    registry: Registry, status: int
) -> None:
    clock, number = WatchedClock(), registry.add(GOOD)
    client = SchemaRegistry((registry.url,), pauses_s=(1, 2), clock=clock)
    registry.refusals[number] = [(status, "")] * 3
    with pytest.raises(SourceError, match=f"does not give schema {number}: .*HTTP {status}"):
        client.schema(number)
    assert (clock.waits_s, registry.requested_ids.count(number)) == ([1, 2], 3)
    registry.refusals[number] = [(status, "")]
    assert client.schema(number).text == json.dumps(GOOD)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_login_goes_to_the_configured_address_alone(registry: Registry, status: int) -> None:
    with schema_registry("reader:secret") as elsewhere:
        number = elsewhere.add(GOOD)
        registry.refusals[number] = [(status, f"{elsewhere.url}/schemas/ids/{number}")] * 2
        with pytest.raises(SourceError, match=rf"HTTP {status}, a redirect to {elsewhere.url}"):
            SchemaRegistry((registry.url,), user_info="reader:secret").schema(number)
        assert elsewhere.logins == []
    settings = {"schema.registry.url": "http://reader:secret@registry:8081"}
    with pytest.raises(UsageError, match="a login, which belongs to") as error:
        a_format(name="debezium-avro", options=settings)
    assert "secret" not in str(error.value)


def nested_schema(depth: int) -> Any:
    kind: Any = "long"
    for level in range(depth):
        kind = {"type": "record", "name": f"R{level}", "fields": [{"name": "a", "type": kind}]}
    return kind


def doubling(levels: int) -> Any:
    """Names that use names: so many levels have 2^levels values."""
    kind: Any = {"type": "record", "name": "D0", "fields": [{"name": "a", "type": "long"}]}
    for level in range(1, levels):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"D{level - 1}"}]
        kind = {"type": "record", "name": f"D{level}", "fields": fields}
    return kind


SELF = {"type": "record", "name": "S", "fields": [{"name": "s", "type": "S"}]}
LINKED = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
EMPTY = {"type": "record", "name": "E", "fields": []}
EMPTY_FIXED = {"type": "fixed", "name": "F", "size": 0}
HOSTILE = {
    "holds itself": (SELF, b""),
    "is a list of itself": (LINKED, b"\x02" * 200_000 + b"\x00"),
    "nests deeply": (nested_schema(300), b"\x00"),
    "doubles": (doubling(40), b""),
    "nothing, again and again": (
        {"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",
    ),
    "empty records": ({"type": "array", "items": EMPTY}, b"\xfe\xff\xff\xff\xff\x7f\x00"),
    "no bytes": ({"type": "array", "items": EMPTY_FIXED}, b"\xfe\xff\xff\xff\xff\x7f\x00"),
    "many items that are not there": (
        {"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02",
    ),
    "a long text that is not there": ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01a"),
    "a text of negative length": ("string", b"\x03abc"),
    "a fixed of all memory": ({"type": "fixed", "name": "H", "size": 2**62}, b"abc"),
    "a fixed of less than nothing": ({"type": "fixed", "name": "M", "size": -1}, b""),
    "a fixed of words": ({"type": "fixed", "name": "W", "size": "x"}, b""),
    "an enum of numbers": ({"type": "enum", "name": "N", "symbols": [1]}, b"\x00"),
    "parameters that are none": ({"type": "long", "connect.parameters": 1}, b"\x00"),
}  # fmt: skip


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Two gigabytes beyond what the process has: a hog fails, and harms no other process."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (2 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_schema_refuses_its_messages_alone(registry: Registry, case: str) -> None:
    kind, body = HOSTILE[case]
    number = 5000 + len(registry.schemas)
    schema = envelope({"name": "x", "type": kind})
    registry.schemas[number] = {"schema": json.dumps(schema)}
    head = confluent_message(1, GOOD, CHANGE)[5:]
    strange = message_of(number, head + body), message_of(number, body), message_of(number)
    _, reasons = beside_good_ones(registry, *strange)
    assert list(reasons) == [1, 2, 3]


def test_schemas_that_no_reader_of_json_reads_refuse_their_messages(registry: Registry) -> None:
    texts = ["[" * 100_000, '{"type":' * 100_000, "", "{", '"x', "\ud800", "9" * 5000, "NaN"]
    numbers = [registry.add(GOOD) for _ in texts]
    for number, text in zip(numbers, texts, strict=True):
        registry.schemas[number] = {"schema": text}
    _, reasons = beside_good_ones(registry, *map(message_of, numbers))
    assert list(reasons) == list(range(1, len(texts) + 1))


def test_a_wide_table_is_not_hostile() -> None:
    fields = [{"name": f"c{index}", "type": ["null", "long"]} for index in range(4096)]
    row = {"type": "record", "name": "Value", "fields": fields}
    assert len(parse_schema(json.dumps(envelope(row=row))).fields) == 4


def test_random_schemas_and_bytes_end_nothing(registry: Registry, seed: int) -> None:
    rng = random.Random(seed)
    strange = []
    for _ in range(150):
        schema = mangled_schema(envelope({"name": "x", "type": random_type(rng, 4)}), rng)
        number = registry.add(schema)
        body = confluent_message(1, GOOD, CHANGE)[5:] + rng.randbytes(rng.randrange(40))
        strange.append(message_of(number, body if rng.random() < 0.5 else rng.randbytes(30)))
    good = confluent_message(registry.add(GOOD), GOOD, CHANGE)
    messages = batch(good, *strange, good)
    decoded_batch = avro(registry).decode(messages)
    rows = [position for position, *_ in rows_of(decoded_batch)]
    assert {0, len(strange) + 1} <= set(rows)
    assert (
        len(set(rows)) + decoded_batch.bad_records.num_rows + decoded_batch.skipped_count
        == messages.num_rows
    )
    source = AvroSourceExtractor(SchemaRegistry((registry.url,)))
    assert len(source.find_origins(messages).codes) == messages.num_rows
    source.find_change_times(messages)
    source.find_versions(messages, MappingOptions())


def random_type(rng: random.Random, depth: int) -> Any:
    names = [f"T{rng.randrange(3)}" for _ in range(2)]
    inner = random_type(rng, depth - 1) if depth else "long"
    return rng.choice([
        "null", "boolean", "int", "long", "double", "bytes", "string", "Value", *names,
        {"type": "array", "items": inner}, {"type": "map", "values": inner}, ["null", inner],
        {"type": "record", "name": names[0], "fields": [{"name": "a", "type": inner}]},
        {"type": "record", "name": names[1], "fields": []}, [], ["null"], [inner, inner],
        {"type": "fixed", "name": names[0], "size": rng.choice([0, 1, 16, 2**40, "3"])},
        {"type": "enum", "name": names[1], "symbols": ["A", "B"]},
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": rng.choice([2, 1e9])},
    ])  # fmt: skip


def mangled_schema(schema: Any, rng: random.Random) -> Any:
    """The schema, sometimes with a piece of it replaced by another."""
    if rng.random() < 0.04:
        return rng.choice([None, 1, "x", [], {}, -1, "Value", True, {"type": "long"}, [[]]])
    if isinstance(schema, list):
        return [mangled_schema(branch, rng) for branch in schema]
    if isinstance(schema, dict):
        return {name: mangled_schema(member, rng) for name, member in schema.items()}
    return schema
