"""Each of the two readers returns exactly the planned messages, and finds the same losses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.kafka.offset_ranges import OffsetRange
from tests.support.brokers.kafka_broker import delete_topic, new_topic
from tests.support.brokers.topic_reader import Reader, read_natively, reads_by_spark

pytestmark = pytest.mark.kafka
Cell = bytes | None
WAIT_S = 30.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Yield a broker that compacts its topics at once."""
    settings = {"log.cleaner.backoff.ms": "100"}
    with EmbeddedBroker(tmp_path_factory.mktemp("kafka"), settings=settings) as broker:
        yield broker


@pytest.fixture(params=["native", pytest.param("spark", marks=pytest.mark.spark)])
def read(request: pytest.FixtureRequest) -> Reader:
    if request.param == "native":
        return read_natively
    request.getfixturevalue("spark_kafka_source")
    return reads_by_spark(request.getfixturevalue("spark"))


def fill(
    broker: EmbeddedBroker,
    topic: str,
    messages: Sequence[tuple[Cell, Cell]],
    *,
    partition: int = 0,
    options: Mapping[str, str] | None = None,
) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "message.max.bytes": 2**25, **(options or {})}
    )
    for key, value in messages:
        producer.produce(topic, value, key, partition, headers={"h": b"not read"})
    assert producer.flush(WAIT_S) == 0


def numbered_messages(start: int, end: int) -> list[tuple[Cell, Cell]]:
    return [(b"k%d" % number, b"v%d" % number) for number in range(start, end)]


def rows(messages: pa.Table) -> list[tuple[int, Cell, Cell]]:
    columns = (messages.column(name).to_pylist() for name in ("offset", "key", "value"))
    return list(zip(*columns, strict=True))


def messages_with_offsets(start: int, end: int) -> list[tuple[int, Cell, Cell]]:
    """Return the messages that `numbered(0, …)` has between two offsets."""
    return [(offset, *cells) for offset, cells in enumerate(numbered_messages(start, end), start)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_exactly_the_planned_offsets(broker: EmbeddedBroker, read: Reader, codec: str) -> None:
    topic = new_topic(broker)
    before = time.time()
    options = {"compression.type": codec, "linger.ms": "50"}
    fill(broker, topic, numbered_messages(0, 700), options=options)
    messages = read(broker.bootstrap, [OffsetRange(topic, 0, 13, 677)])
    assert rows(messages) == messages_with_offsets(13, 677)
    assert set(messages.column("topic").to_pylist()) == {topic}
    stamps = [stamp.timestamp() for stamp in messages.column("timestamp").to_pylist()]
    assert before - 1 <= min(stamps) <= max(stamps) <= time.time() + 1
    assert rows(read(broker.bootstrap, [OffsetRange(topic, 0, 699, 700)])) == messages_with_offsets(
        699, 700
    )
    assert rows(read(broker.bootstrap, [OffsetRange(topic, 0, 700, 700)])) == []


def test_partitions_and_topics_beside_each_other(broker: EmbeddedBroker, read: Reader) -> None:
    topics = [new_topic(broker, partitions=3) for _ in range(2)]
    ranges = []
    for topic in topics:
        for partition in range(3):
            fill(broker, topic, numbered_messages(0, 40), partition=partition)
            ranges.append(OffsetRange(topic, partition, partition, 30 + partition))
    messages = read(broker.bootstrap, ranges)
    expected = [
        (offsets.topic, offsets.partition, offset)
        for offsets in sorted(ranges)
        for offset in range(offsets.start, offsets.end)
    ]
    names = ("topic", "partition", "offset")
    assert (
        list(zip(*(messages.column(name).to_pylist() for name in names), strict=True)) == expected
    )


def test_null_and_empty_cells_are_distinguished(broker: EmbeddedBroker, read: Reader) -> None:
    cells: list[tuple[Cell, Cell]] = [
        (None, None),
        (None, b"v"),
        (b"k", None),
        (b"", b""),
        (b"k", b"v"),
        (None, b""),
    ]
    topic = new_topic(broker)
    fill(broker, topic, cells)
    messages = read(broker.bootstrap, [OffsetRange(topic, 0, 0, len(cells))])
    assert rows(messages) == [(offset, *pair) for offset, pair in enumerate(cells)]


def test_messages_larger_than_a_fetch(broker: EmbeddedBroker, read: Reader) -> None:
    topic = new_topic(broker, configs={"max.message.bytes": str(2**25)})
    large: list[tuple[Cell, Cell]] = [(b"k", bytes([letter]) * (9 << 20)) for letter in b"abc"]
    fill(broker, topic, large)
    messages = read(broker.bootstrap, [OffsetRange(topic, 0, 0, 3)])
    assert [
        (offset, key, len(value or b""), (value or b"")[:1])
        for offset, key, value in rows(messages)
    ] == [(offset, b"k", 9 << 20, letter) for offset, letter in enumerate((b"a", b"b", b"c"))]


@pytest.fixture
def transactions(broker: EmbeddedBroker) -> str:
    """Committed 0 to 4, aborted 6 to 10, committed 12 to 14; a marker behind each."""
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    for number, (count, commits) in enumerate([(5, True), (5, False), (3, True)]):
        producer.begin_transaction()
        for index in range(count):
            producer.produce(topic, b"%d-%d" % (number, index), partition=0)
        assert producer.flush(WAIT_S) == 0
        (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)
    return topic


@pytest.mark.parametrize(
    ("start", "end", "offsets"),
    [
        pytest.param(0, 16, [*range(5), *range(12, 15)], id="all"),
        pytest.param(3, 13, [3, 4, 12], id="from-one-to-another"),
        pytest.param(5, 9, [], id="nothing-but-a-marker-and-aborted-ones"),
        pytest.param(15, 16, [], id="the-last-marker"),
    ],
)
def test_aborted_transactions_and_markers_are_not_messages(
    broker: EmbeddedBroker,
    read: Reader,
    transactions: str,
    start: int,
    end: int,
    offsets: list[int],
) -> None:
    messages = read(broker.bootstrap, [OffsetRange(transactions, 0, start, end)])
    assert messages.column("offset").to_pylist() == offsets


def test_aborted_messages_are_read_only_on_request(
    broker: EmbeddedBroker, read: Reader, transactions: str
) -> None:
    uncommitted_option = {"isolation.level": "read_uncommitted"}
    messages = read(
        broker.bootstrap, [OffsetRange(transactions, 0, 0, 16)], options=uncommitted_option
    )
    assert messages.column("offset").to_pylist() == [*range(5), *range(6, 11), *range(12, 15)]


def test_gaps_of_compaction_are_not_a_loss(broker: EmbeddedBroker, read: Reader) -> None:
    configs = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
    }
    topic = new_topic(broker, configs=configs)
    fill(broker, topic, [(b"k%d" % (number % 3), b"v%d" % number) for number in range(300)])
    deadline = time.monotonic() + WAIT_S
    whole = [OffsetRange(topic, 0, 0, 300)]
    # A segment is compacted when another one has begun behind it.
    extra = 0
    while len(read_natively(broker.bootstrap, whole)) > 3:
        assert time.monotonic() < deadline, "the broker has not compacted the topic"
        fill(broker, topic, [(b"later", b"%d" % extra)])
        extra += 1
        time.sleep(0.3)
    assert rows(read(broker.bootstrap, whole)) == [
        (offset, b"k%d" % (offset % 3), b"v%d" % offset) for offset in (297, 298, 299)
    ]
    assert rows(read(broker.bootstrap, [OffsetRange(topic, 0, 10, 298)])) == [(297, b"k0", b"v297")]


def delete_before(broker: EmbeddedBroker, topic: str, start: int) -> None:
    """Delete what is older, as retention does."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, start)]).values():
        future.result(WAIT_S)


def test_deleted_offsets_are_an_error_or_left_out(broker: EmbeddedBroker, read: Reader) -> None:
    topic = new_topic(broker)
    fill(broker, topic, numbered_messages(0, 50))
    whole = [OffsetRange(topic, 0, 0, 50)]
    assert rows(read(broker.bootstrap, whole)) == messages_with_offsets(0, 50)
    delete_before(broker, topic, 20)
    with pytest.raises(Exception, match=r"offsets? \[?0(, 50| to 20)"):
        read(broker.bootstrap, whole)
    assert rows(read(broker.bootstrap, whole, fails_on_loss=False)) == messages_with_offsets(20, 50)
    older = [OffsetRange(topic, 0, 5, 15)]
    assert rows(read(broker.bootstrap, older, fails_on_loss=False)) == []
    # A reader that needs none of them sees no loss.
    assert rows(read(broker.bootstrap, [OffsetRange(topic, 0, 20, 50)])) == messages_with_offsets(
        20, 50
    )


def test_a_topic_that_is_made_anew_has_lost_its_offsets(
    broker: EmbeddedBroker, read: Reader
) -> None:
    topic = new_topic(broker)
    fill(broker, topic, numbered_messages(0, 50))
    later = [OffsetRange(topic, 0, 30, 50)]
    assert rows(read(broker.bootstrap, later)) == messages_with_offsets(30, 50)
    delete_topic(broker, topic)
    new_topic(broker, name=topic)
    fill(broker, topic, numbered_messages(0, 10))
    with pytest.raises(Exception, match=r"offsets? \[?30(,| to) 50"):
        read(broker.bootstrap, later)
    assert rows(read(broker.bootstrap, later, fails_on_loss=False)) == []
    assert rows(read(broker.bootstrap, [OffsetRange(topic, 0, 0, 10)])) == messages_with_offsets(
        0, 10
    )


def test_offsets_behind_the_end_are_lost(broker: EmbeddedBroker, read: Reader) -> None:
    topic = new_topic(broker)
    fill(broker, topic, numbered_messages(0, 10))
    beyond = [OffsetRange(topic, 0, 4, 15)]
    with pytest.raises(Exception, match=r"offsets? \[?10(,| to) 15"):
        read(broker.bootstrap, beyond)
    assert rows(read(broker.bootstrap, beyond, fails_on_loss=False)) == messages_with_offsets(4, 10)
