"""Sends messages to a Kafka topic, in order and at least once.

The producer is idempotent, so its retries neither duplicate nor reorder messages. Messages with the
same key go to the same partition. After `flush` returns, all messages are in the topic.

Source: kafka-python's `KafkaProducer`.
"""

from __future__ import annotations

from typing import Self

import pyarrow as pa

from stream_app.app.source.bootstrap_servers import parse_bootstrap_servers
from stream_app.errors import SourceError, UsageError

CONNECT_TIMEOUT_S = 10.0
_LINGER_MS = 5
_BATCH_SIZE = 256 * 1024
_CLOSE_TIMEOUT_S = 5


class KafkaOutput:
    """A producer for one topic.

    Args:
        address: ``HOST:PORT[,HOST:PORT…]/TOPIC``.
        timeout_s: the timeout of connecting to a broker.

    Raises:
        UsageError: the text does not have this form.
        SourceError: the broker cannot be reached.
    """

    def __init__(self, address: str, *, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        bootstrap_servers, _, topic = address.rpartition("/")
        if not bootstrap_servers or not topic or ":" not in bootstrap_servers:
            raise UsageError(
                f"{address!r} names no topic of Kafka",
                fix="write localhost:9092/orders-changes",
            )
        parse_bootstrap_servers(bootstrap_servers, f"--to-kafka {address}")
        # Importing the client takes time, and only sending needs it.
        from kafka import KafkaProducer  # noqa: PLC0415
        from kafka.errors import KafkaError  # noqa: PLC0415

        self._topic = topic
        self._where = address
        self._client_error: type[Exception] = KafkaError
        self._failure: BaseException | None = None
        try:
            self._producer = KafkaProducer(
                bootstrap_servers=bootstrap_servers,
                acks="all",
                enable_idempotence=True,
                linger_ms=_LINGER_MS,
                batch_size=_BATCH_SIZE,
                bootstrap_timeout_ms=int(timeout_s * 1000),
            )
        except KafkaError as error:
            raise self._error(error) from error

    def send(self, keys: pa.Array, values: pa.Array) -> None:
        """Queue messages for sending, in order. Messages with null keys go to any partition.

        Raises:
            SourceError: these messages, or earlier ones, could not be sent.
        """
        # The client accepts one message at a time; all steps before it work on columns.
        for key, value in zip(keys.cast(pa.binary()), values.cast(pa.binary()), strict=True):
            try:
                future = self._producer.send(self._topic, key=key.as_py(), value=value.as_py())
            except self._client_error as error:
                raise self._error(error) from error
            future.add_errback(self._fail)
        self._check()

    def flush(self) -> None:
        """Wait until the topic has all messages.

        Raises:
            SourceError: a message could not be sent.
        """
        try:
            self._producer.flush()
        except self._client_error as error:
            raise self._error(error) from error
        self._check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close(timeout=_CLOSE_TIMEOUT_S)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error

    def _check(self) -> None:
        if self._failure is not None:
            raise self._error(self._failure) from self._failure

    def _error(self, error: BaseException) -> SourceError:
        return SourceError(
            f"cannot send to Kafka: {error or type(error).__name__}",
            where=self._where,
            fix="check that the broker runs, that the topic exists and may be written, and that "
            "max.message.bytes allows its rows; then run the command again: the consumer keeps "
            "the progress",
        )
