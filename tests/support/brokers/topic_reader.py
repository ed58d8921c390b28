"""Calls both readers of Kafka by one function, for tests that demand the same of them.

A `Reader` takes ranges, and returns the messages in these ranges.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.kafka.client_options import client_options
from stream_app.kafka.librdkafka import load_librdkafka
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.kafka.range_reader import ReaderSettings, reader_of_process
from stream_app.spark.stream.kafka_source import CLIENT_DEFAULTS

TIMEOUT_S = 6.0
TAIL_TIMEOUT_S = 1.0


class Reader(Protocol):
    """A reader of ranges, of which each partition has at most one."""

    def __call__(
        self,
        bootstrap: str,
        ranges: Sequence[OffsetRange],
        *,
        fails_on_loss: bool = True,
        options: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """Return the messages, by topic, partition and offset; `options` are Java's."""
        ...


def settings_for(
    bootstrap: str,
    *,
    fails_on_loss: bool = True,
    options: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> ReaderSettings:
    """Return settings of the native reader, with times for tests."""
    client = client_options(bootstrap, options or {}, load_librdkafka().features)
    assert not client.problems
    return ReaderSettings(
        client_settings=tuple(sorted(client.options.items())),
        fails_on_loss=fails_on_loss,
        timeout_s=timeout_s,
        tail_timeout_s=TAIL_TIMEOUT_S,
    )


def read_natively(
    bootstrap: str,
    ranges: Sequence[OffsetRange],
    *,
    fails_on_loss: bool = True,
    options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Read by the native reader, as `Reader` demands."""
    settings = settings_for(bootstrap, fails_on_loss=fails_on_loss, options=options)
    batches = list(reader_of_process(settings).read(ranges))
    for batch in batches:
        batch.validate(full=True)
        assert batch.num_rows
    return _in_order(pa.Table.from_batches(batches, MESSAGE_SCHEMA))


def reads_by_spark(spark: SparkSession) -> Reader:
    """Return Spark's reader in a session."""

    def read(
        bootstrap: str,
        ranges: Sequence[OffsetRange],
        *,
        fails_on_loss: bool = True,
        options: Mapping[str, str] | None = None,
    ) -> pa.Table:
        starts: dict[str, dict[str, int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for offsets in ranges:
            starts.setdefault(offsets.topic, {})[str(offsets.partition)] = offsets.start
            ends.setdefault(offsets.topic, {})[str(offsets.partition)] = offsets.end
        reader = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", ",".join(starts))
            .option("startingOffsets", json.dumps(starts))
            .option("endingOffsets", json.dumps(ends))
            .option("failOnDataLoss", str(fails_on_loss).lower())
            .option("kafkaConsumer.pollTimeoutMs", str(int(TIMEOUT_S * 1000)))
        )
        for key, value in {**CLIENT_DEFAULTS, **(options or {})}.items():
            reader = reader.option(f"kafka.{key}", value)
        messages = reader.load().select(*MESSAGE_SCHEMA.names).toArrow()
        return _in_order(messages.cast(MESSAGE_SCHEMA))

    return read


def _in_order(messages: pa.Table) -> pa.Table:
    return messages.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
