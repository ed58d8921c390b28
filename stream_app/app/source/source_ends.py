"""Where the topics of a job end now."""

from __future__ import annotations

from collections.abc import Callable

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.source.preflight import BrokerConnection, uncheckable
from stream_app.errors import StreamAppError
from stream_app.kafka.offset_ranges import Offsets

_BROKER_S = 5.0


def source_ends(source: SourceConfig, unknown: Callable[[str], None]) -> Offsets | None:
    """Topic → Kafka partition → the offset of the next message.

    Args:
        unknown: gets the reason when the broker does not tell.

    Returns:
        None: the source is no topic, or the broker does not tell.
    """
    if source.kind != "kafka" or uncheckable(source.kafka_options):
        return None
    try:
        with BrokerConnection(
            source.bootstrap_servers, source.kafka_options, timeout_s=_BROKER_S
        ) as connection:
            topics = connection.topics(source.topics, pattern=source.topic_pattern)
            ends: dict[str, dict[str, int]] = {}
            for (topic, partition), end in connection.end_offsets(topics).items():
                ends.setdefault(topic, {})[str(partition)] = end
            return ends
    except StreamAppError as error:
        unknown(error.what)
        return None
