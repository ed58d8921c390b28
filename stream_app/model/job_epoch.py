"""Describes a job's newest commit, which the table records for the job's next start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EPOCHS_PROPERTY = "stream_app.epochs"
"""Key of a snapshot's property: the newest epoch of each job; see `planning.commit.job_epochs`."""
Offsets = Mapping[str, Mapping[str, int]]
"""Topic → Kafka partition → offset, as the ends of epochs and Spark's checkpoint have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEpoch:
    """The newest epoch of one job.

    Attributes:
        identifier: the commit identifier, which is the epoch's number.
        time_ms: the commit time, in ms since 1970 in UTC.
        source_end: the end of the epoch in the source's format; None if unknown.
    """

    identifier: int
    time_ms: int
    source_end: str | None = None
