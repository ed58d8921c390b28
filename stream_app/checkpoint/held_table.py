"""Describes a held table: why it waits, and the offsets at which it resumes.

A table that fails does not stop the other tables. The changes of a held table stay in the topic
until the cause has passed or is fixed. Then an extra epoch brings the table up to the others. The
job's state records the offsets at which the table resumes, before it records the epoch that the
table lacks. So no change is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.job_epoch import Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTable:
    """A table that is held back.

    Attributes:
        since_epoch: the first epoch that it lacks.
        start: the first offsets that it lacks; newer partitions are missing.
        reason: the text of the error.
        since_ms, retry_ms: when the table was first held back, and when the job retries it, in UTC.
            `retry_ms` is None if only an operator can fix the cause. The table then waits for
            ``resume``, or for a restart of the job.
        tries: number of consecutive failures; 0 if the table only waits for its compactions.
    """

    since_epoch: int
    start: Offsets
    reason: str
    since_ms: int
    retry_ms: int | None
    tries: int = 1

    @property
    def has_failed(self) -> bool:
        """Whether the table has failed; otherwise it only waits for its compactions."""
        return self.tries > 0


def with_new_partitions(start: Offsets, epoch_offsets: Offsets) -> Offsets:
    """Return the offsets at which the table resumes, with partitions of later epochs."""
    return {
        topic: {**epoch_offsets.get(topic, {}), **start.get(topic, {})}
        for topic in {*start, *epoch_offsets}
    }
