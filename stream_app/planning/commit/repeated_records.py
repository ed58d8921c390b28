"""Detects records that a job would read although another job has committed them to the table.

This happens after the loss of a checkpoint. The new one begins at `source.starting-offsets`, and
the table's snapshots record the ends of the earlier job's epochs.
`table.job.checkpoint_checks` calls it before a job's first epoch in a table. It takes and
returns plain values.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream_app.model.job_epoch import Offsets


def offsets_already_committed(start: Offsets, ends: Iterable[Offsets]) -> dict[str, dict[str, int]]:
    """Return the end offsets of records that the table already has and the job would read.

    Args:
        start: the job's first offsets; a missing partition of its topics is read from 0.
        ends: the ends of other jobs' epochs.
    """
    offsets: dict[str, dict[str, int]] = {}
    for end in ends:
        for topic, topic_offsets in end.items():
            if topic not in start:
                continue
            for partition_number, offset in topic_offsets.items():
                known_offset = offsets.get(topic, {}).get(
                    partition_number, start[topic].get(partition_number, 0)
                )
                if known_offset < offset:
                    offsets.setdefault(topic, {})[partition_number] = offset
    return offsets


def resume_offsets(start: Offsets, committed_ends: Offsets) -> dict[str, dict[str, int]]:
    """Return the offsets from which a job continues after the records that the table has.

    Args:
        committed_ends: the result of `offsets_already_committed`.
    """
    return {
        topic: dict(sorted({**topic_offsets, **committed_ends.get(topic, {})}.items()))
        for topic, topic_offsets in sorted(start.items())
    }
