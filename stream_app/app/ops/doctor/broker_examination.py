"""Checks a job's broker: whether it responds, the rights to describe and read topics, its clock.

It reads the newest record of each topic, and checks the record's format. It commits no offsets and
needs no consumer group.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.ops.doctor.observation import (
    Observation,
    clock_observations,
    good_observation,
    problem_observation,
    warning_observation,
)
from stream_app.app.source.broker_connection import TopicInfo
from stream_app.app.source.first_messages import format_notice
from stream_app.app.source.source_connection import SourceConnection, unaskable_settings
from stream_app.app.source.topic_messages import sampled_messages
from stream_app.clock import Clock
from stream_app.errors import SourceError, StreamAppError, WrongSourceError
from stream_app.kafka.offset_ranges import OffsetRange, PartitionOffsets
from stream_app.model.first_texts import first_texts

_NAMES_MAX = 5


@dataclass(slots=True)
class BrokerExamination:
    """Facts from the broker, which the doctor compares with the checkpoint.

    Attributes:
        topics: the job's topics; empty until the broker has described them.
        starts: partition → the offset of its oldest record.
        timeout_s: the timeout of connecting, and of each request.
    """

    source_config: SourceConfig
    clock: Clock
    timeout_s: float
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    starts: PartitionOffsets = field(default_factory=dict)

    def observations(self) -> Iterator[Observation]:
        """Yield all observations of the broker, or none if the source is a folder.

        Raises:
            SourceError: no broker responds, or a topic is missing or may not be described.
        """
        source_config = self.source_config
        if source_config.kind is not SourceKind.KAFKA:
            return
        if settings := unaskable_settings(source_config):
            text = f"not asked, because of {', '.join(settings)}"
            yield warning_observation("broker", text, "start the job, and read its log")
            return
        with SourceConnection(source_config, timeout_s=self.timeout_s) as connection:
            self.topics = connection.topics()
            ends = connection.end_offsets(self.topics)
            self.starts = connection.start_offsets(self.topics)
            times: PartitionOffsets = {}
            with contextlib.suppress(SourceError):  # brokers before 3.0 do not report them
                times = connection.newest_times(self.topics)
        message_count = sum(
            ends[kafka_partition] - self.starts.get(kafka_partition, 0) for kafka_partition in ends
        )
        servers_text = "; ".join(
            cluster.bootstrap_servers for cluster in source_config.kafka_clusters
        )
        yield good_observation(
            "broker",
            f"{servers_text}: {len(self.topics)} topics, {len(ends)} partitions, "
            f"about {message_count:,} messages",
        )
        yield from self._read_rights(ends)
        if times:
            newest_time_ms = max(times.values())
            owner = "the newest message"
            yield from clock_observations(
                "broker", owner, newest_time_ms, self.clock, may_be_behind=True
            )

    def _read_rights(self, ends: PartitionOffsets) -> Iterator[Observation]:
        """Read the newest record from each topic's partition with the highest end offset."""
        ranges = [
            OffsetRange(
                topic,
                partition_number,
                max(self.starts.get((topic, partition_number), 0), end - 1),
                end,
            )
            for (topic, partition_number), end in ends.items()
            if partition_number == self._fullest_partition(topic, ends)
        ]
        try:
            batches = self._read(ranges)
        except WrongSourceError as error:
            if names := self._denied_topics(ranges):
                yield problem_observation(
                    "broker",
                    f"{_name_list(names)} may not be read by this user (Read is not allowed)",
                    "allow Read on these topics for the user of source.kafka",
                )
            else:
                yield problem_observation("broker", error.problem, error.fix)
        except StreamAppError as error:
            yield problem_observation(
                "broker", f"no record can be fetched ({error.problem})", error.fix
            )
        else:
            yield good_observation("broker", "the topics may be described and read")
            if (notice := format_notice(self.source_config.format, batches)) is not None:
                yield warning_observation("broker", notice.problem, notice.fix)

    def _fullest_partition(self, topic: str, ends: PartitionOffsets) -> int:
        return max(
            range(self.topics[topic].partition_count),
            key=lambda partition_number: ends.get((topic, partition_number), 0),
        )

    def _denied_topics(self, ranges: Sequence[OffsetRange]) -> list[str]:
        """Return the topics from which not even one record can be read."""
        names = []
        for record_range in ranges:
            try:
                self._read([record_range])
            except WrongSourceError:
                names.append(record_range.topic)
        return sorted(names)

    def _read(self, ranges: Sequence[OffsetRange]) -> Sequence[pa.RecordBatch]:
        return list(sampled_messages(self.source_config, ranges))


def _name_list(names: list[str]) -> str:
    return f"topic {first_texts(names, _NAMES_MAX)}"
