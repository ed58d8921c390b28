"""Runs a table's upkeep beside the job's commits: tags and expiry.

Upkeep runs after each commit, and at intervals while the job is idle, because tasks become due by
time. It also runs before rows arrive, to tag periods that ended without rows.

No error of upkeep stops the job: it is logged and counted, and the task runs again later. The task
that commits runs in the caller's thread, so it never overlaps the job's other commits. The other
tasks run there too, or in a separate thread (``snapshot.expire.execution-mode``).

Source: Paimon `table/sink/TableCommitImpl.java#maintain`.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial

from stream_app.errors import StreamAppError
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.options.expire_options import (
    PARTITION_EXPIRATION_CHECK_INTERVAL,
    SNAPSHOT_EXPIRE_EXECUTION_MODE,
)
from stream_app.model.options.scan_options import CONSUMER_EXPIRATION_TIME
from stream_app.planning.upkeep.expire_range import ExpireConfig, expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_changelogs import ExpireChangelogs
from stream_app.table.upkeep.expire_partitions import (
    ExpirePartitions,
    PartitionRetention,
    partition_retention,
)
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots, Expiry, SnapshotExpiry
from stream_app.table.upkeep.tag_upkeep import TagUpkeep
from stream_app.table.upkeep.tags import tag_rules

_LOG = logging.getLogger(__name__)
_IDLE_WAIT_S = 10.0
"""Wait for the next upkeep after a commit or work; doubles after each upkeep without work.

So a task that becomes due t seconds after the last commit runs within 2 t seconds of the commit.
"""
_IDLE_WAIT_MAX_S = 600.0
"""The maximum of the wait that doubles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceMetrics:
    """Counts of finished upkeep, of one step or since the job began.

    Attributes:
        file_count, byte_count: deleted files, and their bytes as far as sizes are known.
        failures: tasks that ended with an error.
        run_s: the run time of all tasks in seconds, including those in a separate thread.
    """

    snapshots_expired: int = 0
    partitions_expired: int = 0
    file_count: int = 0
    byte_count: int = 0
    failures: int = 0
    run_s: float = 0.0

    @property
    def work_count(self) -> int:
        """A number that grows with each expired snapshot or partition, and each deleted file."""
        return self.snapshots_expired + self.partitions_expired + self.file_count

    def plus(self, other: MaintenanceMetrics) -> MaintenanceMetrics:
        """Return the sum of both counts."""
        # Each run of upkeep adds a few of these; `asdict` would take two thirds of its time.
        return MaintenanceMetrics(
            snapshots_expired=self.snapshots_expired + other.snapshots_expired,
            partitions_expired=self.partitions_expired + other.partitions_expired,
            file_count=self.file_count + other.file_count,
            byte_count=self.byte_count + other.byte_count,
            failures=self.failures + other.failures,
            run_s=self.run_s + other.run_s,
        )


@dataclass(slots=True)
class UpkeepTask:
    """A task of upkeep.

    Attributes:
        name: a phrase for the log.
        run: does and logs the due work, and yields the counts after each step.
        interval_s: the seconds between two runs; 0: at each opportunity.
    """

    name: str
    run: Callable[[], Iterator[MaintenanceMetrics]]
    interval_s: float = 0.0
    _run_start_s: float = field(init=False, default=-math.inf)

    def begin_if_due(self, now_s: float) -> bool:
        """Return whether the interval has passed; if so, begin the next interval."""
        is_due = now_s - self._run_start_s >= self.interval_s
        self._run_start_s = now_s if is_due else self._run_start_s
        return is_due


class TableMaintenance:
    """The maintenance tasks of one table; a write-only job has none.

    Any thread may call `metrics`; the rest is not thread safe.

    Raises:
        UsageError: on construction: the options of expiry or of tags contradict each other.
    """

    def __init__(self, table: FileStoreTable) -> None:
        self._table = table
        self._identity = table.identity()
        self._is_gone = False
        self._metrics = MaintenanceMetrics()
        self._metrics_lock = threading.Lock()
        self._tag_upkeep = TagUpkeep(table)
        self._tags_lock = threading.Lock()  # the caller and the separate thread keep the tags
        self._tasks = [] if table.options[WRITE_ONLY] else self._all_tasks()
        self._upkeep_at_s = self._idle_check_at_s = table.clock.steady_seconds()
        self._wait_s = _IDLE_WAIT_S
        self._known_work_count = 0
        is_async = table.options[SNAPSHOT_EXPIRE_EXECUTION_MODE] == "async"
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="expire") if is_async else None
        self._async_run: Future[None] | None = None

    def _all_tasks(self) -> list[UpkeepTask]:
        """Return the tasks; the committing one is first, and tags and consumers precede expiry."""
        table, options = self._table, self._table.options
        config = expire_config(options)
        tag_rules(table)
        interval_s = options[PARTITION_EXPIRATION_CHECK_INTERVAL] / 1000
        partitions = partial(_expire_partitions, table, partition_retention(options))
        snapshots = partial(_expire_snapshots, ExpireSnapshots(table), config)
        changelogs = partial(_expire_changelogs, ExpireChangelogs(table), config)
        return [
            UpkeepTask("dropping old partitions", partitions, interval_s),
            UpkeepTask("creating and deleting tags", self._keep_tags),
            UpkeepTask("deleting expired consumers", self._expire_consumers),
            UpkeepTask("expiring snapshots", snapshots),
            UpkeepTask("expiring changelogs", changelogs),
        ]

    def after_commit(self) -> None:
        """Run the due tasks after a snapshot. Never raises."""
        if self._tasks:
            self._run_upkeep()
            self._wait_s = _IDLE_WAIT_S

    def adopt(self, table: FileStoreTable) -> None:
        """Continue with another schema of the table.

        Raises:
            UsageError: the schema's options of expiry or of tags contradict each other.
        """
        if self._async_run is not None:
            wait([self._async_run])
        self._table, self._tag_upkeep = table, TagUpkeep(table)
        self._tasks = [] if table.options[WRITE_ONLY] else self._all_tasks()

    def before_rows(self) -> None:
        """Tag the periods that have ended, before an epoch begins. Never raises.

        It reads the table only at the first call, and when a period has ended.
        """
        if self._tasks:
            self._run("creating the tags of periods that have ended", self._tag_if_due)

    def while_idle(self) -> None:
        """Run the tasks that are due while the job is idle. Never raises.

        It may be called at any rate. It reads the table at intervals, and when a tag is due.
        """
        now_s = self._table.clock.steady_seconds()
        if not self._tasks or now_s - self._idle_check_at_s < _IDLE_WAIT_S:
            return
        self._idle_check_at_s = now_s
        self.before_rows()
        if now_s - self._upkeep_at_s >= self._wait_s:
            did_work = self._run_upkeep()
            self._wait_s = _IDLE_WAIT_S if did_work else min(2 * self._wait_s, _IDLE_WAIT_MAX_S)

    def metrics(self) -> MaintenanceMetrics:
        """Return the counts since the job began."""
        return self._metrics

    def close(self) -> None:
        """Wait for the tasks in the separate thread."""
        if self._executor is not None:
            self._executor.shutdown()

    def _run_upkeep(self) -> bool:
        """Run the due tasks, and return whether any that has ended had work."""
        work_count_before = self._known_work_count
        is_checked = self._run(
            "checking that the table was not dropped", self._detect_dropped_table
        )
        if is_checked and not self._is_gone:
            committing_task, *other_tasks = self._tasks
            self._run_due_tasks([committing_task])
            if self._executor is None:
                self._run_due_tasks(other_tasks)
            elif self._async_run is None or self._async_run.done():
                self._async_run = self._executor.submit(self._run_due_tasks, other_tasks)
            self._known_work_count = self._metrics.work_count
        self._upkeep_at_s = self._idle_check_at_s = self._table.clock.steady_seconds()
        return self._known_work_count != work_count_before

    def _run_due_tasks(self, tasks: Iterable[UpkeepTask]) -> None:
        for task in tasks:
            if task.begin_if_due(self._table.clock.steady_seconds()):
                self._run(task.name, task.run)

    def _run(self, name: str, run: Callable[[], Iterator[MaintenanceMetrics]]) -> bool:
        """Run one task, log and count its outcome, and return whether it succeeded."""
        start_s = self._table.clock.steady_seconds()
        failure_count = 0
        try:
            for metrics in run():
                self._count(metrics)
        except Exception as error:
            is_expected = isinstance(error, (StreamAppError, OSError))
            _LOG.warning("%s failed: %s", name, error, exc_info=not is_expected)
            failure_count = 1
        run_s = self._table.clock.steady_seconds() - start_s
        self._count(MaintenanceMetrics(failures=failure_count, run_s=run_s))
        return not failure_count

    def _count(self, metrics: MaintenanceMetrics) -> None:
        with self._metrics_lock:
            self._metrics = self._metrics.plus(metrics)

    def _detect_dropped_table(self) -> Iterator[MaintenanceMetrics]:
        """Detect that the table was dropped or recreated, so that upkeep leaves the path alone."""
        was_gone = self._is_gone
        try:
            self._is_gone = was_gone or self._table.identity() != self._identity
        except (FileNotFoundError, IndexError):  # a table without schemas does not exist
            self._is_gone = True
        if self._is_gone and not was_gone:
            _LOG.warning(
                "%s was dropped, or recreated: this job does no upkeep there; start the job again",
                self._table.location,
            )
        yield MaintenanceMetrics()

    def _tag_if_due(self) -> Iterator[MaintenanceMetrics]:
        if not self._is_gone and self._tag_upkeep.is_due():
            yield from self._detect_dropped_table()
            if not self._is_gone:
                yield from self._keep_tags(makes_snapshots=True)

    def _keep_tags(self, *, makes_snapshots: bool = False) -> Iterator[MaintenanceMetrics]:
        with self._tags_lock:
            report = self._tag_upkeep.run(makes_snapshots=makes_snapshots)
        if report.created_names:
            _LOG.info("gave the tags %s", ", ".join(report.created_names))
        if report.deleted_names:
            _LOG.info(
                "deleted the tags %s: %d files", ", ".join(report.deleted_names), report.file_count
            )
        yield MaintenanceMetrics(file_count=report.file_count, byte_count=report.byte_count)

    def _expire_consumers(self) -> Iterator[MaintenanceMetrics]:
        expiration_ms = self._table.options[CONSUMER_EXPIRATION_TIME]
        if expiration_ms is None:
            return
        for consumer in self._table.consumers.expire(self._table.clock.now_ms(), expiration_ms):
            _LOG.warning(
                "the consumer %s is forgotten: it has read nothing for too long",
                consumer.consumer_id,
            )
        yield MaintenanceMetrics()


def _expire_partitions(
    table: FileStoreTable, retention: PartitionRetention | None
) -> Iterator[MaintenanceMetrics]:
    if retention is None or not table.schema.partition_keys:
        return
    expire_partitions = ExpirePartitions(table, retention)
    for dropped_partitions in expire_partitions.execute(expire_partitions.plan()):
        count = len(dropped_partitions.partitions)
        _LOG.info(
            "snapshot %d drops %d partitions: %s",
            dropped_partitions.snapshot.snapshot_id,
            count,
            ", ".join(
                table.paths.partition_path(partition.partition)
                for partition in dropped_partitions.partitions
            ),
        )
        yield MaintenanceMetrics(partitions_expired=count)


def _expire_snapshots(
    expire_snapshots: ExpireSnapshots, config: ExpireConfig
) -> Iterator[MaintenanceMetrics]:
    expiry = expire_snapshots.plan(config)
    expire_snapshots.execute(expiry)
    if expiry.announcement is not None:
        yield _expiry_metrics("snapshots", expiry)


def _expire_changelogs(
    expire_changelogs: ExpireChangelogs, config: ExpireConfig
) -> Iterator[MaintenanceMetrics]:
    expiry = expire_changelogs.plan(config)
    expire_changelogs.execute(expiry)
    if expiry.snapshot_ids:
        yield _expiry_metrics("changelogs", expiry)


def _expiry_metrics(versions: str, expiry: Expiry) -> MaintenanceMetrics:
    first_id, last_id = expiry.snapshot_ids[0], expiry.snapshot_ids[-1]
    count, size = expiry.files.count, expiry.files.byte_count
    _LOG.info(
        "expired %s %d to %d: %d files, %.1f MB", versions, first_id, last_id, count, size / 1e6
    )
    expired_count = len(expiry.snapshot_ids) if isinstance(expiry, SnapshotExpiry) else 0
    return MaintenanceMetrics(snapshots_expired=expired_count, file_count=count, byte_count=size)
