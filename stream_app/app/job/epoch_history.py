"""The newest epochs of each table of a running job, with their times; kept in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_app.spark.ingest.table_feed import EpochReport

KEPT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTimes:
    """One epoch of one table.

    Attributes:
        time_ms: when it was committed, since 1970 in UTC.
        wait_s, write_s, commit_s: seconds; as in `EpochReport`.
    """

    epoch: int
    time_ms: int
    messages: int
    bytes: int
    wait_s: float
    write_s: float
    commit_s: float

    @property
    def seconds(self) -> float:
        """All parts together."""
        return self.wait_s + self.write_s + self.commit_s


@dataclass(slots=True)
class EpochHistory:
    """Of each table by its name; the only table of a job has the name ''."""

    _epochs: dict[str, deque[EpochTimes]] = field(default_factory=dict)

    def add(self, table: str, report: EpochReport, time_ms: int) -> None:
        """An epoch is committed."""
        kept = self._epochs.setdefault(table, deque(maxlen=KEPT))
        kept.append(
            EpochTimes(
                epoch=report.epoch,
                time_ms=time_ms,
                messages=report.counts.messages,
                bytes=report.bytes,
                wait_s=report.wait_s,
                write_s=report.write_s,
                commit_s=report.commit_s,
            )
        )

    def of(self, table: str) -> Sequence[EpochTimes]:
        """Oldest first; called from other threads than `add`."""
        return tuple(self._epochs.get(table, ()))
