"""A job finds the schemas that Kafka headers name, through a real broker.

The fixture has what the serializers of confluent-kafka 2.16.1 wrote with
`header_schema_id_serializer`, a message of each language.
"""

from __future__ import annotations

import json
import struct
import uuid
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from stream_app.app.config.source_config import SourceConfig, TopicReader
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.app.source.kafka_reader import needs_sparks_source, reader_without_spark
from stream_app.errors import UsageError
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.kafka.range_reader import RangeReader
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.brokers.schema_registry import confluent_message, schema_registry
from tests.support.messages.debezium_messages import FIXTURES, a_format, reasons_of, rows_of
from tests.testbed.servers.apicurio import Apicurio

LINES = (FIXTURES / "confluent_schema_headers.jsonl").read_text().splitlines()
CAPTURED = {line["format"]: line for line in map(json.loads, LINES)}
ORDER = {"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}]}


def messages_of(broker: EmbeddedBroker, topic: str, count: int, **source: Any) -> pa.RecordBatch:
    """The topic's messages, as a job's tasks read them."""
    config = SourceConfig(bootstrap_servers=broker.bootstrap, topics=(topic,), **source)
    with closing(RangeReader(reader_without_spark(config))) as reader:
        [batch] = pa.Table.from_batches(
            reader.read([OffsetRange(topic, 0, 0, count)])
        ).combine_chunks().to_batches()  # fmt: skip
    return batch


@pytest.mark.kafka
@pytest.mark.parametrize("name", CAPTURED)
def test_rows_of_confluents_serializers(kafka_broker: EmbeddedBroker, name: str) -> None:
    captured_messages = CAPTURED[name]
    head, value = (
        bytes.fromhex(captured_messages["head"]),
        bytes.fromhex(captured_messages["value"]),
    )
    with schema_registry() as registry:
        schema = captured_messages["schema"]
        number = registry.add(schema, schemaType=captured_messages["schemaType"])
        registry.guids[captured_messages["guid"]] = number
        topic = new_topic(kafka_broker)
        produce(
            kafka_broker, topic, [(b"k", value)] * 2, headers=[(captured_messages["header"], head)]
        )
        produce(kafka_broker, topic, [(b"k", struct.pack(">BI", 0, number) + head[17:] + value)])
        produce(kafka_broker, topic, [(b"k", None)], headers=[(captured_messages["header"], head)])
        unknown = b"\1" + uuid.uuid4().bytes
        produce(
            kafka_broker, topic, [(b"k", value)], headers=[(captured_messages["header"], unknown)]
        )
        options = {"schema.registry.url": registry.url, "schema.id.headers": "confluent"}
        batch = messages_of(kafka_broker, topic, 5, format=name, format_options=options)
        decoder = a_format("id BIGINT, name STRING", name=name, options=options)
        decoded_batch = decoder.decode(batch)
    assert [row[2:] for row in rows_of(decoded_batch)] == [(7, "seven")] * 3
    reason = "names a schema by a GUID that the schema registry does not have"
    assert reasons_of(decoded_batch)[4] == reason
    # The quarantine gets the header before the message, so that a replay knows it.
    assert decoded_batch.bad_records.column("value")[-1].as_py() == unknown + value


@pytest.mark.kafka
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(2, "globalId"), (3, "contentId")])
def test_rows_of_apicurios_headers(
    kafka_broker: EmbeddedBroker, apicurio: Apicurio, version: int, kind: str
) -> None:
    subject = f"s{uuid.uuid4().hex}"
    apicurio.add(f"{subject}-again", ORDER)
    apicurio.add(subject, ORDER)
    number = struct.pack(">Q", apicurio.numbers(subject, 1)[kind])
    body = confluent_message(1, ORDER, {"id": 7})[5:]
    topic = new_topic(kafka_broker)
    headers = [(f"apicurio.value.{kind}", number), ("apicurio.value.encoding", b"BINARY")]
    produce(kafka_broker, topic, [(b"k", body)], headers=headers)
    url = f"{apicurio.server}/apis/registry/v{version}"
    options = {"schema.registry.url": url, "schema.id.headers": "apicurio"}
    batch = messages_of(kafka_broker, topic, 1, format="avro", format_options=options)
    assert [
        row[2] for row in rows_of(a_format("id BIGINT", name="avro", options=options).decode(batch))
    ] == [7]


def test_headers_need_the_native_reader() -> None:
    options = {"schema.registry.url": "http://r:1", "schema.id.headers": "apicurio"}
    source = SourceConfig(format="avro", format_options=options, reader=TopicReader.SPARK)
    assert not needs_sparks_source(source)
    with pytest.raises(UsageError, match=r"Apicurio's messages of Protobuf"):
        a_format("id BIGINT", name="protobuf", options=options)
