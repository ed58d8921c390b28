"""Decides where a job's first epoch begins, and where each epoch ends.

`spark.stream.topic_stream` calls it with the answers of `offset_client`. The rules are those of
Spark's Kafka source, so either reader continues the other's checkpoint.

Source: Spark `kafka010/KafkaMicroBatchStream.scala`, `KafkaOffsetReaderAdmin.scala`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from stream_app.errors import WrongSourceError
from stream_app.model.job_epoch import Offsets

_OLDEST, _NEWEST = -2, -1
"""Numbers that stand for the oldest and the newest offset, as in Spark's option."""


def offsets_text(offsets: Offsets) -> str:
    """Encode offsets as in Spark's checkpoint: JSON, sorted by topic and partition."""
    sorted_offsets = {
        topic: dict(sorted(topic_offsets.items(), key=lambda item: int(item[0])))
        for topic, topic_offsets in sorted(offsets.items())
    }
    return json.dumps(sorted_offsets, separators=(",", ":"))


def first_offsets(
    starting_offsets: str, oldest_offsets: Offsets, newest_offsets: Offsets
) -> Offsets:
    """Return the offsets at which a new job begins.

    Args:
        starting_offsets: ``earliest``, ``latest``, or offsets as JSON, with -2 for the oldest and
            -1 for the newest.
        oldest_offsets, newest_offsets: the ends of each partition.

    Raises:
        WrongSourceError: the JSON names other partitions than there are.
    """
    if starting_offsets == "earliest":
        return oldest_offsets
    if starting_offsets == "latest":
        return newest_offsets
    offsets: Offsets = json.loads(starting_offsets)
    named_partitions, existing_partitions = _partitions_of(offsets), _partitions_of(newest_offsets)
    if named_partitions != existing_partitions:
        problems = [
            f"{topic}/{partition_text} is not there"
            for topic, partition_text in sorted(named_partitions - existing_partitions)
        ]
        problems += [
            f"{topic}/{partition_text} is not named"
            for topic, partition_text in sorted(existing_partitions - named_partitions)
        ]
        raise WrongSourceError(
            f"the starting offsets do not fit the topics: {', '.join(problems)}",
            where="source.starting-offsets",
            fix="name each partition of each topic once: -2 is its oldest message, -1 its end",
        )
    return {
        topic: {
            partition_text: {
                _OLDEST: oldest_offsets[topic].get(partition_text, 0),
                _NEWEST: newest_offsets[topic][partition_text],
            }.get(offset, offset)
            for partition_text, offset in topic_offsets.items()
        }
        for topic, topic_offsets in offsets.items()
    }


def next_end(start_offsets: Offsets, newest_offsets: Offsets, messages_max: int | None) -> Offsets:
    """Return the end of an epoch from `start_offsets` on; these when there is nothing new.

    Args:
        start_offsets: also the oldest offsets of new partitions, so that the limit counts their
            messages.
        newest_offsets: the ends of all partitions.
        messages_max: the maximum number of messages, which partitions share in proportion to what
            they have; None means no limit.
    """
    sizes = {
        (topic, partition_text): max(0, end - _start(start_offsets, topic, partition_text))
        for topic, topic_offsets in newest_offsets.items()
        for partition_text, end in topic_offsets.items()
    }
    total_size = sum(sizes.values())
    if messages_max is None or total_size <= messages_max:
        return newest_offsets

    def end_of(topic: str, partition_text: str, end: int) -> int:
        share = messages_max * (sizes[topic, partition_text] / total_size)
        # Each partition gets at least one message, so that none starves.
        count = math.ceil(share) if share < 1 else math.floor(share)
        return min(end, _start(start_offsets, topic, partition_text) + count)

    return {
        topic: {
            partition_text: end_of(topic, partition_text, end)
            for partition_text, end in topic_offsets.items()
        }
        for topic, topic_offsets in newest_offsets.items()
    }


def vanished_partitions(start_offsets: Offsets, newest_offsets: Offsets) -> list[str]:
    """Return a sentence for each partition that a job has read and its topic lacks.

    It leaves out offsets that retention has deleted, because the reader reports them.
    """
    problems = []
    for topic, topic_offsets in sorted(start_offsets.items()):
        for partition_text, offset in sorted(topic_offsets.items()):
            end = newest_offsets.get(topic, {}).get(partition_text)
            if end is None:
                problems.append(
                    f"{topic}/{partition_text} was read up to offset {offset} and is gone"
                )
            elif end < offset:
                problems.append(
                    f"{topic}/{partition_text} ends at {end}, and was read up to {offset}"
                )
    return problems


def _start(start_offsets: Offsets, topic: str, partition_text: str) -> int:
    return start_offsets.get(topic, {}).get(partition_text, 0)


def _partitions_of(offsets: Mapping[str, Mapping[str, int]]) -> set[tuple[str, str]]:
    return {
        (topic, partition_text)
        for topic, topic_offsets in offsets.items()
        for partition_text in topic_offsets
    }
