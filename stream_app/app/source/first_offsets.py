"""Finds the offsets at which a new job begins, from a time or from a consumer group.

`source_reader` calls it for a new checkpoint. So readers always get offsets, whatever the
configuration has.

Source: Kafka's ListOffsets and OffsetFetch requests; Flink `OffsetsInitializer` for partitions that
have no such message or no committed offset.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.source.source_connection import SourceConnection, unaskable_settings
from stream_app.errors import UsageError, WrongSourceError
from stream_app.kafka.next_offsets import offsets_text
from stream_app.kafka.offset_ranges import KafkaPartition

_LOG = logging.getLogger(__name__)
_BY_TIMES = "source.starting-offsets-by-timestamp"


def read_first_offsets(source_config: SourceConfig) -> str:
    """Return the value of ``source.starting-offsets``: a word, or offsets as JSON.

    A partition without a message at or after the time begins at its end. A partition without a
    committed offset of the group begins at `starting_offsets`.

    Raises:
        SourceError: the broker does not respond.
        UsageError: the Python client lacks a setting of `source.kafka_options`.
        WrongSourceError: the times do not match the topics and partitions.
    """
    if not (source_config.begins_at_times or source_config.begins_at_group):
        return source_config.starting_offsets
    check_client(source_config)
    with SourceConnection(source_config) as connection:
        topics = connection.topics()
        # Read the ends first: a message that arrives meanwhile must not be before the job's
        # beginning.
        offsets = connection.end_offsets(topics)
        if source_config.begins_at_times:
            offsets |= connection.offsets_since(_times(source_config, offsets))
        else:
            if source_config.starting_offsets == "earliest":
                offsets = connection.start_offsets(topics)
            group_id = source_config.group_id or ""
            committed_offsets = connection.group_offsets(group_id, offsets)
            offsets |= committed_offsets
            if len(committed_offsets) < len(offsets):
                _LOG.info(
                    "group %s has no offset for %d of %d partitions, which begin at the %s message",
                    group_id, len(offsets) - len(committed_offsets), len(offsets),
                    source_config.starting_offsets,
                )  # fmt: skip
    offsets_by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition_number), offset in offsets.items():
        offsets_by_topic.setdefault(topic, {})[str(partition_number)] = offset
    text = offsets_text(offsets_by_topic)
    _LOG.info("the job begins at the offsets %s", text)
    return text


def check_client(source_config: SourceConfig) -> None:
    """Check that the Python client can request offsets by time and by group.

    Raises:
        UsageError: the Python client lacks a setting of `source.kafka_options`.
    """
    if reasons := unaskable_settings(source_config):
        raise UsageError(
            "the Python client cannot ask the broker for offsets by time or group, because of "
            f"{', '.join(reasons)}",
            where="source.kafka",
            fix="leave out source.group-id and times, and give offsets as JSON in "
            "source.starting-offsets",
        )


def _times(
    source_config: SourceConfig, kafka_partitions: Collection[KafkaPartition]
) -> dict[KafkaPartition, int]:
    """Return partition → the time at which the job begins, in milliseconds since 1970."""
    if source_config.starting_timestamp is not None:
        return dict.fromkeys(kafka_partitions, source_config.starting_timestamp)
    configured_times = source_config.starting_offsets_by_timestamp or {}
    times: dict[KafkaPartition, int] = {}
    for topic, partition_number in kafka_partitions:
        topic_times = configured_times.get(topic)
        time = (
            topic_times.get(str(partition_number))
            if isinstance(topic_times, Mapping)
            else topic_times
        )
        if time is not None:
            times[topic, partition_number] = time
    without_time = sorted(set(kafka_partitions) - set(times))
    problems = [
        f"{topic}/{partition_number} has no time" for topic, partition_number in without_time
    ]
    unknown_names = _configured_names(configured_times) - _existing_names(kafka_partitions)
    problems += [f"{name} does not exist" for name in unknown_names]
    if problems:
        raise WrongSourceError(
            f"the times do not fit the topics: {', '.join(sorted(problems))}",
            where=_BY_TIMES,
            fix="name each topic once, with a time or with a time for each of its partitions",
        )
    return times


def _configured_names(configured_times: Mapping[str, int | Mapping[str, int]]) -> set[str]:
    """Return ``TOPIC`` or ``TOPIC/PARTITION`` for each time that the configuration gives."""
    return {
        f"{topic}/{partition_number}" if partition_number else topic
        for topic, times in configured_times.items()
        for partition_number in (times if isinstance(times, Mapping) else ("",))
    }


def _existing_names(kafka_partitions: Collection[KafkaPartition]) -> set[str]:
    names = {f"{topic}/{partition_number}" for topic, partition_number in kafka_partitions}
    return names | {topic for topic, _ in kafka_partitions}
