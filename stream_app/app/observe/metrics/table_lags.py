"""How many messages each table of a job lacks, from the Kafka partitions of its topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

from stream_app.kafka.offset_ranges import Offsets

Table = TypeVar("Table", bound=Hashable)


def table_lags(
    topics: Mapping[Table, Collection[str]],
    behind: Mapping[tuple[str, str], int],
    ends: Offsets,
    begins: Mapping[Table, Offsets],
) -> dict[Table, int]:
    """Messages that each table lacks; nothing of a table without topics, or that shares one.

    Args:
        topics: those that have brought a table messages.
        behind: topic and partition → messages that the job's tables do not have.
        ends: up to where its tables have them.
        begins: of tables that wait, the first offsets that they lack. A partition that is new
            since is lacking from its beginning on.
    """
    owners = Counter(topic for names in topics.values() for topic in set(names))
    unread: Counter[str] = Counter()
    for (topic, _), lag in behind.items():
        unread[topic] += lag
    lags = {}
    for table, names in topics.items():
        if not names or any(owners[topic] > 1 for topic in names):
            continue
        lacks = sum(unread[topic] for topic in names)
        if table in begins:
            lacks += sum(
                max(0, end - begins[table].get(topic, {}).get(partition, 0))
                for topic in names
                for partition, end in ends.get(topic, {}).items()
            )
        lags[table] = lacks
    return lags
