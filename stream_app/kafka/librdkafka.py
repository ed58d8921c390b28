"""The part of librdkafka's C interface that planning and reading ranges of offsets needs.

Used by `range_reader`, `message_columns` and `cluster_offsets`. The library is the one in
confluent-kafka. Its Python classes are not used: an object of each message costs more than all of
librdkafka's own work (see docs/performance.md). All functions are in the public header, whose
binary interface is stable within a major version.

A client starts threads, which a fork does not copy: make it in the process that uses it.

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
import numpy.typing as npt

from stream_app.errors import UsageError

Int64s = npt.NDArray[np.int64]

_CONSUMER = 1
_EVENT_ERROR = 0x8
_CONF_OK = 0
_TEXT_BYTES = 512
_FEATURES_BYTES = 4096


class KafkaCode(IntEnum):
    """The codes of librdkafka and of Kafka that the reader judges; others are reported as text."""

    PARTITION_EOF = -191
    UNKNOWN_PARTITION = -190
    UNKNOWN_TOPIC = -188
    TIMED_OUT = -185
    SSL = -181
    AUTHENTICATION = -169
    AUTO_OFFSET_RESET = -140
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PART = 3
    LEADER_NOT_AVAILABLE = 5
    TOPIC_AUTHORIZATION_FAILED = 29
    UNKNOWN_TOPIC_ID = 100


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
            self._free = c.CDLL(cimpl.__file__)  # releases the interpreter's lock
            self._held = c.PyDLL(cimpl.__file__)  # keeps it, for short calls
            self._declare()
        except (ImportError, OSError, AttributeError) as error:
            raise LibraryMissingError(str(error)) from error
        if c.sizeof(c.c_void_p) != c.sizeof(c.c_int64):
            raise LibraryMissingError("addresses have 64 bits only")

    def _declare(self) -> None:
        pointer, text, int32, int64 = c.c_void_p, c.c_char_p, c.c_int32, c.c_int64
        out = c.POINTER(int64)
        free, held = self._free, self._held
        self.conf_new = _function(free, "conf_new", pointer)
        self.conf_destroy = _function(free, "conf_destroy", None, pointer)
        self.conf_set = _function(free, "conf_set", c.c_int, pointer, text, text, text, c.c_size_t)
        self.conf_get = _function(
            free, "conf_get", c.c_int, pointer, text, text, c.POINTER(c.c_size_t)
        )
        self.conf_set_events = _function(free, "conf_set_events", None, pointer, c.c_int)
        self.new = _function(free, "new", pointer, c.c_int, pointer, text, c.c_size_t)
        self.destroy = _function(free, "destroy", None, pointer)
        self.conf_enable_sasl_queue = _function(
            free, "conf_enable_sasl_queue", None, pointer, c.c_int
        )
        self.sasl_background_callbacks_enable = _function(
            free, "sasl_background_callbacks_enable", pointer, pointer
        )
        self.topic_new = _function(free, "topic_new", pointer, pointer, text, pointer)
        self.topic_destroy = _function(free, "topic_destroy", None, pointer)
        self.consume_start = _function(free, "consume_start", c.c_int, pointer, int32, int64)
        self.consume_stop = _function(free, "consume_stop", c.c_int, pointer, int32)
        self.consume_batch = _function(
            free, "consume_batch", c.c_ssize_t, pointer, int32, c.c_int, pointer, c.c_size_t
        )
        self.query_watermarks = _function(
            free, "query_watermark_offsets", c.c_int, pointer, text, int32, out, out, c.c_int
        )
        self.known_watermarks = _function(
            held, "get_watermark_offsets", c.c_int, pointer, text, int32, out, out
        )
        self.metadata = _function(
            free, "metadata", c.c_int, pointer, c.c_int, pointer, pointer, c.c_int
        )
        self.metadata_destroy = _function(held, "metadata_destroy", None, pointer)
        self.offsets_for_times = _function(
            free, "offsets_for_times", c.c_int, pointer, pointer, c.c_int
        )
        self.list_new = _function(held, "topic_partition_list_new", pointer, c.c_int)
        self.list_add = _function(held, "topic_partition_list_add", pointer, pointer, text, int32)
        self.list_destroy = _function(held, "topic_partition_list_destroy", None, pointer)
        self.message_timestamp = _function(held, "message_timestamp", int64, pointer, pointer)
        self.message_destroy = _function(held, "message_destroy", None, pointer)
        self.queue_get_main = _function(free, "queue_get_main", pointer, pointer)
        self.queue_destroy = _function(free, "queue_destroy", None, pointer)
        self.queue_poll = _function(free, "queue_poll", pointer, pointer, c.c_int)
        self.event_error = _function(held, "event_error", c.c_int, pointer)
        self.event_error_string = _function(held, "event_error_string", text, pointer)
        self.event_destroy = _function(held, "event_destroy", None, pointer)
        self.last_error = _function(held, "last_error", c.c_int)
        self.err2str = _function(held, "err2str", text, c.c_int)

    @property
    def features(self) -> frozenset[str]:
        """The features of this build of the library, such as ``sasl_gssapi``."""
        conf, text = self.conf_new(), c.create_string_buffer(_FEATURES_BYTES)
        size = c.c_size_t(_FEATURES_BYTES)
        self.conf_get(conf, b"builtin.features", text, c.byref(size))
        self.conf_destroy(conf)
        return frozenset(text.value.decode().split(","))

    def configured(self, options: Mapping[str, str]) -> int:
        """A configuration with these options; `new` or `conf_destroy` takes its ownership.

        Raises:
            UsageError: the library does not know an option, or its value.
        """
        conf: int = self.conf_new()
        text = c.create_string_buffer(_TEXT_BYTES)
        for key, value in options.items():
            if self.conf_set(conf, key.encode(), value.encode(), text, _TEXT_BYTES) != _CONF_OK:
                self.conf_destroy(conf)
                raise UsageError(
                    f"Kafka's client cannot be set up: {text.value.decode()}",
                    where=f"source.kafka, as librdkafka's option {key}",
                    fix="correct the value, or set source.reader = 'spark'",
                )
        return conf


def _function(library: c.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, f"rd_kafka_{name}")
    function.restype, function.argtypes = result, arguments
    return function


@cache
def library() -> Library:
    """The library, loaded once for this process and its forks."""
    return Library()


class Client:
    """A client of one cluster, with its requested topics.

    Args:
        options: of librdkafka.

    Raises:
        UsageError: the library refuses the options, or is missing.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        try:
            self._library = library()
        except LibraryMissingError as error:
            raise UsageError(
                f"librdkafka of confluent-kafka cannot be used: {error}",
                where="source.reader",
                fix="install confluent-kafka on the executors as on the driver, or set "
                "source.reader = 'spark'",
            ) from None
        conf = self._library.configured(options)
        self._library.conf_set_events(conf, _EVENT_ERROR)
        self._library.conf_enable_sasl_queue(conf, 1)
        text = c.create_string_buffer(_TEXT_BYTES)
        self._client: int | None = self._library.new(_CONSUMER, conf, text, _TEXT_BYTES)
        if self._client is None:
            self._library.conf_destroy(conf)
            raise UsageError(
                f"Kafka's client cannot be set up: {text.value.decode()}", where="source.kafka"
            )
        # Fetches tokens anew in the background, even while no task reads.
        self._library.sasl_background_callbacks_enable(self._client)
        self._events = self._library.queue_get_main(self._client)
        self._topics: dict[str, int] = {}
        self._stopped: deque[tuple[str, int]] = deque()

    @property
    def handle(self) -> int | None:
        """The client in C, for other functions of the library; None: it is closed."""
        return self._client

    def know(self, topic: str) -> None:
        """Make the topic one that the client asks brokers about."""
        if topic not in self._topics:
            self._topics[topic] = self._library.topic_new(self._client, topic.encode(), None)

    def start(self, topic: str, partition: int, offset: int) -> None:
        """Prefetch from `offset` on."""
        self.know(topic)
        if (topic, partition) in self._stopped:  # its messages are no longer outdated
            self._stopped.remove((topic, partition))
        if self._library.consume_start(self._topics[topic], partition, offset) != 0:
            code = self._library.last_error()
            raise RuntimeError(f"{topic}/{partition} cannot be started: {self.text(code)}")

    def stop(self, topic: str, partition: int) -> None:
        """Stop fetching, and drop the fetched messages."""
        self._library.consume_stop(self._topics[topic], partition)
        self._stopped.append((topic, partition))
        # The library frees outdated messages when it is asked for more. The newest partition waits
        # for the next stop, because a reply of the broker may still be on its way.
        while len(self._stopped) > 1:
            self._drop_outdated(*self._stopped.popleft())

    def _drop_outdated(self, topic: str, partition: int) -> None:
        pointers: Int64s = np.empty(1, np.int64)
        self.release(pointers[: self.consume(topic, partition, pointers, wait_ms=0)].tolist())

    def consume(self, topic: str, partition: int, pointers: Int64s, *, wait_ms: int) -> int:
        """Put addresses of messages into `pointers` until it is full or the time is over.

        Returns:
            Their number. The caller returns each message by `release`.
        """
        count: int = self._library.consume_batch(
            self._topics[topic], partition, wait_ms, pointers.ctypes.data, len(pointers)
        )
        return max(count, 0)

    def timestamps(self, pointers: list[int]) -> Int64s:
        """(messages,) int64: milliseconds since 1970 of each message; -1: it has none."""
        stamps = map(self._library.message_timestamp, pointers, repeat(None))
        return np.fromiter(stamps, np.int64, len(pointers))

    def release(self, pointers: list[int]) -> None:
        """Return messages to the library, which frees their memory."""
        deque(map(self._library.message_destroy, pointers), maxlen=0)

    def known_begin(self, topic: str, partition: int) -> int:
        """The oldest offset according to the newest fetch; negative: unknown."""
        begin, end = c.c_int64(), c.c_int64()
        name = topic.encode()
        self._library.known_watermarks(self._client, name, partition, c.byref(begin), c.byref(end))
        return begin.value

    def watermarks(self, topic: str, partition: int, *, timeout_ms: int) -> tuple[int, int] | int:
        """The oldest offset and the one after the newest, from the broker; or an error's code."""
        begin, end = c.c_int64(), c.c_int64()
        code: int = self._library.query_watermarks(
            self._client, topic.encode(), partition, c.byref(begin), c.byref(end), timeout_ms
        )
        return code or (begin.value, end.value)

    def errors(self) -> Iterable[tuple[int, str]]:
        """Codes and texts of broker errors since the last call."""
        while event := self._library.queue_poll(self._events, 0):
            code = self._library.event_error(event)
            text = self._library.event_error_string(event)
            sentence = text.decode(errors="replace") if text else self.text(code)
            self._library.event_destroy(event)
            yield code, sentence

    def text(self, code: int) -> str:
        """The text of a code."""
        encoded: bytes = self._library.err2str(code)
        return encoded.decode()

    def close(self) -> None:
        """End its threads and connections. All partitions must have been stopped."""
        if self._client is None:
            return
        for topic in self._topics.values():
            self._library.topic_destroy(topic)
        self._topics.clear()
        self._library.queue_destroy(self._events)
        self._library.destroy(self._client)
        self._client = None
