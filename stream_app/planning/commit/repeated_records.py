"""Finds records that a job would read although the table has them from another job.

This happens after the loss of a checkpoint. The new one begins at `source.starting-offsets`, and
the table's snapshots record the ends of the earlier job's epochs. Called before the first epoch of
a job in a table, by `table.job.checkpoint_checks`. Plain values in and out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from stream_app.model.job_epoch import Offsets


def read_again(begin: Offsets, ends: Iterable[str | None]) -> dict[str, dict[str, int]]:
    """The end offsets of records that the table has already, for partitions that begin below.

    Args:
        begin: the job's first offsets; a missing partition of its topics is read from 0.
        ends: the ends of other jobs' epochs, as their source writes them.
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
    """The value of `source.starting-offsets` with which a job continues after these records."""
    topics = {
        topic: dict(sorted({**partitions, **again.get(topic, {})}.items()))
        for topic, partitions in sorted(begin.items())
    }
    return json.dumps(topics)


def _offsets(end: str | None) -> Offsets:
    """The offsets in an epoch's end; empty for a source without topics, such as a folder."""
    try:
        document = json.loads(end or "{}")
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        topic: partitions for topic, partitions in document.items() if isinstance(partitions, dict)
    }
