"""Coordinates the compactions of a table without keys and buckets, which join small files.

`table.job.table_state` owns it, on the driver. Several tasks may run in one partition,
each on its own files, and writes never wait for them. `planner_runner` plans tasks beside the job;
the rest belongs to the caller's thread. `FailedAppendTasks` decides which failed tasks run again,
and when.

Source: Paimon `append/AppendCompactCoordinator.java`,
`flink/source/AppendBypassCoordinateOperator.java`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from stream_app.clock import Clock, SystemClock
from stream_app.errors import CorruptFileError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.mergetree.compact.compact_manager import write_only_error
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.snapshot import Snapshot
from stream_app.planning.compact.append_compaction import Task
from stream_app.table.compact.append.append_task import SMALL_FILES, append_request
from stream_app.table.compact.append.planner_runner import PlannerRunner
from stream_app.table.compact.auto_policy import PolicyBounds
from stream_app.table.compact.back_pressure import BackPressure
from stream_app.table.compact.compact_coordinator import FullBounds
from stream_app.table.compact.compaction_failures import CompactionFailures
from stream_app.table.compact.compaction_metrics import (
    CompactionMetrics,
    TimedCompaction,
    UnfinishedCompaction,
    current_metrics,
    unfinished_compaction,
)
from stream_app.table.compact.compaction_report import FinishedCompaction
from stream_app.table.compact.dropped_compaction_counter import DroppedCompactionCounter
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)
PENDING_TASKS_MAX = 5000
"""The number of uncommitted tasks at which planning pauses."""


@dataclass(slots=True)
class _BegunTask:
    """A begun task, until its result is committed; `start_s` is by the steady clock."""

    request: CompactRequest
    future: Future[BucketChange]
    start_s: float
    is_overtaken: bool = False
    is_in_doubt: bool = False

    @property
    def bucket_id(self) -> BucketId:
        return self.request.bucket_id


class AppendCompactCoordinator:
    """A coordinator of tasks, which it keeps by the name of their first file.

    Implements `CompactCoordinator`.
    """

    def __init__(
        self, table: FileStoreTable, executor: CompactExecutor, age_clock: Clock | None = None
    ) -> None:
        self.table = table
        self.executor = executor
        self.age_clock = age_clock or SystemClock()
        self.failures = FailedAppendTasks(CompactionFailures(table.clock))
        self.dropped_compactions = DroppedCompactionCounter()
        # More files make reads slower, not wrong: without sorted runs no write ever waits.
        self.back_pressure = BackPressure(table.paths, {}, self.failures.bucket_failures)
        self.planner_runner = PlannerRunner(table)
        self._begun_tasks: dict[str, _BegunTask] = {}
        self._partitions: frozenset[bytes] | None = None
        self._changed_id = 0

    def load(self, buckets: Collection[BucketId], snapshot: Snapshot | None) -> None:
        """Do nothing: the planner finds files by itself."""

    def adapt(self, policy_bounds: PolicyBounds) -> None:
        """Do nothing: files without a key are not sorted runs, so they have no rules."""

    def policy_of(self, bucket_id: BucketId) -> str | None:  # noqa: ARG002
        """Return None; see `adapt`."""
        return None

    def restrict(self, partitions: Collection[bytes]) -> None:
        """Compact only these partitions."""
        if self._partitions != frozenset(partitions):
            # The restriction drops tasks that were planned for other partitions.
            self._partitions = frozenset(partitions)
            self.planner_runner.request_round(starts_anew=True)

    def reload(self, buckets: Iterable[BucketId], snapshot: Snapshot | None) -> None:
        """Mark begun tasks of changed buckets, whose results may conflict, and plan again."""
        changed_buckets = set(buckets)
        self._changed_id = snapshot.snapshot_id if snapshot else 0
        for begun_task in self._begun_tasks.values():
            begun_task.is_overtaken |= begun_task.bucket_id in changed_buckets
        self.planner_runner.request_round()

    def known_buckets(self) -> set[BucketId]:
        """Return the buckets with begun tasks."""
        return {begun_task.bucket_id for begun_task in self._begun_tasks.values()}

    def add_new_files(self, changes: Iterable[BucketChange]) -> None:
        """Plan again: the planner finds added files in the snapshot."""
        if any(change.added_files for change in changes):
            self.planner_runner.request_round()

    def trigger(self, *, expects_no_flush: bool = False) -> int:  # noqa: ARG002 - no row waits
        """Begin the planned tasks, and plan again if there are new snapshots."""
        self.planner_runner.limit_snapshots(None)
        return self._begin_tasks()

    def _begin_tasks(self) -> int:
        begun_count = self._take_plan()
        has_capacity = len(self._begun_tasks) < PENDING_TASKS_MAX
        is_due = self.planner_runner.is_due or bool(self.failures.due_tasks())
        if self.planner_runner.running_round is None and has_capacity and is_due:
            units = [begun_task.request.unit for begun_task in self._begun_tasks.values()]
            begun_names = {file.file_name for unit in units for file in unit.files}
            failed_tasks = self.failures.take_due_tasks()
            self.planner_runner.begin(begun_names | self.failures.skipped_files(), failed_tasks)
        return begun_count

    def trigger_full(self, full_bounds: FullBounds) -> set[BucketId]:
        """Begin compactions as `trigger` does, but only of files up to a snapshot."""
        if self.table.options[WRITE_ONLY]:
            raise write_only_error(self.table.location)
        self.planner_runner.limit_snapshots(full_bounds.last_snapshot_id)
        self._begin_tasks()
        return set()

    def is_idle(self) -> bool:
        """Return whether no task runs, is planned, or waits for its commit."""
        return self.planner_runner.running_round is None and not self._begun_tasks

    def unfinished_compactions(self) -> Sequence[UnfinishedCompaction]:
        """Return the tasks that wait for a thread or run. Any thread may call it."""
        return [
            unfinished_compaction(
                self.table.paths.partition_path(begun_task.request.partition),
                begun_task.request.bucket,
                begun_task.request.unit,
                begun_task.future,
            )
            for begun_task in list(self._begun_tasks.values())
            if not begun_task.future.done()
        ]

    def waiting_row_count(self) -> int:
        """Return 0, because readers see the rows of such a table at once."""
        return 0

    def metrics(self) -> CompactionMetrics:
        """Return metrics of begun tasks and failed attempts. Any thread may call it."""
        return current_metrics(
            (),
            [
                TimedCompaction(begun_task.future, begun_task.start_s)
                for begun_task in list(self._begun_tasks.values())
            ],
            now_s=self.age_clock.steady_seconds(),
            failed_count=self.failures.bucket_failures.failed_count,
            dropped_count=self.dropped_compactions.dropped_count,
        )

    def wait_for_any(self, timeout_s: float | None = None) -> None:
        """Wait until a task or the planning ends; return at once if neither runs."""
        futures: list[Future[Any]] = [
            begun_task.future for begun_task in self._begun_tasks.values()
        ]
        if self.planner_runner.running_round is not None:
            futures.append(self.planner_runner.running_round)
        if futures and not any(future.done() for future in futures):
            self.table.clock.wait_for_any(futures, timeout_s)

    def collect_finished_compactions(self) -> list[FinishedCompaction]:
        """Return results that wait for their commit. It logs failed tasks, which are planned again.

        It also begins newly planned tasks, for callers that only wait.
        """
        self._begin_tasks()
        results = []
        for name, begun_task in list(self._begun_tasks.items()):
            if not begun_task.future.done():
                continue
            error = begun_task.future.exception()
            if error is None:
                unit, change = begun_task.request.unit, begun_task.future.result()
                results.append(FinishedCompaction(unit, change, begun_task.is_overtaken))
            else:
                del self._begun_tasks[name]
                self.failures.note(
                    begun_task.request,
                    self.table.paths.bucket_folder(*begun_task.bucket_id),
                    error,
                )
        return results

    def apply(self, compactions: Iterable[FinishedCompaction]) -> None:
        """Note committed results, whose small files the planner may pick again."""
        for compaction in compactions:
            del self._begun_tasks[_first_file_name(compaction.change)]
            self.failures.bucket_failures.forget(compaction.bucket_id)
            self.dropped_compactions.forget(compaction.bucket_id)
        self.planner_runner.request_round()

    def note_doubt(self, compactions: Iterable[FinishedCompaction]) -> None:
        """Note that the results may or may not have been committed, so their files must stay."""
        for compaction in compactions:
            self._begun_tasks[_first_file_name(compaction.change)].is_in_doubt = True

    def discard(
        self,
        compactions: Iterable[FinishedCompaction],
        snapshot: Snapshot | None,  # noqa: ARG002 - the planner looks at the latest one
        reason: str,
    ) -> None:
        """Delete the files of results that cannot be committed, and read the snapshot again.

        Files of a result in doubt stay, because a snapshot may name them.
        """
        for compaction in compactions:
            begun_task = self._begun_tasks.pop(_first_file_name(compaction.change))
            self.dropped_compactions.note(
                compaction.bucket_id, self.table.paths.bucket_folder(*compaction.bucket_id), reason
            )
            if not begun_task.is_in_doubt:
                self.table.discard([compaction.change])
        self.planner_runner.request_round(starts_anew=True)

    def _take_plan(self) -> int:
        """Submit the planned tasks to the executor once the plan is ready.

        Raises:
            UnsupportedTableError: the table has a file that cannot be compacted.
        """
        plan = self.planner_runner.take_plan()
        if plan is None:
            return 0
        tasks = [
            (partition, files)
            for partition, files in plan.tasks
            if self._partitions is None or partition in self._partitions
        ]
        # Another writer may have compacted these files after the planner read them.
        is_overtaken = plan.seen_id < self._changed_id
        for partition, files in tasks:
            request = append_request(partition, 0, files, SMALL_FILES)
            future = self.executor.submit(request)
            start_s = self.age_clock.steady_seconds()
            self._begun_tasks[files[0].file_name] = _BegunTask(
                request, future, start_s, is_overtaken
            )
        return len(tasks)


def _first_file_name(change: BucketChange) -> str:
    return change.removed_files[0].file_name


@dataclass(slots=True)
class FailedAppendTasks:
    """The failed tasks, until they are planned again. Implements `FailedCompactions`.

    Attributes:
        bucket_failures: the failures by bucket, which decide when a retry is due.
    """

    bucket_failures: CompactionFailures[BucketId]
    _failed_tasks: list[Task] = field(init=False, default_factory=list)
    _damaged_files: dict[str, tuple[BucketId, BaseException]] = field(
        init=False, default_factory=dict
    )

    def note(self, request: CompactRequest, where: str, error: BaseException) -> None:
        """Note that a task failed."""
        bucket_id = request.bucket_id
        files = request.unit.files
        self.bucket_failures.note(bucket_id, where, error)
        error_path = error.where if isinstance(error, CorruptFileError) else ""
        damaged_names = {file.file_name for file in files if file.file_name in error_path}
        if damaged_names:
            self._damaged_files |= {name: (bucket_id, error) for name in damaged_names}
            _LOG.error(
                "%s: left as it is until the job is started again; the files beside it continue",
                ", ".join(sorted(damaged_names)),
            )
        undamaged_files = tuple(file for file in files if file.file_name not in damaged_names)
        if undamaged_files:
            self._failed_tasks.append((request.partition, undamaged_files))

    def due_tasks(self) -> list[Task]:
        """Return the failed tasks whose retry is due."""
        return [
            (partition, files)
            for partition, files in self._failed_tasks
            if not self.bucket_failures.must_wait(BucketId(partition, 0))
        ]

    def take_due_tasks(self) -> list[Task]:
        """Remove and return the tasks of `due_tasks`, which the caller plans again."""
        due_tasks = self.due_tasks()
        self._failed_tasks = [task for task in self._failed_tasks if task not in due_tasks]
        return due_tasks

    def skipped_files(self) -> set[str]:
        """Return the files that the planner must skip: they wait for a retry or are damaged."""
        waiting_names = {file.file_name for _, files in self._failed_tasks for file in files}
        return self._damaged_files.keys() | waiting_names

    def to_be_retried(self) -> set[BucketId]:
        """Return the buckets with a failed task that has attempts left."""
        return self.bucket_failures.to_be_retried()

    def stuck_errors(self) -> dict[BucketId, BaseException | None]:
        """Return buckets whose tasks keep failing or whose files are damaged, with the error."""
        return {**self.bucket_failures.stuck_errors(), **dict(self._damaged_files.values())}

    def seconds_until_retry(self) -> float | None:
        """Return the seconds until the next retry; None when no retry is worth waiting for."""
        return self.bucket_failures.seconds_until_retry() if self._failed_tasks else None
