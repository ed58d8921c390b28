"""Asks a cluster for the oldest and the newest offsets of its topics.

The driver plans epochs by the answers. Two requests suffice for any number of partitions: one for
the topics' metadata, and one to each leader for offsets. Ends follow the client's isolation level:
for committed messages only, a partition ends before its oldest open transaction.

Source: librdkafka `rdkafka.h`; Kafka's ListOffsets request, in which times below 0 are ends.
"""

from __future__ import annotations

import ctypes as c
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

from stream_app.clock import Clock, SystemClock
from stream_app.errors import SourceError
from stream_app.kafka.librdkafka import (
    GONE_CODES,
    LOGIN_CODES,
    SEE_BROKERS,
    KafkaClient,
    KafkaCode,
    Library,
    forbidden_read_error,
    load_librdkafka,
    refused_login_error,
)
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.job_epoch import Offsets

_ANSWER_MS = 5_000
_PAUSE_S = 0.2
_TRANSIENT_CODES = {KafkaCode.LEADER_NOT_AVAILABLE, *GONE_CODES}
"""Codes that a starting broker, or a topic in creation, returns for a while."""
_INTERNAL_TOPICS = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
"""Kafka's own topics. No pattern chooses them."""
GONE_AFTER_S = 10.0
"""Seconds after which a named topic that no broker knows counts as deleted."""


class OffsetEnd(IntEnum):
    """The requested end of a partition, as the time in a request."""

    OLDEST = -2
    NEWEST = -1


class _Partition(c.Structure):
    """``rd_kafka_metadata_partition_t``."""

    _fields_ = (
        ("id", c.c_int32),
        ("err", c.c_int),
        ("leader", c.c_int32),
        ("replica_cnt", c.c_int),
        ("replicas", c.c_void_p),
        ("isr_cnt", c.c_int),
        ("isrs", c.c_void_p),
    )


class _Topic(c.Structure):
    """``rd_kafka_metadata_topic_t``."""

    _fields_ = (
        ("topic", c.c_char_p),
        ("partition_cnt", c.c_int),
        ("partitions", c.POINTER(_Partition)),
        ("err", c.c_int),
    )


class _ClusterMetadata(c.Structure):
    """``rd_kafka_metadata_t``."""

    _fields_ = (
        ("broker_cnt", c.c_int),
        ("brokers", c.c_void_p),
        ("topic_cnt", c.c_int),
        ("topics", c.POINTER(_Topic)),
        ("orig_broker_id", c.c_int32),
        ("orig_broker_name", c.c_char_p),
    )


class _ListedPartition(c.Structure):
    """``rd_kafka_topic_partition_t``."""

    _fields_ = (
        ("topic", c.c_char_p),
        ("partition", c.c_int32),
        ("offset", c.c_int64),
        ("metadata", c.c_void_p),
        ("metadata_size", c.c_size_t),
        ("opaque", c.c_void_p),
        ("err", c.c_int),
        ("_private", c.c_void_p),
    )


class _PartitionList(c.Structure):
    """``rd_kafka_topic_partition_list_t``."""

    _fields_ = (("cnt", c.c_int), ("size", c.c_int), ("elems", c.POINTER(_ListedPartition)))


class _NoAnswerError(Exception):
    """The cluster cannot answer for now; the text has the reason."""


@dataclass(slots=True)
class OffsetClient:
    """A client that asks a cluster for the oldest or newest offsets of some topics; for one thread.

    Attributes:
        options: the options of librdkafka, which may hold passwords.
        topics: the topics' names; empty if `pattern` selects them.
        pattern: a regular expression of Python for whole names; Kafka's own topics never match.
        timeout_s: the seconds without an answer after which `offsets_at` fails.
    """

    options: Mapping[str, str] = field(repr=False)
    topics: Sequence[str] = ()
    pattern: str | None = None
    timeout_s: float = 120.0
    clock: Clock = field(default_factory=SystemClock)
    _client: KafkaClient | None = field(init=False, default=None, repr=False)
    _has_answered: bool = field(init=False, default=False)
    _gone_topics: set[str] = field(init=False, default_factory=set)
    _has_given_up: threading.Event = field(init=False, default_factory=threading.Event)

    def offsets_at(self, end: OffsetEnd) -> Offsets:
        """Return the oldest or the newest offset of each partition of the topics.

        It waits while brokers cannot answer. The result lacks a topic that stays unknown.

        Raises:
            SourceError: no broker answers.
            WrongSourceError: the login or the right to read is missing.
        """
        start_s = self.clock.steady_seconds()
        error_text = ""
        while True:
            waited_s = self.clock.steady_seconds() - start_s
            try:
                ends = self._fetch(end, accepts_gone=waited_s > GONE_AFTER_S)
            except _NoAnswerError as error:
                error_text = str(error)
            else:
                self._has_answered = True
                return ends
            error_text = self._newest_error() or error_text
            if waited_s > self.timeout_s or self._has_given_up.is_set():
                raise SourceError(
                    f"Kafka has reported no offsets for {waited_s:.0f} s; the last error was: "
                    f"{error_text}",
                    where=self._where,
                    fix=SEE_BROKERS,
                )
            self.clock.sleep(_PAUSE_S)

    def give_up(self) -> None:
        """Make a waiting `offsets_at` raise its error; any thread may call it."""
        self._has_given_up.set()

    def close(self) -> None:
        """Close connections and threads."""
        if self._client is not None:
            self._client.close()
            self._client = None

    @property
    def _where(self) -> str:
        return f"topics like {self.pattern}" if self.pattern else f"topics {', '.join(self.topics)}"

    def _open_client(self) -> KafkaClient:
        if self._client is None:
            self._client = KafkaClient(self.options)
            for topic in self.topics:
                self._client.add_topic(topic)
        return self._client

    def _fetch(self, end: OffsetEnd, *, accepts_gone: bool) -> Offsets:
        client = self._open_client()
        partitions = list[KafkaPartition]()
        with _metadata(client, has_all=self.pattern is not None) as entries:
            for entry in entries:
                topic = entry.topic.decode()
                if self._is_wanted(topic):
                    partitions += self._list_partitions(
                        client, topic, entry, accepts_gone=accepts_gone
                    )
        return self._ends(client, partitions, end)

    def _is_wanted(self, topic: str) -> bool:
        if self.pattern is None:
            return topic in self.topics
        return topic not in _INTERNAL_TOPICS and re.fullmatch(self.pattern, topic) is not None

    def _list_partitions(
        self, client: KafkaClient, topic: str, entry: _Topic, *, accepts_gone: bool
    ) -> Iterable[KafkaPartition]:
        if entry.err == KafkaCode.TOPIC_AUTHORIZATION_FAILED:
            raise forbidden_read_error(topic, client.text(entry.err), f"topic {topic}")
        if entry.err in _TRANSIENT_CODES and (accepts_gone or topic in self._gone_topics):
            self._gone_topics.add(topic)  # the next requests do not wait for it
            return ()
        if entry.err:
            raise _NoAnswerError(f"{topic}: {client.text(entry.err)}")
        self._gone_topics.discard(topic)
        return [(topic, entry.partitions[index].id) for index in range(entry.partition_cnt)]

    def _ends(
        self, client: KafkaClient, partitions: Sequence[KafkaPartition], end: OffsetEnd
    ) -> Offsets:
        """Return the offsets at one end of partitions.

        Raises:
            _NoAnswerError: the cluster lacks the answer for a partition.
        """
        offsets: dict[str, dict[str, int]] = {}
        if not partitions:
            return offsets
        with _partition_list(load_librdkafka(), partitions, end) as partition_list:
            code = load_librdkafka().offsets_for_times(client.handle, partition_list, _ANSWER_MS)
            if code:
                raise _NoAnswerError(client.text(code))
            answer = c.cast(partition_list, c.POINTER(_PartitionList)).contents
            for index in range(answer.cnt):
                element = answer.elems[index]
                topic = element.topic.decode()
                if element.err == KafkaCode.TOPIC_AUTHORIZATION_FAILED:
                    raise forbidden_read_error(topic, client.text(element.err), f"topic {topic}")
                if element.err or element.offset < 0:
                    raise _NoAnswerError(f"{topic}/{element.partition}: {client.text(element.err)}")
                offsets.setdefault(topic, {})[str(element.partition)] = element.offset
        return offsets

    def _newest_error(self) -> str:
        """Return the newest error that the client's own threads have met; empty without one."""
        newest_text = ""
        for code, text in self._open_client().take_errors():
            newest_text = text
            if code in LOGIN_CODES and not self._has_answered:
                raise refused_login_error(text, self._where, "driver")
        return newest_text


@contextmanager
def _metadata(client: KafkaClient, *, has_all: bool) -> Iterator[Sequence[_Topic]]:
    """Fetch the metadata of all topics of the cluster, or of the topics that the client knows."""
    answer = c.c_void_p()
    code = load_librdkafka().metadata(
        client.handle, int(has_all), None, c.byref(answer), _ANSWER_MS
    )
    if code:
        raise _NoAnswerError(client.text(code))
    try:
        metadata = c.cast(answer, c.POINTER(_ClusterMetadata)).contents
        yield [metadata.topics[index] for index in range(metadata.topic_cnt)]
    finally:
        load_librdkafka().metadata_destroy(answer)


@contextmanager
def _partition_list(
    functions: Library, partitions: Sequence[KafkaPartition], end: OffsetEnd
) -> Iterator[int]:
    """Make a C list of the partitions; each has the requested end in the field of its offset."""
    partition_list = functions.topic_partition_list_new(len(partitions))
    try:
        for topic, partition in partitions:
            added_entry = functions.topic_partition_list_add(
                partition_list, topic.encode(), partition
            )
            c.cast(added_entry, c.POINTER(_ListedPartition)).contents.offset = end
        yield partition_list
    finally:
        functions.topic_partition_list_destroy(partition_list)
