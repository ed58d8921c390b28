"""A job reads a topic's first messages from a real broker before it begins."""

from __future__ import annotations

import pytest

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.app.source.first_messages import messages_at_both_ends
from stream_app.app.source.topic_checks import checked_topics
from tests.support.brokers.kafka_broker import new_topic, produce

MESSAGES = 2_000


@pytest.mark.kafka
def test_both_ends_of_each_partition_are_looked_at(kafka_broker: EmbeddedBroker) -> None:
    """A fetch may hold more than the beginning."""
    topic = new_topic(kafka_broker, partitions=2)
    for partition in range(2):
        values = ((None, b'{"op": "c", "n": %d}' % n) for n in range(MESSAGES))
        produce(kafka_broker, topic, values, partition=partition)
    source = SourceConfig(bootstrap_servers=kafka_broker.bootstrap, topics=(topic,))
    topics = checked_topics(source)
    messages = messages_at_both_ends(source, topics)[topic]
    ends = [*range(20), *range(MESSAGES - 20, MESSAGES)]
    places = zip(
        messages.column("partition").to_pylist(), messages.column("offset").to_pylist(), strict=True
    )
    assert sorted(places) == [(partition, offset) for partition in range(2) for offset in ends]
