"""Calls librdkafka's C interface, as far as planning and reading offset ranges needs it.

`range_reader`, `message_columns`, `message_stamps` and `offset_client` use it. The library is the
one in confluent-kafka. Its Python classes are not used, because a Python object for each
message costs more than all of librdkafka's work (docs/performance/decoding.md). All functions are
in the public header, whose binary interface is stable within a major version.

A client starts threads, which a fork does not copy. So create it in the process that uses it.

Source: librdkafka `rdkafka.h`; a partition is read by its simple consumer, which joins no group.
"""

from __future__ import annotations

import ctypes as c
from collections import deque
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cache
from itertools import repeat
from typing import Any

import numpy as np

from stream_app.arrow_buffers import Int64s
from stream_app.errors import UsageError, WrongSourceError

_CONSUMER = 1
_EVENT_ERROR = 0x8
_CONF_OK = 0
_ERROR_TEXT_SIZE = 512
_FEATURES_SIZE = 4096
SEE_BROKERS = (
    "check that the brokers run and that this host reaches the addresses that they advertise "
    "(advertised.listeners)"
)
_POINTER, _TEXT, _INT = c.c_void_p, c.c_char_p, c.c_int
_OUT = c.POINTER(c.c_int64)
_Calls = Mapping[str, tuple[Any, ...]]
_WAITING_CALLS: _Calls = {
    "conf_new": (_POINTER,),
    "conf_destroy": (None, _POINTER),
    "conf_set": (_INT, _POINTER, _TEXT, _TEXT, _TEXT, c.c_size_t),
    "conf_get": (_INT, _POINTER, _TEXT, _TEXT, c.POINTER(c.c_size_t)),
    "conf_set_events": (None, _POINTER, _INT),
    "new": (_POINTER, _INT, _POINTER, _TEXT, c.c_size_t),
    "destroy": (None, _POINTER),
    "conf_enable_sasl_queue": (None, _POINTER, _INT),
    "sasl_background_callbacks_enable": (_POINTER, _POINTER),
    "topic_new": (_POINTER, _POINTER, _TEXT, _POINTER),
    "topic_destroy": (None, _POINTER),
    "consume_start": (_INT, _POINTER, c.c_int32, c.c_int64),
    "consume_stop": (_INT, _POINTER, c.c_int32),
    "consume_batch": (c.c_ssize_t, _POINTER, c.c_int32, _INT, _POINTER, c.c_size_t),
    "query_watermark_offsets": (_INT, _POINTER, _TEXT, c.c_int32, _OUT, _OUT, _INT),
    "metadata": (_INT, _POINTER, _INT, _POINTER, _POINTER, _INT),
    "offsets_for_times": (_INT, _POINTER, _POINTER, _INT),
    "queue_get_main": (_POINTER, _POINTER),
    "queue_destroy": (None, _POINTER),
    "queue_poll": (_POINTER, _POINTER, _INT),
}
"""Functions that may wait: name → the types of the result and of the arguments."""
_SHORT_CALLS: _Calls = {
    "get_watermark_offsets": (_INT, _POINTER, _TEXT, c.c_int32, _OUT, _OUT),
    "metadata_destroy": (None, _POINTER),
    "topic_partition_list_new": (_POINTER, _INT),
    "topic_partition_list_add": (_POINTER, _POINTER, _TEXT, c.c_int32),
    "topic_partition_list_destroy": (None, _POINTER),
    "message_headers": (_INT, _POINTER, _POINTER),
    "header_get_last": (_INT, _POINTER, _TEXT, _POINTER, _POINTER),
    "message_timestamp": (c.c_int64, _POINTER, _POINTER),
    "message_destroy": (None, _POINTER),
    "event_error": (_INT, _POINTER),
    "event_error_string": (_TEXT, _POINTER),
    "event_destroy": (None, _POINTER),
    "last_error": (_INT,),
    "err2str": (_TEXT, _INT),
}
"""Functions that return at once, in the same form."""


class KafkaCode(IntEnum):
    """The codes of librdkafka and of Kafka that the reader judges; others are reported as text."""

    PARTITION_EOF = -191
    UNKNOWN_PARTITION = -190
    UNKNOWN_TOPIC = -188
    SSL = -181
    AUTHENTICATION = -169
    AUTO_OFFSET_RESET = -140
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PART = 3
    LEADER_NOT_AVAILABLE = 5
    TOPIC_AUTHORIZATION_FAILED = 29
    UNKNOWN_TOPIC_ID = 100


LOGIN_CODES = {KafkaCode.AUTHENTICATION, KafkaCode.SSL}
GONE_CODES = {
    KafkaCode.UNKNOWN_TOPIC,
    KafkaCode.UNKNOWN_PARTITION,
    KafkaCode.UNKNOWN_TOPIC_OR_PART,
    KafkaCode.UNKNOWN_TOPIC_ID,
}
"""The codes of a partition that no broker knows."""


def refused_login_error(text: str, where: str, hosts_text: str) -> WrongSourceError:
    """Return the error of a client that cannot log in from these hosts."""
    return WrongSourceError(
        f"Kafka's client cannot log in: {text}",
        where=where,
        fix="check security.protocol, sasl.mechanism, sasl.jaas.config and ssl.* of source.kafka, "
        f"and the files that they name, on the {hosts_text}",
    )


def forbidden_read_error(topic: str, text: str, where: str) -> WrongSourceError:
    """Return the error of a user without the right to read."""
    return WrongSourceError(
        f"the user may not read the topic {topic} ({text})",
        where=where,
        fix="grant the user Read and Describe on the topic",
    )


class Message(c.Structure):
    """``rd_kafka_message_t``. With an error, `payload` is its text."""

    _fields_ = (
        ("err", c.c_int32),
        ("topic", c.c_void_p),
        ("partition", c.c_int32),
        ("payload", c.c_void_p),
        ("len", c.c_size_t),
        ("key", c.c_void_p),
        ("key_len", c.c_size_t),
        ("offset", c.c_int64),
        ("_private", c.c_void_p),
    )


class LibraryMissingError(Exception):
    """confluent-kafka is not installed, or its library lacks a function."""


class Library:
    """The library's functions, with their types.

    Raises:
        LibraryMissingError: the library is not installed.
    """

    def __init__(self) -> None:
        try:
            from confluent_kafka import cimpl  # noqa: PLC0415

            # A symbol lookup includes the libraries that this one needs.
            self._unlocked = c.CDLL(cimpl.__file__)  # releases the interpreter's lock
            self._locked = c.PyDLL(cimpl.__file__)  # keeps it, for short calls
            self._declare()
        except (ImportError, OSError, AttributeError) as error:
            raise LibraryMissingError(str(error)) from error
        if c.sizeof(c.c_void_p) != c.sizeof(c.c_int64):
            raise LibraryMissingError("this Python has 32-bit addresses; 64 are needed")

    def _declare(self) -> None:
        for functions, calls in ((self._unlocked, _WAITING_CALLS), (self._locked, _SHORT_CALLS)):
            for name, (result, *arguments) in calls.items():
                function = getattr(functions, f"rd_kafka_{name}")
                function.restype = result
                function.argtypes = arguments
                setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # lets mypy accept the declared functions

    @property
    def features(self) -> frozenset[str]:
        """The features of this build of the library, such as ``sasl_gssapi``."""
        configuration = self.conf_new()
        text = c.create_string_buffer(_FEATURES_SIZE)
        size = c.c_size_t(_FEATURES_SIZE)
        self.conf_get(configuration, b"builtin.features", text, c.byref(size))
        self.conf_destroy(configuration)
        return frozenset(text.value.decode().split(","))

    def timestamps(self, pointers: Int64s) -> Int64s:
        """Return the milliseconds since 1970 of each message, int64 [messages]; -1 without a time.

        This takes a call for each message; `message_stamps` needs only a few calls.
        """
        stamps = map(self.message_timestamp, pointers.tolist(), repeat(None))
        return np.fromiter(stamps, np.int64, len(pointers))

    def new_configuration(self, options: Mapping[str, str]) -> int:
        """Make a configuration with these options, which `new` or `conf_destroy` then owns.

        Raises:
            UsageError: the library does not know an option, or its value.
        """
        configuration: int = self.conf_new()
        text = c.create_string_buffer(_ERROR_TEXT_SIZE)
        for key, value in options.items():
            arguments = key.encode(), value.encode(), text, _ERROR_TEXT_SIZE
            if self.conf_set(configuration, *arguments) != _CONF_OK:
                self.conf_destroy(configuration)
                raise UsageError(
                    f"Kafka's client cannot be set up: {text.value.decode()}",
                    where=f"source.kafka, as librdkafka's option {key}",
                    fix="correct the value, or set source.reader = 'spark'",
                )
        return configuration


@cache
def load_librdkafka() -> Library:
    """Return the library, loaded once for this process and its forks."""
    return Library()


class KafkaClient:
    """A client of one cluster, with its requested topics.

    Args:
        options: the options of librdkafka.

    Raises:
        UsageError: the library refuses the options, or is missing.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        try:
            self._library = load_librdkafka()
        except LibraryMissingError as error:
            raise UsageError(
                f"librdkafka of confluent-kafka cannot be used: {error}",
                where="source.reader",
                fix="install confluent-kafka on the executors as on the driver, or set "
                "source.reader = 'spark'",
            ) from None
        configuration = self._library.new_configuration(options)
        self._library.conf_set_events(configuration, _EVENT_ERROR)
        self._library.conf_enable_sasl_queue(configuration, 1)
        text = c.create_string_buffer(_ERROR_TEXT_SIZE)
        self._client: int | None = self._library.new(
            _CONSUMER, configuration, text, _ERROR_TEXT_SIZE
        )
        if self._client is None:
            self._library.conf_destroy(configuration)
            raise UsageError(
                f"Kafka's client cannot be set up: {text.value.decode()}",
                where="source.kafka",
                fix="correct the named option of [source.kafka], or set source.reader = 'spark'",
            )
        # Renews tokens in the background, even while no task reads.
        self._library.sasl_background_callbacks_enable(self._client)
        self._events = self._library.queue_get_main(self._client)
        self._topics: dict[str, int] = {}
        self._stopped_partitions: deque[tuple[str, int]] = deque()

    @property
    def handle(self) -> int | None:
        """The client's C handle, for other functions of the library, or None if it is closed."""
        return self._client

    def add_topic(self, topic: str) -> None:
        """Add the topic to those whose metadata the client requests from brokers."""
        if topic not in self._topics:
            self._topics[topic] = self._library.topic_new(self._client, topic.encode(), None)

    def start(self, topic: str, partition: int, offset: int) -> None:
        """Prefetch from `offset` on."""
        self.add_topic(topic)
        if (topic, partition) in self._stopped_partitions:
            self._stopped_partitions.remove((topic, partition))
        if self._library.consume_start(self._topics[topic], partition, offset) != 0:
            code = self._library.last_error()
            raise RuntimeError(f"{topic}/{partition} cannot be started: {self.text(code)}")

    def stop(self, topic: str, partition: int) -> None:
        """Stop fetching, and drop the fetched messages."""
        self._library.consume_stop(self._topics[topic], partition)
        self._stopped_partitions.append((topic, partition))
        # The library frees outdated messages when it is asked for more. The newest partition waits
        # for the next stop, because a reply of the broker may still be on its way.
        while len(self._stopped_partitions) > 1:
            self._drop_outdated_messages(*self._stopped_partitions.popleft())

    def _drop_outdated_messages(self, topic: str, partition: int) -> None:
        pointers: Int64s = np.empty(1, np.int64)
        self.release(pointers[: self.consume(topic, partition, pointers, wait_ms=0)].tolist())

    def consume(self, topic: str, partition: int, pointers: Int64s, *, wait_ms: int) -> int:
        """Put addresses of messages into `pointers` until it is full or the time is over.

        Returns:
            The number of messages. The caller returns each by `release`.
        """
        count: int = self._library.consume_batch(
            self._topics[topic], partition, wait_ms, pointers.ctypes.data, len(pointers)
        )
        return max(count, 0)

    def release(self, pointers: list[int]) -> None:
        """Return messages to the library, which frees their memory."""
        deque(map(self._library.message_destroy, pointers), maxlen=0)

    def known_start(self, topic: str, partition: int) -> int:
        """Return the oldest offset according to the newest fetch; negative if it is unknown."""
        start, end = c.c_int64(), c.c_int64()
        name = topic.encode()
        ends = c.byref(start), c.byref(end)
        self._library.get_watermark_offsets(self._client, name, partition, *ends)
        return start.value

    def watermarks(self, topic: str, partition: int, *, timeout_ms: int) -> tuple[int, int] | int:
        """Ask the broker for the oldest offset and the one after the newest; or return an error."""
        start, end = c.c_int64(), c.c_int64()
        code: int = self._library.query_watermark_offsets(
            self._client, topic.encode(), partition, c.byref(start), c.byref(end), timeout_ms
        )
        return code or (start.value, end.value)

    def take_errors(self) -> Iterable[tuple[int, str]]:
        """Yield codes and texts of broker errors since the last call."""
        while event := self._library.queue_poll(self._events, 0):
            code = self._library.event_error(event)
            text = self._library.event_error_string(event)
            sentence = text.decode(errors="replace") if text else self.text(code)
            self._library.event_destroy(event)
            yield code, sentence

    def text(self, code: int) -> str:
        """Return the text of a code."""
        encoded_text: bytes = self._library.err2str(code)
        return encoded_text.decode()

    def close(self) -> None:
        """End the client's threads and connections; all partitions must have been stopped."""
        if self._client is None:
            return
        for topic in self._topics.values():
            self._library.topic_destroy(topic)
        self._topics.clear()
        self._library.queue_destroy(self._events)
        self._library.destroy(self._client)
        self._client = None
