"""Presents several clusters as one, whose topics have the names ``CLUSTER/TOPIC``.

`range_reader` reads through `open_client`, and the stream plans epochs with `JoinedOffsetClient`. A
job of one cluster uses that cluster's client directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from stream_app.arrow_buffers import Int64s
from stream_app.errors import WrongSourceError
from stream_app.kafka.librdkafka import KafkaClient
from stream_app.kafka.offset_client import OffsetClient, OffsetEnd
from stream_app.model.job_epoch import Offsets
from stream_app.model.source.topic_name import cluster_and_name, in_cluster

ClientSettings = tuple[tuple[str, str], ...]
"""librdkafka's options and their values; they may hold passwords."""


def unknown_cluster_error(topic: str) -> WrongSourceError:
    """Return the error of a topic of a cluster that the configuration does not name."""
    cluster, _ = cluster_and_name(topic)
    return WrongSourceError(
        f"the configuration names no cluster {cluster!r}",
        where=f"topic {topic}",
        fix=f"set [source.clusters.{cluster}] as when the topic was read",
    )


@dataclass(slots=True)
class JoinedKafkaClient:
    """A client of several clusters, with the methods of `KafkaClient` that read.

    Attributes:
        clusters: the settings of each cluster, of which the first has an empty name.
    """

    clusters: Mapping[str, ClientSettings] = field(repr=False)
    _clients: dict[str, KafkaClient] = field(init=False, default_factory=dict)

    def start(self, topic: str, partition: int, offset: int) -> None:
        """See `KafkaClient.start`."""
        client, name = self._client_of(topic)
        client.start(name, partition, offset)

    def stop(self, topic: str, partition: int) -> None:
        """See `KafkaClient.stop`."""
        client, name = self._client_of(topic)
        client.stop(name, partition)

    def consume(self, topic: str, partition: int, pointers: Int64s, *, wait_ms: int) -> int:
        """See `KafkaClient.consume`."""
        client, name = self._client_of(topic)
        return client.consume(name, partition, pointers, wait_ms=wait_ms)

    def release(self, pointers: list[int]) -> None:
        """Release the messages by any client, because each releases any message."""
        next(iter(self._clients.values())).release(pointers)

    def known_start(self, topic: str, partition: int) -> int:
        """See `KafkaClient.known_start`."""
        client, name = self._client_of(topic)
        return client.known_start(name, partition)

    def watermarks(self, topic: str, partition: int, *, timeout_ms: int) -> tuple[int, int] | int:
        """See `KafkaClient.watermarks`."""
        client, name = self._client_of(topic)
        return client.watermarks(name, partition, timeout_ms=timeout_ms)

    def take_errors(self) -> Iterator[tuple[int, str]]:
        """Yield the errors of the clients of all clusters."""
        for client in self._clients.values():
            yield from client.take_errors()

    def text(self, code: int) -> str:
        """Return the text by any client, because all have the same codes."""
        return next(iter(self._clients.values())).text(code)

    def close(self) -> None:
        """Close the clients of all clusters."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _client_of(self, topic: str) -> tuple[KafkaClient, str]:
        """Return the client of a topic's cluster, made once, and the topic's name there."""
        cluster, name = cluster_and_name(topic)
        if cluster not in self._clients:
            if cluster not in self.clusters:
                raise unknown_cluster_error(topic)
            self._clients[cluster] = KafkaClient(dict(self.clusters[cluster]))
        return self._clients[cluster], name


def open_client(
    client_settings: ClientSettings, clusters: Iterable[tuple[str, ClientSettings]]
) -> KafkaClient | JoinedKafkaClient:
    """Return a client of one cluster, or of several.

    Args:
        clusters: names of further clusters, and their settings.
    """
    all_clusters = {"": client_settings, **dict(clusters)}
    return (
        JoinedKafkaClient(all_clusters)
        if len(all_clusters) > 1
        else KafkaClient(dict(client_settings))
    )


@dataclass(frozen=True, slots=True)
class JoinedOffsetClient:
    """A client that asks several clusters for offsets. It waits while one of them cannot answer.

    Attributes:
        clients: a client of each of the job's clusters; the first cluster has an empty name.
    """

    clients: Mapping[str, OffsetClient]

    def offsets_at(self, end: OffsetEnd) -> Offsets:
        """Return the offsets in all clusters; the names of topics contain the cluster."""
        return {
            in_cluster(cluster, topic): topic_offsets
            for cluster, client in self.clients.items()
            for topic, topic_offsets in client.offsets_at(end).items()
        }

    def give_up(self) -> None:
        """Give up in all clusters."""
        for client in self.clients.values():
            client.give_up()

    def close(self) -> None:
        """Close the clients of all clusters."""
        for client in self.clients.values():
            client.close()
