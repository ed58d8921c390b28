"""The topic of a soak: filled without a pause by a thread, however often the broker dies."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from bench.shop.shop_orders import Shop

_BATCH = 50
_WAIT_MS = 20_000
_ANSWER_SECONDS = 90
"""Longer than a broker is away: the producer itself waits for it and then goes on."""

_TRIES_AT_THE_END = 2


@dataclass
class ShopTopic:
    """A shop's changes in Kafka.

    After a failure a batch is sent again whole, so the topic may have messages twice, out of
    place even. That is no harm: what the topic has is what the table must hold.
    """

    bootstrap: str
    name: str
    partitions: int
    rate: int
    random: Random
    sent: int = 0
    sent_again: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._produce, name="shop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more messages; returns when the last one is written."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> dict[int, int]:
        """Return the present end of each partition."""
        consumer = self._consumer()
        try:
            ends = consumer.end_offsets(self._places(range(self.partitions)))
            return {place.partition: offset for place, offset in ends.items()}
        finally:
            consumer.close()

    def values(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[bytes | None]:
        """Values between two places, each partition in its order."""
        remaining_counts = {p: offset - start.get(p, 0) for p, offset in end.items()}
        remaining_counts = {
            partition: count for partition, count in remaining_counts.items() if count
        }
        consumer = self._consumer()
        try:
            consumer.assign(self._places(remaining_counts))
            for place in self._places(remaining_counts):
                consumer.seek(place, start.get(place.partition, 0))
            while remaining_counts:
                batches = consumer.poll(timeout_ms=_WAIT_MS)
                if not batches:
                    raise AssertionError(
                        f"the topic does not give {remaining_counts} more messages"
                    )
                for place, records in batches.items():
                    earlier_records = [r for r in records if r.offset < end[place.partition]]
                    yield from (record.value for record in earlier_records)
                    if remaining_counts.get(place.partition):
                        remaining_counts[place.partition] -= len(earlier_records)
                        if not remaining_counts[place.partition]:
                            del remaining_counts[place.partition]
        finally:
            consumer.close()

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False)

    def _places(self, partitions: object) -> list[TopicPartition]:
        return [TopicPartition(self.name, number) for number in partitions]  # type: ignore[attr-defined]

    def _produce(self) -> None:
        shop, began = Shop(self.random), time.monotonic()
        producer: KafkaProducer | None = None
        while not self._stop.is_set():
            batch = list(shop.changes(_BATCH))
            tries = 0
            # At the end nobody brings a broker back that stays away.
            while tries < _TRIES_AT_THE_END or not self._stop.is_set():
                try:
                    if producer is None:
                        producer = KafkaProducer(
                            bootstrap_servers=self.bootstrap, acks="all", linger_ms=5
                        )
                    futures = [producer.send(self.name, key=k, value=v) for k, v in batch]
                    for future in futures:
                        future.get(timeout=_ANSWER_SECONDS)
                    break
                except KafkaError:
                    tries += 1
                    if producer is not None:
                        with suppress(KafkaError):
                            producer.close(timeout=0)
                    producer = None
                    time.sleep(0.5)
            self.sent += _BATCH
            self.sent_again += _BATCH * tries
            ahead = self.sent / self.rate - (time.monotonic() - began)
            if ahead < -5:  # the broker was away: its time is not made up for
                began -= ahead
            self._stop.wait(max(0.0, ahead))
        if producer is not None:
            producer.close(timeout=_ANSWER_SECONDS)
