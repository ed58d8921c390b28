"""Checks the topics before the job reads them, to report errors at once instead of waiting.

`start_checks` calls it at start, and `job_site` for the lag. A recreated topic has other records at
the offsets of an old checkpoint. The topic's unique id in Kafka reveals it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.source.bootstrap_servers import BROKER_TIMEOUT_S
from stream_app.app.source.broker_connection import TopicInfo
from stream_app.app.source.source_connection import SourceConnection, unaskable_settings
from stream_app.errors import StreamAppError
from stream_app.model.job_epoch import Offsets

RECREATED_FIX = "give the job a new checkpoint folder, and a new table unless its rows stay right"
"""The remedy that the job and the doctor name for a recreated topic."""
_ENDS_TIMEOUT_S = 5.0


def checked_topics(
    source_config: SourceConfig, *, timeout_s: float = BROKER_TIMEOUT_S
) -> dict[str, TopicInfo]:
    """Return name → metadata of the topics that the job will read.

    Raises:
        SourceError: no broker of a cluster responds.
        WrongSourceError: a topic is missing, or no topic matches the pattern.
    """
    with SourceConnection(source_config, timeout_s=timeout_s) as connection:
        return connection.topics()


def source_ends(source_config: SourceConfig, on_unknown: Callable[[str], None]) -> Offsets | None:
    """Return topic → Kafka partition → end offset.

    Args:
        on_unknown: called with the reason if the broker does not respond.

    Returns:
        None if the source is not a topic, or the broker does not respond.
    """
    if source_config.kind is not SourceKind.KAFKA or unaskable_settings(source_config):
        return None
    try:
        with SourceConnection(source_config, timeout_s=_ENDS_TIMEOUT_S) as connection:
            topics = connection.topics()
            ends: dict[str, dict[str, int]] = {}
            for (topic, partition_number), end in connection.end_offsets(topics).items():
                ends.setdefault(topic, {})[str(partition_number)] = end
            return ends
    except StreamAppError as error:
        on_unknown(error.problem)
        return None


def recreated_topics(
    known_ids: Mapping[str, str | None], topics: Mapping[str, TopicInfo]
) -> Collection[str]:
    """Return the topics whose id has changed, because they were deleted and recreated.

    Args:
        known_ids: topic → id, as the checkpoint has it.
    """
    return [
        name
        for name, topic in topics.items()
        if known_ids.get(name) and topic.topic_id and topic.topic_id != known_ids[name]
    ]
