"""States what operators see of one table of a job, in lists and pages.

`job_status` derives it from the job's checkpoint and the table. `app.web` and `app.cli` show it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

SHORT_REASON = 80
"""The maximum length of a reason in a list of tables."""


class JobTableState(StrEnum):
    """The state of one table of a job.

    Attributes:
        READY: readers get all epochs.
        HELD: an error holds the table back.
        WAITING: rows wait for compactions.
        EMPTY: no epoch had rows for it.
        LOADING: its first load has not ended.
        MISSING: the table does not exist.
        UNREADABLE: its files cannot be read.
        REFUSED: the job does not store the source table that `TableStatus.table` names.
        BEHIND: ready, but older than ``max-staleness`` (pages, `top`).
    """

    READY = "ready"
    HELD = "held"
    WAITING = "waiting"
    EMPTY = "empty"
    LOADING = "loading"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    BEHIND = "behind"


_FAILED_STATES = (
    JobTableState.HELD,
    JobTableState.MISSING,
    JobTableState.UNREADABLE,
    JobTableState.REFUSED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """The status of one table of a job.

    Attributes:
        epoch: the newest epoch that has changed the table, or None.
        lag: the number of messages in the table's topics that it lacks, or None if unknown.
        fresh_s: the seconds by which the table is behind its source, by message times; 0 if no
            message is unread, None if unknown.
        changed_s: the number of seconds since the commit of the table's newest epoch.
        sorted_runs: the number of sorted runs of the bucket that has most of them.
        waiting_rows: the number of committed rows that readers get only after a compaction.
        proven_s: the number of seconds since a comparison found the table equal to its source.
        proven_at: the source's position in that comparison, such as ``LSN 0/1A2B``.
        proven_without: the columns that this comparison left out, or None.
    """

    table: str
    state: JobTableState
    epoch: int | None = None
    snapshot: int | None = None
    lag: int | None = None
    fresh_s: int | None = None
    changed_s: int | None = None
    sorted_runs: int | None = None
    waiting_rows: int = 0
    proven_s: int | None = None
    proven_at: str | None = None
    proven_without: str | None = None
    reason: str | None = None

    @property
    def has_error(self) -> bool:
        """Whether epochs or readers fail. Rows that wait and a table that is behind may recover."""
        return self.state in _FAILED_STATES

    @property
    def is_trouble(self) -> bool:
        """Whether a person should read the reason: an error, rows that wait, or a table behind.

        The reason of a loading table is its progress.
        """
        return self.reason is not None and self.state is not JobTableState.LOADING

    @property
    def proven_text(self) -> str:
        """The position of the newest proof, and the columns that it leaves out."""
        columns = f"; without {self.proven_without}" if self.proven_without else ""
        return f"equal at {self.proven_at}{columns}"


def shorten_reason(status: TableStatus) -> TableStatus:
    """Return the status with only the first line of its reason, shortened to fit into a list."""
    if status.reason is None:
        return status
    [line, *more_lines] = status.reason.splitlines() or [""]
    short_line = line[: SHORT_REASON - 1] if more_lines or len(line) > SHORT_REASON else line
    is_whole = short_line == status.reason
    return replace(status, reason=short_line if is_whole else f"{short_line.rstrip(':;,. ')}…")
