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
_FOREIGN_COMMITS_MAX = 20
"""Commits by other writers during a `compact_due`, after which it begins no further compactions."""


@dataclass(slots=True)
class OtherCommitCounter:
    """A counter of commits by other writers while due compactions run."""

    state: TableState
    _count: int = field(init=False, default=0)
    _known_id: int = field(init=False)

    def __post_init__(self) -> None:
        self._known_id = self.state.commit_history.known_id

    def count_commit(self, published: Snapshot | None) -> bool:
        """Count a commit by other writers, and return whether they keep `compact_due` from ending.

        Args:
            published: the snapshot that `compact_due` has just published, if any.
        """
        known_id = self.state.commit_history.known_id
        previous_count = self._count
        own_count = 0 if published is None else 1
        if known_id > self._known_id + own_count:
            self._count += 1
        self._known_id = known_id
        if previous_count < _FOREIGN_COMMITS_MAX <= self._count:
            _LOG.warning(
                "%s: other writers commit faster than the job compacts; they or the next run "
                "compact what they leave",
                self.state.table.location,
            )
        return self._count >= _FOREIGN_COMMITS_MAX
