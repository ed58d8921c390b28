"""Queries the clusters of a job's source for topics and offsets, under the job's topic names.

Most jobs have one cluster. With several, the job's name of a topic includes its cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from operator import itemgetter
from typing import Self, TypeVar

from stream_app.app.config.source_clusters import Cluster
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.source.bootstrap_servers import BROKER_TIMEOUT_S, reachable_servers
from stream_app.app.source.broker_connection import (
    BrokerConnection,
    TopicInfo,
    uncheckable_settings,
)
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.job_epoch import Offsets
from stream_app.model.source.topic_name import cluster_and_name, in_cluster

_Request = TypeVar("_Request")
_Value = TypeVar("_Value")
_ByPartition = dict[KafkaPartition, int]


def unaskable_settings(source_config: SourceConfig) -> list[str]:
    """Return the Kafka settings that prevent queries; see `uncheckable_settings`."""
    reasons = (
        uncheckable_settings(cluster.kafka_options) for cluster in source_config.kafka_clusters
    )
    return [reason for cluster_reasons in reasons for reason in cluster_reasons]


def check_reachable(source_config: SourceConfig) -> None:
    """Check that a broker of each cluster accepts connections.

    Raises:
        SourceError: no broker of a cluster accepts one.
    """
    for cluster in source_config.kafka_clusters:
        reachable_servers(cluster.bootstrap_servers, section=cluster.section)


class SourceConnection:
    """A connection to each cluster of a source. Close it after use.

    Args:
        timeout_s: the timeout of connecting to a cluster, and of each request.

    Raises:
        SourceError: no broker of a cluster responds.
    """

    def __init__(self, source_config: SourceConfig, *, timeout_s: float = BROKER_TIMEOUT_S) -> None:
        self._clusters: dict[str, tuple[Cluster, BrokerConnection]] = {}
        with ExitStack() as connections:
            for cluster in source_config.kafka_clusters:
                connection = connections.enter_context(
                    BrokerConnection(
                        cluster.bootstrap_servers,
                        cluster.kafka_options,
                        timeout_s=timeout_s,
                        section=cluster.section,
                    )
                )
                self._clusters[cluster.name] = cluster, connection
            self._connections = connections.pop_all()

    def topics(self) -> dict[str, TopicInfo]:
        """Return topic → its metadata, for the topics of all clusters."""
        return {
            in_cluster(name, topic): info
            for name, (cluster, connection) in self._clusters.items()
            for topic, info in connection.topics(
                cluster.topics, pattern=cluster.topic_pattern
            ).items()
        }

    def start_offsets(self, topics: Mapping[str, TopicInfo]) -> _ByPartition:
        """Return (topic, partition) → the offset of its oldest record."""
        return self._of_topics(topics, BrokerConnection.start_offsets)

    def end_offsets(self, topics: Mapping[str, TopicInfo]) -> _ByPartition:
        """Return (topic, partition) → its end offset, which excludes open transactions."""
        return self._of_topics(topics, BrokerConnection.end_offsets)

    def newest_times(self, topics: Mapping[str, TopicInfo]) -> _ByPartition:
        """Return (topic, partition) → the latest time of a record, for partitions with records."""
        return self._of_topics(topics, BrokerConnection.newest_times)

    def offsets_since(self, times: Mapping[KafkaPartition, int]) -> _ByPartition:
        """Return the offset of each partition's first record at or after a time.

        A partition without such a record is left out.

        Args:
            times: (topic, partition) → milliseconds since 1970.
        """
        times_by_cluster = _by_cluster(times, itemgetter(0))
        return self._query(
            {
                cluster: {
                    _in_own_cluster(kafka_partition): times[kafka_partition]
                    for kafka_partition in cluster_partitions
                }
                for cluster, cluster_partitions in times_by_cluster.items()
            },
            BrokerConnection.offsets_since,
        )

    def group_offsets(
        self, group_id: str, kafka_partitions: Collection[KafkaPartition]
    ) -> _ByPartition:
        """Return the offsets that a consumer group has committed for these partitions.

        The group has the same name in all clusters.
        """
        partitions_by_cluster = _by_cluster(kafka_partitions, itemgetter(0))
        return self._query(
            {
                cluster: list(map(_in_own_cluster, cluster_partitions))
                for cluster, cluster_partitions in partitions_by_cluster.items()
            },
            lambda connection, partitions: connection.group_offsets(group_id, partitions),
        )

    def commit_group(self, group_id: str, offsets: Offsets) -> None:
        """Commit offsets for a consumer group, in the cluster of each topic.

        Offsets of a cluster that the source does not have are ignored.
        """
        offsets_by_cluster = _by_cluster(offsets, str)
        for cluster in offsets_by_cluster.keys() & self._clusters.keys():
            topics = offsets_by_cluster[cluster]
            cluster_offsets = {cluster_and_name(topic)[1]: offsets[topic] for topic in topics}
            self._clusters[cluster][1].commit_group(group_id, cluster_offsets)

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _of_topics(
        self,
        topics: Mapping[str, TopicInfo],
        ask: Callable[[BrokerConnection, Mapping[str, TopicInfo]], _ByPartition],
    ) -> _ByPartition:
        topics_by_cluster = _by_cluster(topics, str)
        return self._query(
            {
                cluster: {cluster_and_name(topic)[1]: topics[topic] for topic in cluster_topics}
                for cluster, cluster_topics in topics_by_cluster.items()
            },
            ask,
        )

    def _query(
        self,
        requests: Mapping[str, _Request],
        ask: Callable[[BrokerConnection, _Request], _ByPartition],
    ) -> _ByPartition:
        """Query each cluster with its request; return the results under the job's topic names."""
        return {
            (in_cluster(cluster, topic), partition_number): value
            for cluster, request in requests.items()
            for (topic, partition_number), value in ask(self._clusters[cluster][1], request).items()
        }


def _by_cluster(
    values: Iterable[_Value], topic_of: Callable[[_Value], str]
) -> dict[str, list[_Value]]:
    values_by_cluster: dict[str, list[_Value]] = {}
    for value in values:
        values_by_cluster.setdefault(cluster_and_name(topic_of(value))[0], []).append(value)
    return values_by_cluster


def _in_own_cluster(kafka_partition: KafkaPartition) -> KafkaPartition:
    """Return a partition under the topic's name in its own cluster."""
    topic, partition_number = kafka_partition
    return cluster_and_name(topic)[1], partition_number
