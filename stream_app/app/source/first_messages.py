"""Reads a few messages of each topic when a job starts.

The sample is optional: if the broker is slow, the job starts without it.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Mapping, Sequence
from operator import itemgetter

import pyarrow as pa

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.source.broker_connection import TopicInfo
from stream_app.app.source.likely_format import is_read_by, likely_format
from stream_app.app.source.source_connection import SourceConnection
from stream_app.app.source.topic_messages import sampled_messages
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.message_format import Notice
from stream_app.errors import StreamAppError
from stream_app.kafka.offset_ranges import OffsetRange, PartitionOffsets

_LOG = logging.getLogger(__name__)
_TIMEOUT_S = 5.0
_MESSAGES_MAX = 20
"""The number of messages that are read from each end of a Kafka partition."""
_PARTITIONS_MAX = 4
"""The number of partitions that are sampled in each topic."""
_ORDER = [("partition", "ascending"), ("offset", "ascending")]


def in_one_table(messages: Mapping[str, pa.RecordBatch]) -> pa.Table:
    """Return the messages of all topics in one table of `MESSAGE_SCHEMA`."""
    return pa.Table.from_batches(messages.values(), MESSAGE_SCHEMA)


def sample_messages(
    source_config: SourceConfig, topics: Mapping[str, TopicInfo]
) -> Mapping[str, pa.RecordBatch]:
    """Read a few messages of each topic: topic → messages; empty if the broker is slow.

    The function warns if the messages seem to have another format than the configured one.
    """
    try:
        messages = messages_at_both_ends(source_config, topics)
    except StreamAppError as error:
        _LOG.warning("the first messages are not checked: %s", error.problem)
        return {}
    if (notice := format_notice(source_config.format, list(messages.values()))) is not None:
        log_notice(notice)
    return messages


def format_notice(format_name: str, messages: Sequence[pa.RecordBatch]) -> Notice | None:
    """Return a notice if messages seem to have another format than the chosen one; else None."""
    values = [
        value for batch in messages for value in batch.column("value").drop_null().to_pylist()
    ]
    likely_name = likely_format(values)
    if likely_name is None or likely_name == format_name or is_read_by(likely_name, format_name):
        return None
    return Notice(
        problem=f"the messages look like those of the format {likely_name!r}, and {format_name!r} "
        "is configured",
        where="source.format",
        fix=f'set source.format = "{likely_name}", if the topic has this format',
    )


def log_notice(notice: Notice) -> None:
    """Log a notice with its remedy."""
    _LOG.warning("%s\n  where: %s\n  to fix: %s", notice.problem, notice.where, notice.fix)


def messages_at_both_ends(
    source_config: SourceConfig, topics: Mapping[str, TopicInfo]
) -> dict[str, pa.RecordBatch]:
    """Return topic → a few messages from the beginnings and ends of its partitions.

    It stops at a deadline, with the messages that have arrived.

    Raises:
        SourceError: the broker does not respond, or no message arrives in time.
        UsageError: only Spark can read the topics.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    with SourceConnection(source_config) as connection:
        starts, ends = connection.start_offsets(topics), connection.end_offsets(topics)
    batches_by_topic: dict[str, list[pa.RecordBatch]] = {}
    for batch in sampled_messages(source_config, _both_ends(starts, ends)):
        batches_by_topic.setdefault(batch.column("topic")[0].as_py(), []).append(batch)
        if time.monotonic() > deadline:
            break
    return {
        topic: pa.Table.from_batches(batches).combine_chunks().sort_by(_ORDER).to_batches()[0]
        for topic, batches in sorted(batches_by_topic.items())
    }


def _both_ends(starts: PartitionOffsets, ends: PartitionOffsets) -> list[OffsetRange]:
    """Return ranges at the beginnings, then at the ends, of some partitions of each topic.

    Empty partitions are left out.
    """
    filled_partitions = sorted(
        kafka_partition for kafka_partition, end in ends.items() if end > starts[kafka_partition]
    )
    kafka_partitions = [
        kafka_partition
        for _, of_topic in itertools.groupby(filled_partitions, key=itemgetter(0))
        for kafka_partition in itertools.islice(of_topic, _PARTITIONS_MAX)
    ]
    middles = {
        kafka_partition: min(starts[kafka_partition] + _MESSAGES_MAX, ends[kafka_partition])
        for kafka_partition in kafka_partitions
    }
    last_starts = {
        kafka_partition: max(middles[kafka_partition], ends[kafka_partition] - _MESSAGES_MAX)
        for kafka_partition in kafka_partitions
    }
    return [
        *(
            OffsetRange(*kafka_partition, starts[kafka_partition], middles[kafka_partition])
            for kafka_partition in kafka_partitions
        ),
        *(
            OffsetRange(*kafka_partition, last_starts[kafka_partition], ends[kafka_partition])
            for kafka_partition in kafka_partitions
        ),
    ]
