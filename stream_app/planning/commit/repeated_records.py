"""Finds the records that a job is about to read, and that the table has from another job.

So it is after a checkpoint was lost: the new one begins at `source.starting-offsets`, and the
table's snapshots tell where the epochs of the earlier one end. Called before the first epoch of a
job in a table, by `table.job.checkpoint_checks`. Plain values in and out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

Offsets = Mapping[str, Mapping[str, int]]
"""Topic → Kafka partition → offset, as the ends of epochs have them."""


def read_again(begin: Offsets, ends: Iterable[str | None]) -> dict[str, dict[str, int]]:
    """Where the records end that are in the table already; only of partitions that begin below.

    Args:
        begin: where the job begins; a partition of its topics that is missing is read from 0.
        ends: of the epochs of other jobs, in their source's own words.
    """
    offsets: dict[str, dict[str, int]] = {}
    for end in ends:
        for topic, partitions in _offsets(end).items():
            if topic not in begin:
                continue
            for partition, offset in partitions.items():
                known = offsets.get(topic, {}).get(partition, begin[topic].get(partition, 0))
                if known < offset:
                    offsets.setdefault(topic, {})[partition] = offset
    return offsets


def going_on(begin: Offsets, again: Offsets) -> str:
    """The `source.starting-offsets` with which a job goes on behind these records."""
    topics = {
        topic: dict(sorted({**partitions, **again.get(topic, {})}.items()))
        for topic, partitions in sorted(begin.items())
    }
    return json.dumps(topics)


def _offsets(end: str | None) -> Offsets:
    """Nothing where the source has no topics, as a folder of files."""
    try:
        document = json.loads(end or "{}")
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        topic: partitions for topic, partitions in document.items() if isinstance(partitions, dict)
    }
