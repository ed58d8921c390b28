"""What a job does for its table beside its commits: tags are given, and what is old goes.

After each commit; while nothing is committed, now and then (`planning.upkeep.idle_wait`), for time
alone makes things due; and before rows come in, the tags of periods that have ended without them.

Nothing here may stop the job: an error is logged and counted, and the step is done again later.
Steps that commit are done at once, in the caller, who commits nothing meanwhile; the expiry of
snapshots is done at once too, or beside the job in one thread (``snapshot.expire.execution-mode``).
Each time no more goes than the options allow.

Source: Paimon `table/sink/TableCommitImpl.java#maintain`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from stream_app.errors import StreamAppError
from stream_app.planning.upkeep.expire_config import expire_config
from stream_app.planning.upkeep.idle_wait import IDLE_WAIT_S, next_idle_wait_s
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_changelogs import ExpireChangelogs
from stream_app.table.upkeep.expire_partitions import ExpirePartitions, partition_retention
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.tag_upkeep import TagUpkeep
from stream_app.table.upkeep.tags import tag_rules

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceMetrics:
    """What was done since the job began.

    Attributes:
        files, bytes: that were deleted; bytes as far as sizes are known.
        failures: steps that ended with an error.
        seconds: that all steps took, also those beside the job.
    """

    snapshots_expired: int = 0
    partitions_expired: int = 0
    files: int = 0
    bytes: int = 0
    failures: int = 0
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """A number that grows with all that went."""
        return self.snapshots_expired + self.partitions_expired + self.files


@dataclass(slots=True)
class TableMaintenance:
    """Does it, for one table; a write-only job does nothing of it.

    `metrics` is called by any thread, all else by one at a time.

    Raises:
        UsageError: when it is made: the options of expiry, or of tags, do not fit together.
    """

    table: FileStoreTable
    _metrics: MaintenanceMetrics = field(default_factory=MaintenanceMetrics)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tagging: threading.Lock = field(default_factory=threading.Lock)
    _snapshots: ExpireSnapshots = field(init=False)
    _changelogs: ExpireChangelogs = field(init=False)
    _tags: TagUpkeep = field(init=False)
    _thread: ThreadPoolExecutor | None = None
    _running: Future[None] | None = None
    _partitions_checked: float | None = None
    _looked_at: float = field(init=False)
    _glanced_at: float = field(init=False)
    _wait_s: float = IDLE_WAIT_S
    _done: int = 0
    _identity: str = field(init=False)
    _is_gone: bool = False
    _has_told: bool = False

    def __post_init__(self) -> None:
        if not self.table.options.boolean("write-only"):
            expire_config(self.table.options)
            partition_retention(self.table.options)
            tag_rules(self.table)
        self._snapshots = ExpireSnapshots(self.table)
        self._changelogs = ExpireChangelogs(self.table)
        self._tags = TagUpkeep(self.table)
        self._identity = self.table.identity()
        self._looked_at = self._glanced_at = self.table.clock.steady_seconds()
        if self.table.options.text("snapshot.expire.execution-mode") == "async":
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="expire")

    def after_commit(self) -> None:
        """A snapshot was made: do what is due. Never raises."""
        if self.table.options.boolean("write-only"):
            return
        self._upkeep()
        self._wait_s = IDLE_WAIT_S

    def before_rows(self) -> None:
        """An epoch is about to begin: periods that have ended get their tags first. Never raises.

        Asks the table only the first time, and when a period has ended.
        """
        if not self.table.options.boolean("write-only"):
            self._step("giving the tags of periods that have ended", self._tag_if_due)

    def while_idle(self) -> None:
        """Nothing was committed: do what has become due meanwhile. Never raises.

        May be called as often as one likes: it looks at the table now and then, and when the clock
        says that a tag is due.
        """
        now = self.table.clock.steady_seconds()
        if self.table.options.boolean("write-only") or now - self._glanced_at < IDLE_WAIT_S:
            return
        self._glanced_at = now
        self.before_rows()
        if now - self._looked_at >= self._wait_s:
            was_due = self._upkeep()
            self._wait_s = next_idle_wait_s(self._wait_s, was_due=was_due)

    def _upkeep(self) -> bool:
        """Do what is due; whether something was, as far as it is done."""
        done = self._done
        looked = self._step("looking whether the table is the same", self._look_for_table)
        if not looked or self._is_gone:
            self._looked_at = self._glanced_at = self.table.clock.steady_seconds()
            return False
        self._step("dropping old partitions", self._expire_partitions)
        if self._thread is None:
            self._expire()
        elif self._running is None or self._running.done():
            self._running = self._thread.submit(self._expire)
        self._looked_at = self._glanced_at = self.table.clock.steady_seconds()
        self._done = self._metrics.done
        return self._done != done

    def metrics(self) -> MaintenanceMetrics:
        """What was done since the job began."""
        return self._metrics

    def close(self) -> None:
        """Wait for what is being done beside the job."""
        if self._thread is not None:
            self._thread.shutdown()

    def _expire(self) -> None:
        # Tags come first: what they name shall not expire.
        self._step("giving and deleting tags", self._tag)
        # Consumers that are gone must not keep what nobody will read.
        self._step("forgetting old consumers", self._expire_consumers)
        self._step("expiring snapshots", self._expire_snapshots)
        self._step("expiring changelogs", self._expire_changelogs)

    def _step(self, what: str, do: Callable[[], None]) -> bool:
        """Whether it ended without an error."""
        began = self.table.clock.steady_seconds()
        failed = False
        try:
            do()
        except Exception as error:
            known = isinstance(error, (StreamAppError, OSError))
            _LOG.warning("%s failed: %s", what, error, exc_info=not known)
            self._count(failures=1)
            failed = True
        self._count(seconds=self.table.clock.steady_seconds() - began)
        return not failed

    def _look_for_table(self) -> None:
        """A table that was made anew in the place of ours has other options: it is left alone."""
        try:
            self._is_gone = self._is_gone or self.table.identity() != self._identity
        except (FileNotFoundError, IndexError):  # without its schemas it is no table
            self._is_gone = True
        if self._is_gone and not self._has_told:
            self._has_told = True
            _LOG.warning(
                "%s was dropped, or made anew: this job does no upkeep there; start it again",
                self.table.location,
            )

    def _expire_partitions(self) -> None:
        retention = partition_retention(self.table.options)
        now = self.table.clock.steady_seconds()
        interval = self.table.options.integer("partition.expiration-check-interval") / 1000
        last = self._partitions_checked
        due = last is None or now - last >= interval
        if retention is None or not due or not self.table.schema.partition_keys:
            return
        self._partitions_checked = now
        expire = ExpirePartitions(self.table, retention)
        for done in expire.execute(expire.plan()):
            names = ", ".join(self.table.paths.partition(p.partition) for p in done.partitions)
            count, number = len(done.partitions), done.snapshot.snapshot_id
            _LOG.info("snapshot %d drops %d partitions: %s", number, count, names)
            self._count(partitions_expired=count)

    def _tag_if_due(self) -> None:
        if not self._is_gone and self._tags.is_due():
            self._look_for_table()
            if not self._is_gone:
                self._tag(makes_snapshots=True)

    def _tag(self, *, makes_snapshots: bool = False) -> None:
        with self._tagging:  # beside the thread's
            report = self._tags.run(makes_snapshots=makes_snapshots)
        if report.created:
            _LOG.info("gave the tags %s", ", ".join(report.created))
        if report.deleted:
            _LOG.info("deleted the tags %s: %d files", ", ".join(report.deleted), report.files)
        self._count(files=report.files, bytes=report.bytes)

    def _expire_consumers(self) -> None:
        expiration_ms = self.table.options.optional_integer("consumer.expiration-time")
        if expiration_ms is None:
            return
        for consumer in self.table.consumers.expire(self.table.clock.now_ms(), expiration_ms):
            _LOG.warning(
                "the consumer %s is forgotten: it has read nothing for too long",
                consumer.consumer_id,
            )

    def _expire_snapshots(self) -> None:
        expiry = self._snapshots.plan(expire_config(self.table.options))
        if not expiry.numbers or expiry.announcement is None:
            return
        self._snapshots.execute(expiry)
        files = expiry.files
        _LOG.info(
            "expired snapshots %d to %d: %d files, %.1f MB",
            expiry.numbers[0],
            expiry.numbers[-1],
            files.count,
            files.byte_count / 1e6,
        )
        self._count(
            snapshots_expired=len(expiry.numbers), files=files.count, bytes=files.byte_count
        )

    def _expire_changelogs(self) -> None:
        expiry = self._changelogs.plan(expire_config(self.table.options))
        self._changelogs.execute(expiry)
        self._count(files=expiry.files.count, bytes=expiry.files.byte_count)

    def _count(self, **more: float) -> None:
        with self._lock:
            known = {name: getattr(self._metrics, name) + count for name, count in more.items()}
            self._metrics = replace(self._metrics, **known)
