"""A connection to Kafka's brokers that requests metadata of topics, offsets and groups.

Spark and librdkafka retry an unreachable broker for minutes. This client fails within seconds, and
reports the reason. It never reads records.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import IsolationLevel, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NoError,
    NotCoordinatorError,
)
from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp

from stream_app.app.source.bootstrap_servers import BROKER_TIMEOUT_S, reachable_servers
from stream_app.clock import Clock, SystemClock
from stream_app.errors import SourceError, WrongSourceError
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.kafka.security_options import security_options
from stream_app.model.first_texts import first_texts
from stream_app.model.job_epoch import Offsets
from stream_app.model.near_names import nearest_names

_NEAR_TOPICS_MAX = 5
_SHOWN_NAMES_MAX = 10
_TOPIC_ERRORS = {3: "does not exist", 29: "may not be read by this user (Describe is not allowed)"}
_SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PYTHON_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
"""librdkafka's names of settings → kafka-python's names."""
_NOT_FROM_FILES = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.keystore.location")
_NEW_TOPIC_WAITS_S = (0.2, 0.5, 1.0, 2.0)
_COORDINATOR_WAITS_S = (0.2, 0.5, 1.0, 2.0, 4.0)
_COORDINATOR_ERRORS = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)
_RECONNECT_BACKOFF_MAX_MS = 1000
"""The longest pause between two attempts, because the client tries random servers.

With its default of 30 s, one dead server could use up all the time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """The broker's metadata of a topic; `topic_id` is None on brokers before 2.8."""

    topic_id: str | None
    partition_count: int


def uncheckable_settings(kafka_options: Mapping[str, str]) -> list[str]:
    """Return the settings of Java's client that this Python client lacks.

    The job can run with such settings, so the caller warns and skips its check of the topics.
    """
    security = security_options(kafka_options)
    reasons = [f"{key}: {problem}" for key, problem in security.problems.items()]
    mechanism = security.options.get("sasl.mechanism")
    if mechanism is not None and mechanism not in _SASL_MECHANISMS:
        reasons.append(f"sasl.mechanism = {mechanism}: only {', '.join(_SASL_MECHANISMS)}")
    reasons += [
        f"{key}: certificates are read from PEM files only (ssl.*.location)"
        for key in _NOT_FROM_FILES
        if key in security.options
    ]
    return reasons


def client_settings(kafka_options: Mapping[str, str]) -> dict[str, Any]:
    """Return Java's security settings under kafka-python's names, without other settings."""
    options = security_options(kafka_options).options
    settings: dict[str, Any] = {
        name: options[key] for key, name in _PYTHON_NAMES.items() if key in options
    }
    if "security_protocol" in settings:
        settings["security_protocol"] = settings["security_protocol"].upper()
    if options.get("ssl.endpoint.identification.algorithm") == "none":
        settings["ssl_check_hostname"] = False
    return settings


class BrokerConnection:
    """A connection to the brokers of one cluster. Close it after use.

    Args:
        bootstrap_servers: ``host:port``, separated by commas.
        timeout_s: the timeout of connecting, and of each request.
        clock: the clock for timeouts; None is the machine's.
        section: the section of the configuration that names the cluster.

    Raises:
        SourceError: no broker responds.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_options: Mapping[str, str],
        *,
        timeout_s: float = BROKER_TIMEOUT_S,
        clock: Clock | None = None,
        section: str = "source",
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._section = section
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        deadline = self._clock.steady_seconds() + timeout_s
        servers = reachable_servers(bootstrap_servers, timeout_s, self._clock, section)
        remaining_ms = max(1000, int((deadline - self._clock.steady_seconds()) * 1000))
        try:
            self._client = KafkaAdminClient(
                bootstrap_servers=servers,
                bootstrap_timeout_ms=remaining_ms,
                request_timeout_ms=int(timeout_s * 1000),
                reconnect_backoff_max_ms=_RECONNECT_BACKOFF_MAX_MS,
                **client_settings(kafka_options),
            )
        except (KafkaError, OSError, ValueError, AssertionError) as error:
            protocol = kafka_options.get("security.protocol", "PLAINTEXT")
            raise SourceError(
                f"{bootstrap_servers} accepts connections but does not answer as a Kafka broker "
                f"({error})",
                where=f"{section}.bootstrap-servers",
                fix=f"see that this is Kafka's port, that its listener speaks {section}.kafka."
                f'"security.protocol" = "{protocol}", and that user and password are right',
            ) from error

    def topics(
        self, names: Sequence[str] = (), *, pattern: str | None = None
    ) -> dict[str, TopicInfo]:
        """Return the metadata of the named topics, or of those that match the pattern.

        Raises:
            WrongSourceError: a topic is missing, or no topic matches.
        """
        if pattern is not None:
            existing_names = self._topic_names()
            names = [name for name in existing_names if re.fullmatch(pattern, name)]
            if not names:
                raise WrongSourceError(
                    f"no topic at {self._bootstrap_servers} matches {pattern!r}",
                    where=f"{self._section}.topic-pattern",
                    fix=f"correct the pattern; topics there: {_name_list(existing_names)}",
                )
        for wait_s in (*_NEW_TOPIC_WAITS_S, None):
            descriptions = self._ask(lambda: self._client.describe_topics(list(names)))
            topics = {topic["name"]: topic for topic in descriptions if not topic["error_code"]}
            absent_names = set(names) - topics.keys()
            if not absent_names or wait_s is None or absent_names.isdisjoint(self._topic_names()):
                break
            self._clock.sleep(wait_s)  # a topic in creation is listed before it has metadata
        if absent_names:
            raise self._missing_topics_error(
                {
                    topic["name"]: topic["error_code"]
                    for topic in descriptions
                    if topic["error_code"]
                }
            )
        return {
            name: TopicInfo(
                topic_id=str(topic["topic_id"]) if topic.get("topic_id") else None,
                partition_count=len(topic["partitions"]),
            )
            for name, topic in sorted(topics.items())
        }

    def start_offsets(self, topics: Mapping[str, TopicInfo]) -> dict[KafkaPartition, int]:
        """Return (topic, partition) → the offset of its oldest record."""
        return self._offsets(topics, OffsetSpec.EARLIEST)

    def end_offsets(self, topics: Mapping[str, TopicInfo]) -> dict[KafkaPartition, int]:
        """Return (topic, partition) → its end offset, which excludes open transactions."""
        return self._offsets(topics, OffsetSpec.LATEST)

    def newest_times(self, topics: Mapping[str, TopicInfo]) -> dict[KafkaPartition, int]:
        """Return (topic, partition) → the latest time of a record, for partitions with records.

        Times are milliseconds since 1970, of the producer or the broker, depending on the topic's
        settings.
        """
        newest_messages = self._offsets_by(topics, OffsetSpec.MAX_TIMESTAMP)
        return {
            (key.topic, key.partition): place.timestamp
            for key, place in newest_messages.items()
            if place.timestamp > 0
        }

    def offsets_since(self, times: Mapping[KafkaPartition, int]) -> dict[KafkaPartition, int]:
        """Return the offset of each partition's first record at or after a time.

        A partition without such a record is left out.

        Args:
            times: (topic, partition) → milliseconds since 1970.
        """
        first_places = self._list_offsets(
            {TopicPartition(*kafka_partition): time for kafka_partition, time in times.items()}
        )
        return {
            (key.topic, key.partition): place.offset
            for key, place in first_places.items()
            if place.offset >= 0
        }

    def group_offsets(
        self, group_id: str, kafka_partitions: Collection[KafkaPartition]
    ) -> dict[KafkaPartition, int]:
        """Return the offsets that a consumer group has committed for these partitions.

        Partitions without a committed offset are left out.
        """
        partitions_of = {
            group_id: [TopicPartition(*kafka_partition) for kafka_partition in kafka_partitions]
        }
        places_of = self._ask_coordinator(lambda: self._client.list_group_offsets(partitions_of))
        return {
            (key.topic, key.partition): place.offset
            for key, place in places_of.get(group_id, {}).items()
            if place.offset >= 0
        }

    def commit_group(self, group_id: str, offsets: Offsets) -> None:
        """Commit offsets for a consumer group that has no members.

        Raises:
            SourceError: the broker does not respond, or refuses the offsets.
        """
        metadata = {
            TopicPartition(topic, int(partition_number)): OffsetAndMetadata(offset, "", -1)
            for topic, topic_offsets in offsets.items()
            for partition_number, offset in topic_offsets.items()
        }
        errors = self._ask_coordinator(lambda: self._client.alter_group_offsets(group_id, metadata))
        refusals = sorted({error.__name__ for error in errors.values() if error is not NoError})
        if refusals:
            raise SourceError(
                f"group {group_id!r} does not take the job's offsets: {', '.join(refusals)}",
                where="source.group-id",
                fix="stop the consumers that are members of the group, or give the job a group "
                "of its own that its user may write",
            )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> BrokerConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _offsets(
        self, topics: Mapping[str, TopicInfo], spec: OffsetSpec | int
    ) -> dict[KafkaPartition, int]:
        places = self._offsets_by(topics, spec)
        return {(key.topic, key.partition): place.offset for key, place in places.items()}

    def _offsets_by(
        self, topics: Mapping[str, TopicInfo], spec: OffsetSpec | int
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return self._list_offsets(
            {
                TopicPartition(name, partition_number): spec
                for name, topic in topics.items()
                for partition_number in range(topic.partition_count)
            }
        )

    def _list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec | int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        places: dict[TopicPartition, OffsetAndTimestamp] = self._ask(
            lambda: self._client.list_partition_offsets(
                specs, IsolationLevel.READ_COMMITTED, timeout_ms=int(self._timeout_s * 1000)
            )
        )
        return places

    def _topic_names(self) -> list[str]:
        descriptions = self._ask(lambda: self._client.describe_topics(None))
        return sorted(topic["name"] for topic in descriptions if not topic["is_internal"])

    def _ask_coordinator(self, request: Callable[[], Any]) -> Any:
        """Ask the group's coordinator, and retry while a new cluster is still choosing it."""
        for wait_s in _COORDINATOR_WAITS_S:
            with contextlib.suppress(*_COORDINATOR_ERRORS):
                return request()
            self._clock.sleep(wait_s)
        return self._ask(request)

    def _ask(self, request: Callable[[], Any]) -> Any:
        try:
            return request()
        except (KafkaError, OSError) as error:
            raise SourceError(
                f"{self._bootstrap_servers} does not answer any more ({error})",
                where=f"{self._section}.bootstrap-servers",
                fix="see that the broker runs, and that the address it advertises "
                "(advertised.listeners) can be reached from here",
            ) from error

    def _missing_topics_error(self, codes: Mapping[str, int]) -> WrongSourceError:
        existing_names = self._topic_names()
        text = "; ".join(
            f"topic {name!r} {_TOPIC_ERRORS.get(code, f'cannot be read (Kafka error {code})')}"
            for name, code in sorted(codes.items())
        )
        near_names = {
            match
            for name in codes
            for match in nearest_names(name, existing_names, _NEAR_TOPICS_MAX)
        }
        return WrongSourceError(
            f"{text} at {self._bootstrap_servers}",
            where=f"{self._section}.topics",
            fix=f"did you mean {_name_list(sorted(near_names))}? or create the topic"
            if near_names
            else f"create the topic first; topics there: {_name_list(existing_names)}",
        )


def _name_list(names: Sequence[str]) -> str:
    return first_texts(names, _SHOWN_NAMES_MAX) or "none"
