"""Reads messages of a source's topics outside of the job, with the reader of the job's tasks.

`check`, `backfill` and replays read whole topics; the start of a job and `doctor` read a few
messages. The reader supports all of Kafka's codecs, transactions and logins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.source.kafka_reader import reader_without_spark
from stream_app.app.source.source_connection import SourceConnection, check_reachable
from stream_app.kafka.offset_ranges import KafkaPartition, OffsetRange
from stream_app.kafka.range_reader import RangeReader
from stream_app.kafka.several_clusters import ClientSettings
from stream_app.table.check.metadata_check import Progress

_SAMPLE_OPTIONS = {
    "max.partition.fetch.bytes": str(256 << 10),
    "queued.max.messages.kbytes": "512",
    "queued.min.messages": "100",
}
"""The client's options for a sample, which would drop most of what a larger fetch returns."""
_SAMPLE_AHEAD = 64
_SAMPLE_TIMEOUT_S = 5.0
Ends = Mapping[KafkaPartition, int]


class LostOffsets(Protocol):
    """The offsets that a reader wants and that the topics do not have."""

    def add_gap(self, kafka_partition: KafkaPartition, start: int) -> None:
        """Record that the topic has deleted the messages before `start`."""
        ...

    def add_early_end(self, kafka_partition: KafkaPartition, newest_offset: int, end: int) -> None:
        """Record that a recreated topic ends at `newest_offset`, before the reader's `end`."""
        ...


@contextmanager
def open_topic_reader(source_config: SourceConfig) -> Iterator[RangeReader]:
    """Open a reader of offset ranges, and close it after the block.

    Raises:
        SourceError: no broker accepts a connection.
        UsageError: only Spark can read the topics.
    """
    settings = reader_without_spark(source_config)
    check_reachable(source_config)
    reader = RangeReader(settings)
    try:
        yield reader
    finally:
        reader.close()


def sampled_messages(
    source_config: SourceConfig,
    ranges: Sequence[OffsetRange],
    *,
    timeout_s: float = _SAMPLE_TIMEOUT_S,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of many short ranges, except those that the topics have deleted.

    Args:
        timeout_s: the timeout of the first messages, and of each further batch.

    Raises:
        SourceError: the messages do not arrive.
        UsageError: only Spark can read the topics.
    """
    settings = reader_without_spark(source_config)
    reader = RangeReader(
        replace(
            settings,
            client_settings=_sampling_client(settings.client_settings),
            clusters=tuple((name, _sampling_client(client)) for name, client in settings.clusters),
            fails_on_loss=False,
            ranges_at_once=_SAMPLE_AHEAD,
            timeout_s=timeout_s,
        )
    )
    try:
        yield from reader.read(ranges)
    finally:
        reader.close()


def _sampling_client(client: ClientSettings) -> ClientSettings:
    return tuple(sorted({**dict(client), **_SAMPLE_OPTIONS}.items()))


def topic_messages(
    source_config: SourceConfig,
    readers: Sequence[tuple[Ends, LostOffsets]],
    progress: Progress,
    since_ms: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the topics' messages, each once, in batches of one partition, up to the furthest end.

    Args:
        readers: the end offsets of each reader, and its record of lost offsets.
        since_ms: the time of the oldest messages, in ms since 1970; None reads from the beginning.

    Raises:
        SourceError: the broker does not respond.
        UsageError: only Spark can read the topics.
    """
    with open_topic_reader(source_config) as reader:
        ranges = _ranges(source_config, reader, readers, since_ms)
        unread_ranges = {
            (offset_range.topic, offset_range.partition): offset_range for offset_range in ranges
        }
        message_count = remaining_count = sum(offset_range.size for offset_range in ranges)
        for batch in reader.read(ranges):
            offset_range = unread_ranges[_partition_of(batch)]
            yield batch
            next_offset = batch.column("offset")[-1].as_py() + 1
            remaining_count -= next_offset - offset_range.start
            unread_ranges[_partition_of(batch)] = replace(offset_range, start=next_offset)
            progress("offsets", message_count - remaining_count, message_count)
        progress("offsets", message_count, message_count)


def _partition_of(batch: pa.RecordBatch) -> KafkaPartition:
    return batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()


def _ranges(
    source_config: SourceConfig,
    reader: RangeReader,
    readers: Sequence[tuple[Ends, LostOffsets]],
    since_ms: int | None,
) -> list[OffsetRange]:
    """Return the range to read of each partition, and record lost offsets for each reader."""
    furthest_ends: dict[KafkaPartition, int] = {}
    for ends, _ in readers:
        for kafka_partition, end in ends.items():
            furthest_ends[kafka_partition] = max(end, furthest_ends.get(kafka_partition, 0))
    bounds = {
        kafka_partition: reader.offset_bounds(*kafka_partition) for kafka_partition in furthest_ends
    }
    for ends, lost_offsets in readers:
        for kafka_partition, end in ends.items():
            oldest_offset, newest_offset = bounds[kafka_partition]
            if oldest_offset and since_ms is None:
                lost_offsets.add_gap(kafka_partition, oldest_offset)
            if newest_offset < end:
                lost_offsets.add_early_end(kafka_partition, newest_offset, end)
    first_offsets = {
        kafka_partition: oldest_offset for kafka_partition, (oldest_offset, _) in bounds.items()
    }
    if since_ms is not None:
        # A partition without a message at or after that time has no such offset.
        newest_offsets = {
            kafka_partition: newest_offset for kafka_partition, (_, newest_offset) in bounds.items()
        }
        times = dict.fromkeys(furthest_ends, since_ms)
        with SourceConnection(source_config) as connection:
            first_offsets = newest_offsets | connection.offsets_since(times)
    end_offsets = {
        kafka_partition: min(end, bounds[kafka_partition][1])
        for kafka_partition, end in furthest_ends.items()
    }
    return [
        OffsetRange(*kafka_partition, min(first_offsets[kafka_partition], end), end)
        for kafka_partition, end in sorted(end_offsets.items())
    ]
