"""Reads a few messages of each topic at start, and reports early what will fail with them.

`ingest_job` calls it before it creates the table, because a primary key cannot be changed later.
The check is optional: when the broker is slow, the job starts without it.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from stream_app.app.check.source_replay import batch_of
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.job.preflight import TopicInfo, client_settings
from stream_app.cdc.change_batch import MESSAGE_SCHEMA, TableTraits
from stream_app.cdc.formats import format_named
from stream_app.cdc.message_format import FormatSetup, Notice, SourceSurvey
from stream_app.errors import UsageError
from stream_app.spark.ingest.source_table_check import SHARDS_REMEDY, distinct_tables, verdict_on

_LOG = logging.getLogger("stream_app")
_TIMEOUT_S = 5.0
_MESSAGES = 20
"""Number read from each end of a Kafka partition."""
_PARTITIONS_MAX = 4
"""Partitions sampled in each topic."""
_FETCH_BYTES = 256 << 10
_Range = tuple[int, int]


def check_first_messages(
    source: SourceConfig, setup: FormatSetup, topics: Mapping[str, TopicInfo], *, reads_them: bool
) -> None:
    """Check the messages at both ends of each topic.

    Args:
        setup: of the format, for the existing or future table.
        reads_them: whether the job is certain to read these messages.

    Raises:
        UsageError: the job reads them, and they belong to several source tables, or one of them
            would stop it.
    """
    survey = format_named(source.format).survey(setup, messages_at_both_ends(source, topics))
    for notice in (*_several_tables(survey, setup.traits), *survey.notices()):
        if reads_them and notice.stops:
            raise UsageError(notice.what, where=notice.where, fix=notice.fix)
        _LOG.warning("%s\n  where: %s\n  to fix: %s", notice.what, notice.where, notice.fix)


def _several_tables(survey: SourceSurvey, traits: TableTraits) -> Iterator[Notice]:
    records = survey.tables()
    verdict = verdict_on({}, records)
    if not verdict.others or traits.merges_shards:
        return
    by_topic: dict[str, list[str]] = defaultdict(list)
    for topic, name in records:
        by_topic[topic].append(name)
    tables = distinct_tables(by_topic)
    told = ", ".join(f"{name} (in {topic})" for name, topic in tables.items())
    yield Notice(
        what=f"the topics tell of {len(tables)} tables of the source: {told}",
        where="source.topics",
        fix=SHARDS_REMEDY,
        stops=verdict.is_refused,
    )


def first_messages_of_all(source: SourceConfig, topics: Mapping[str, TopicInfo]) -> pa.Table:
    """A few messages of each topic, of `MESSAGE_SCHEMA`; none when the broker is slow."""
    found = messages_at_both_ends(source, topics)
    return pa.Table.from_batches(found.values(), MESSAGE_SCHEMA)


def messages_at_both_ends(
    source: SourceConfig, topics: Mapping[str, TopicInfo]
) -> dict[str, pa.RecordBatch]:
    """A few messages of each topic, by topic; none when the broker does not answer in time."""
    deadline = time.monotonic() + _TIMEOUT_S
    consumer = None
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=source.bootstrap_servers.split(","),
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_partition_fetch_bytes=_FETCH_BYTES,
            request_timeout_ms=int(_TIMEOUT_S * 1000),
            **client_settings(source.kafka_options),
        )
        places = [
            TopicPartition(name, number)
            for name, topic in topics.items()
            for number in range(topic.partitions)
        ]
        begins, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        chosen = _chosen(places, begins, ends)
        records = [
            record
            for ranges in (
                {at: (begins[at], min(begins[at] + _MESSAGES, ends[at])) for at in chosen},
                {at: (max(begins[at], ends[at] - _MESSAGES), ends[at]) for at in chosen},
            )
            for record in _read(consumer, ranges, deadline)
        ]
    except (KafkaError, OSError, ValueError, AssertionError) as error:
        _LOG.info("no messages are looked at beforehand: %s", error)
        return {}
    finally:
        if consumer is not None:
            consumer.close()
    unique = {(each.topic, each.partition, each.offset): each for each in records}
    by_topic = itertools.groupby(
        (unique[place] for place in sorted(unique)), key=lambda record: record.topic
    )
    return {topic: batch_of(list(found)) for topic, found in by_topic}


def _chosen(
    places: Sequence[TopicPartition],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[TopicPartition]:
    """Partitions with messages, some of each topic."""
    filled = (place for place in places if ends[place] > begins[place])
    return [
        place
        for _, of_topic in itertools.groupby(filled, key=lambda place: place.topic)
        for place in itertools.islice(of_topic, _PARTITIONS_MAX)
    ]


def _read(
    consumer: KafkaConsumer, ranges: Mapping[TopicPartition, _Range], deadline: float
) -> list[Any]:
    """The records of each range that arrive in time."""
    consumer.assign(list(ranges))
    for place, (begin, _) in ranges.items():
        consumer.seek(place, begin)
    found = []
    left = set(ranges)
    while left and time.monotonic() < deadline:
        # A partition that was paused gives nothing after a seek: later records are dropped here.
        for place, records in consumer.poll(timeout_ms=500).items():
            found += [record for record in records if record.offset < ranges[place][1]]
        left = {place for place in left if consumer.position(place) < ranges[place][1]}
    return found
