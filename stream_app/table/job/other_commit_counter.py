"""Decides when other writers commit too often for a job to compact everything that is due.

`stream_table_commit` asks after each compaction. Without the limit, a job that compacts before it
ends would run as long as the other writers do.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from stream_app.model.snapshot import Snapshot
from stream_app.table.job.table_state import TableState

_LOG = logging.getLogger(__name__)
_OTHER_COMMITS_MAX = 20
"""Looks of a `compact_due` that see commits by others, after which it begins no compactions."""


@dataclass(slots=True)
class OtherCommitCounter:
    """A counter of commits by other writers while due compactions run."""

    state: TableState
    _count: int = field(init=False, default=0)
    _known_id: int = field(init=False)

    def __post_init__(self) -> None:
        self._known_id = self.state.commit_history.known_id

    @property
    def is_at_limit(self) -> bool:
        """Whether other writers keep `compact_due` from ending."""
        return self._count >= _OTHER_COMMITS_MAX

    def note_commits(self, published_snapshot: Snapshot | None) -> None:
        """Count a commit if other writers committed since the previous call.

        Args:
            published_snapshot: the snapshot that `compact_due` has just published, if any.
        """
        known_id = self.state.commit_history.known_id
        was_at_limit = self.is_at_limit
        own_count = 0 if published_snapshot is None else 1
        if known_id > self._known_id + own_count:
            self._count += 1
        self._known_id = known_id
        if self.is_at_limit and not was_at_limit:
            _LOG.warning(
                "%s: other writers commit faster than the job compacts; they or the next run "
                "compact what they leave",
                self.state.table.location,
            )
