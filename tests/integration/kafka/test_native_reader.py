"""The native reader handles logins, silent brokers, early stops and forked processes."""

from __future__ import annotations

import itertools
import multiprocessing
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.errors import SourceError, UsageError, WrongSourceError
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.kafka.range_reader import RangeReader, ReaderSettings, reader_of_process
from tests.support.brokers.kafka_broker import delete_topic, new_topic, produce
from tests.support.brokers.secure_kafka import PASSWORD, SecureKafka
from tests.support.brokers.topic_reader import read_natively, settings_for
from tests.support.jobs.ingest_process import a_free_port
from tests.support.tables.small_table import StandingClock

pytestmark = pytest.mark.kafka
VALUES = [b"%d" % number for number in range(200)]


def fill_topic(broker: EmbeddedBroker) -> str:
    topic = new_topic(broker)
    produce(broker, topic, [(None, value) for value in VALUES], partition=0)
    return topic


def whole(topic: str) -> list[OffsetRange]:
    return [OffsetRange(topic, 0, 0, len(VALUES))]


@pytest.mark.parametrize("listener", ["PLAIN", "SCRAM256", "SCRAM512", "TLS", "OAUTH"])
def test_brokers_that_ask_for_a_login(secure_kafka: SecureKafka, listener: str) -> None:
    topic = fill_topic(secure_kafka.broker)
    password = {"password": "known-pass of alice"} if listener == "OAUTH" else {}
    options = secure_kafka.options(listener, **password)
    messages = read_natively(secure_kafka.bootstrap(listener), whole(topic), options=options)
    assert messages.column("value").to_pylist() == VALUES


@pytest.mark.parametrize("listener", ["PLAIN", "SCRAM512"])
def test_an_error_about_a_wrong_password_comes_at_once_and_hides_it(
    secure_kafka: SecureKafka, listener: str
) -> None:
    options = secure_kafka.options(listener, "not-the-password-of-alice")
    settings = settings_for(secure_kafka.bootstrap(listener), options=options)
    assert "not-the-password" not in repr(settings)
    began = time.monotonic()
    with pytest.raises(WrongSourceError, match="cannot log in") as caught:
        list(reader_of_process(settings).read(whole("t")))
    assert time.monotonic() - began < settings.timeout_s
    assert "not-the-password" not in str(caught.value)


def test_a_broker_with_an_untrusted_certificate(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    options = secure_kafka.options("TLS")
    with pytest.raises(WrongSourceError, match=r"cannot log in.*certificate"):
        read_natively(
            secure_kafka.bootstrap("TLS"),
            whole("t"),
            options={**options, "ssl.truststore.location": str(secure_kafka.client)},
        )
    with pytest.raises(UsageError, match="cannot be set up"):
        read_natively(
            secure_kafka.bootstrap("TLS"),
            whole("t"),
            options={**options, "ssl.keystore.location": str(tmp_path / "nothing.pem")},
        )


def test_no_error_of_librdkafka_shows_the_password(secure_kafka: SecureKafka) -> None:
    options = {**secure_kafka.options("PLAIN"), "fetch.min.bytes": "many"}
    with pytest.raises(UsageError, match=r"fetch\.min\.bytes") as caught:
        read_natively(secure_kafka.bootstrap("PLAIN"), whole("t"), options=options)
    assert PASSWORD[:10] not in str(caught.value)


def test_no_broker_is_an_error_when_the_time_is_over() -> None:
    settings = settings_for(f"127.0.0.1:{a_free_port()}", timeout_s=1.5)
    with pytest.raises(SourceError, match=r"delivered nothing .*refused") as caught:
        list(reader_of_process(settings).read(whole("t")))
    assert not isinstance(caught.value, WrongSourceError)


@pytest.mark.variant
def test_reading_goes_on_when_a_broker_comes_back(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    with broker:
        topic = fill_topic(broker)
        settings = settings_for(broker.bootstrap, timeout_s=60.0)
        reader = RangeReader(settings)
        assert sum(batch.num_rows for batch in reader.read(whole(topic))) == len(VALUES)
        broker.stop()
        back = threading.Timer(2, broker.start)
        back.start()
        try:
            assert sum(batch.num_rows for batch in reader.read(whole(topic))) == len(VALUES)
        finally:
            back.join()
            reader.close()


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_timestamps_are_those_of_another_client(kafka_broker: EmbeddedBroker, kind: str) -> None:
    topic = new_topic(kafka_broker, configs={"message.timestamp.type": kind})
    count, now = 3_000, int(time.time() * 1000)
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, linger_ms=20)
    for number in range(count):
        time_ms = now - (number * 7_919) % 100_000
        producer.send(topic, b"%d" % number, partition=0, timestamp_ms=time_ms)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=kafka_broker.bootstrap, consumer_timeout_ms=20_000)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    stamps = [record.timestamp for record in itertools.islice(consumer, count)]
    consumer.close()
    assert len(stamps) == count
    batches = read_natively(kafka_broker.bootstrap, [OffsetRange(topic, 0, 0, count)])
    micros = batches.column("timestamp").cast("int64").to_pylist()
    assert micros == [stamp * 1000 for stamp in stamps]


def test_a_reader_that_failed_reads_again(kafka_broker: EmbeddedBroker) -> None:
    deleted_topic, topic = fill_topic(kafka_broker), fill_topic(kafka_broker)
    delete_topic(kafka_broker, deleted_topic)
    with pytest.raises(WrongSourceError, match=f"{deleted_topic}/0 is gone"):
        read_natively(kafka_broker.bootstrap, whole(deleted_topic))
    reader = reader_of_process(settings_for(kafka_broker.bootstrap))
    with pytest.raises(WrongSourceError):
        list(reader.read([OffsetRange(topic, 0, 0, 1000)]))
    assert sum(batch.num_rows for batch in reader.read(whole(topic))) == len(VALUES)


def test_a_reader_that_stops_early_leaves_nothing_behind(kafka_broker: EmbeddedBroker) -> None:
    topic = fill_topic(kafka_broker)
    reader = reader_of_process(settings_for(kafka_broker.bootstrap))
    for _ in range(3):
        batches = reader.read([OffsetRange(topic, 0, 0, 50), OffsetRange(topic, 0, 60, 200)])
        assert next(batches).column("value").to_pylist() == VALUES[:50]
        batches.close()
    assert sum(batch.num_rows for batch in reader.read(whole(topic))) == len(VALUES)


def test_time_that_others_take_is_not_a_silence_of_the_broker(kafka_broker: EmbeddedBroker) -> None:
    topic, clock = fill_topic(kafka_broker), StandingClock()
    reader = RangeReader(settings_for(kafka_broker.bootstrap), clock)
    batches = reader.read([OffsetRange(topic, 0, 0, 250)])
    assert next(batches).num_rows == 200
    clock.sleep(1000)
    later = [(None, b"later")] * 50
    writer = threading.Timer(1, produce, (kafka_broker, topic, later), {"partition": 0})
    writer.start()
    assert sum(batch.num_rows for batch in batches) == 50
    writer.join()
    # Closed in the middle, a reader ends all the same.
    batches = reader.read(whole(topic))
    next(batches)
    reader.close()


def _read_in_child(
    answers: Connection, settings: ReaderSettings, ranges: list[OffsetRange]
) -> None:
    answers.send([batch.num_rows for batch in reader_of_process(settings).read(ranges)])


def test_a_forked_process_has_a_reader_of_its_own(kafka_broker: EmbeddedBroker) -> None:
    topic = fill_topic(kafka_broker)
    settings = settings_for(kafka_broker.bootstrap)
    mine = reader_of_process(settings)
    assert reader_of_process(settings) is mine
    assert sum(batch.num_rows for batch in mine.read(whole(topic))) == len(VALUES)
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(
        target=_read_in_child, args=(theirs, settings, whole(topic))
    )
    child.start()
    assert ours.poll(20)
    assert sum(ours.recv()) == len(VALUES)
    child.join(10)
    assert child.exitcode == 0
    assert sum(batch.num_rows for batch in mine.read(whole(topic))) == len(VALUES)
