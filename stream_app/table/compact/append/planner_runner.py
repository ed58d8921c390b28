"""Runs the rounds of the append planner in threads, and decides when the next round is due.

Planning reads manifests, and the job must not wait for that. The thread that calls
`append_coordinator` owns the rounds. The thread of a running round owns the planner.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from threading import Thread

from stream_app.errors import UnsupportedTableError
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.planning.compact.append_compaction import Task
from stream_app.table.compact.append.append_planner import AppendCompactPlanner, AppendPlan
from stream_app.table.compact.compaction_failures import FAILURES_MAX
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)


class PlannerRunner:
    """A runner of the rounds of one table's planner, one at a time.

    Attributes:
        is_due: whether another round may find files.
        running_round: the running round, or one whose plan is not taken yet; else None.
    """

    def __init__(self, table: FileStoreTable) -> None:
        self.is_due = not table.options[WRITE_ONLY]
        self.running_round: Future[AppendPlan] | None = None
        self._table = table
        self._planner = AppendCompactPlanner(table)
        self._last_id: int | None = None
        self._starts_anew = False
        self._failure_count = 0

    def request_round(self, *, starts_anew: bool = False) -> None:
        """Request a round; `starts_anew` forgets all files and reads the latest snapshot."""
        self._starts_anew |= starts_anew
        self.is_due = not self._table.options[WRITE_ONLY]

    def limit_snapshots(self, last_id: int | None) -> None:
        """Set the last snapshot to read; None removes the limit and requests a round."""
        if last_id is None and self._last_id is not None:
            self.request_round()
        self._last_id = last_id

    def begin(self, excluded_names: Collection[str], failed_tasks: Sequence[Task]) -> None:
        """Begin a round with the arguments of `AppendCompactPlanner.plan`."""
        starts_anew, self._starts_anew = self._starts_anew, False
        if starts_anew:
            failed_tasks = ()  # the planner finds these files like any others
        self.is_due = False
        running_round = Future[AppendPlan]()
        last_id = self._last_id

        def plan() -> None:
            try:
                running_round.set_result(
                    self._planner.plan(
                        excluded_names=excluded_names,
                        failed_tasks=failed_tasks,
                        starts_anew=starts_anew,
                        last_id=last_id,
                    )
                )
            except BaseException as error:
                running_round.set_exception(error)

        self.running_round = running_round
        Thread(target=plan, name="compaction-planner", daemon=True).start()

    def take_plan(self) -> AppendPlan | None:
        """Return the plan of a finished round, else None. After a failure a new round is due.

        Raises:
            UnsupportedTableError: the table has a file that cannot be compacted.
        """
        if self.running_round is None or not self.running_round.done():
            return None
        ended_round, self.running_round = self.running_round, None
        error = ended_round.exception()
        if isinstance(error, UnsupportedTableError):
            raise error
        if error is not None:
            # Most likely the snapshot expired during the read; the next round finds a newer one.
            _LOG.error("compactions of %s could not be planned: %s", self._table.location, error)
            self._starts_anew = True
            self._failure_count += 1
            self.is_due = self._failure_count < FAILURES_MAX
            return None
        self._failure_count = 0
        plan = ended_round.result()
        self.is_due |= plan.has_more
        return plan
