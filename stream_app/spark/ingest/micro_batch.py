"""One epoch: messages → blocks → files → snapshots, for each table of the job.

`MicroBatch` is what Spark calls for each micro-batch (`foreachBatch`), on the driver. It is the
only one who commits: an idle commit takes the same lock, and so does upkeep.

The source is read once for all tables. Each table is committed for itself: an epoch that some
tables have already, because the job ended between two commits, is written for the others alone.

Source: Paimon `table/sink/StreamTableCommit.java`.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol

import pyarrow as pa

from stream_app.cdc.message_format import MessageFormat
from stream_app.clock import Clock
from stream_app.errors import StoppedError
from stream_app.model.snapshot import SOURCE_END_PROPERTY, Snapshot
from stream_app.spark.epoch.decode_counts import DecodeCounts, TablesSeen
from stream_app.spark.epoch.epoch_plan import EpochPlan, EpochShape, TablePlan
from stream_app.spark.epoch.epoch_runner import EpochRunner, Messages, TableOutput
from stream_app.spark.ingest.dead_letters import DeadLetters, SetAside
from stream_app.spark.task_errors import first_line, readable
from stream_app.table.compact.metrics import CompactionMetrics
from stream_app.table.compact.report import CompactionReport
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import IdleReport, TableJob

_LOG = logging.getLogger(__name__)
OFFSETS_PROPERTY = "stream_app.offsets"
"""Key of a snapshot's property: the last offset of each partition that the epoch read, as JSON."""

_SOURCE_ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """What an epoch did to one table and how long it took (seconds).

    Attributes:
        skipped: whether the table had the epoch already.
        set_aside: the bad records; None: there are none.
        wait_s: back-pressure before the epoch's work, of all tables.
        write_s: reading, decoding, routing and writing: the Spark job, of all tables.
        sorted_runs, compactions, metrics: as in `IdleReport`, at the epoch's end.
    """

    epoch: int
    skipped: bool = False
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    set_aside: SetAside | None = None
    buckets: int = 0
    files: int = 0
    bytes: int = 0
    wait_s: float = 0.0
    write_s: float = 0.0
    commit_s: float = 0.0
    snapshots: tuple[Snapshot, ...] = ()
    sorted_runs: Mapping[int, int] = field(default_factory=dict)
    compactions: tuple[CompactionReport, ...] = ()
    metrics: CompactionMetrics = field(default_factory=CompactionMetrics)


class TableListener(Protocol):
    """Is told what becomes of one table."""

    def epoch(self, report: EpochReport) -> None:
        """An epoch is in the table."""
        ...

    def idle_commit(self, report: IdleReport) -> None:
        """A compaction was committed between epochs."""
        ...


@dataclass(slots=True, kw_only=True)
class TableFeed:
    """What feeds one table of a job, and the table's job.

    Attributes:
        format_of: makes the message format for a schema of the table.
        dead_letters: the table's bad records.
        check_tables: raises when the source's tables that an epoch has seen do not fit together.
    """

    job: TableJob
    format_of: Callable[[FileStoreTable], MessageFormat]
    dead_letters: DeadLetters
    check_tables: Callable[[TablesSeen], None]
    listener: TableListener
    _plan: TablePlan | None = field(init=False, default=None)

    def plan(self, next_sequence_number: int = 0) -> TablePlan:
        """The table's part in an epoch, from the schema that the table's job has now.

        Raises:
            UsageError: the format's options do not fit the table.
        """
        table = self.job.table
        known = self._plan
        same = known is not None and known.table is table
        self._plan = TablePlan(
            table=table,
            message_format=known.message_format if known and same else self.format_of(table),
            next_sequence_number=next_sequence_number,
        )
        return self._plan


@dataclass(slots=True, kw_only=True)
class MicroBatch(Generic[Messages]):
    """Writes and commits epochs.

    Attributes:
        feeds: the job's tables; a table's place here is its index in blocks.
        runner: runs the tasks of an epoch.
        commit_user: the streaming query's id; asked in the first epoch, when Spark has given one.
        source_end: where Spark has noted that an epoch ends.
        failure: the error that stopped the query, with its own text.
        totals: of all epochs and tables that this run has committed.
        epoch_at_work: the epoch that is being written; None: none is.
    """

    feeds: Sequence[TableFeed]
    shape: EpochShape
    runner: EpochRunner[Messages]
    commit_user: Callable[[], str]
    source_end: Callable[[int], str]
    clock: Clock
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: bool = False
    failure: BaseException | None = None
    totals: DecodeCounts = field(default_factory=DecodeCounts)
    epoch_at_work: int | None = None

    def __call__(self, messages: Messages, epoch: int) -> None:
        """Process a micro-batch; does nothing for tables that have the epoch already."""
        with self.lock:
            if self.stopping:
                raise RuntimeError("the job is stopping")
            self.epoch_at_work = epoch
            try:
                for feed in self._run(messages, epoch):
                    feed.job.upkeep.after_commit()
            except StoppedError as error:
                raise RuntimeError(error.what) from None
            except BaseException as error:
                self.failure = readable(error)
                # Spark turns the trace into text and searches it with regular expressions, whose
                # stack grows with the text: what it gets is short.
                raise RuntimeError(first_line(self.failure)) from None
            finally:
                self.epoch_at_work = None

    @property
    def is_untouched(self) -> bool:
        """Whether no epoch has come yet."""
        return not any(feed.job.is_open for feed in self.feeds)

    def while_idle(self) -> None:
        """Publish finished compactions, or do upkeep, unless an epoch is being worked on."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            for feed in self.feeds:
                if report := feed.job.while_idle():
                    feed.listener.idle_commit(report)
        finally:
            self.lock.release()

    def drain(self) -> None:
        """Wait for all compactions that are due and publish them; upkeep, also without an epoch."""
        with self.lock:
            for feed in self.feeds:
                for report in feed.job.drain():
                    feed.listener.idle_commit(report)

    def plan(self) -> EpochPlan:
        """The plan of an epoch for all tables, before there is one."""
        return EpochPlan(tables=tuple(feed.plan() for feed in self.feeds), shape=self.shape)

    def _run(self, messages: Messages, epoch: int) -> Sequence[TableFeed]:
        """Do an epoch; the tables that it was committed to."""
        for feed in self.feeds:
            if not feed.job.is_open:
                feed.job.open(self.commit_user(), epoch)
        source_end = self.source_end(epoch)
        began = self.clock.steady_seconds()
        plan = self._epoch_plan(epoch, source_end)
        if not plan.has_tables:
            return ()
        waited = self.clock.steady_seconds()
        outputs = self.runner.run(epoch, messages, plan)
        shares = [
            _Share(feed, output)
            for feed, output, part in zip(self.feeds, outputs, plan.tables, strict=True)
            if part is not None
        ]
        uncommitted = list(shares)
        try:
            for share in shares:
                share.feed.check_tables(share.output.counts.tables)
                bad = self._bad_records(messages, plan, share).sort_by(_SOURCE_ORDER)
                share.set_aside = share.feed.dead_letters.write(epoch, bad)
            times = _Times(waited - began, self.clock.steady_seconds() - waited)
            while uncommitted:
                self._commit(epoch, uncommitted.pop(0), source_end, times)
        except BaseException:
            for share in uncommitted:
                share.feed.job.table.discard(share.output.changes)
            raise
        return [share.feed for share in shares]

    def _epoch_plan(self, epoch: int, source_end: str) -> EpochPlan:
        """The plan of the tables that lack the epoch; they are ready to take it."""
        parts: list[TablePlan | None] = []
        for feed in self.feeds:
            if feed.job.is_committed(epoch, source_end):
                feed.listener.epoch(EpochReport(epoch=epoch, skipped=True))
                parts.append(None)
            else:
                parts.append(feed.plan(feed.job.begin_epoch()))
        return EpochPlan(tables=tuple(parts), shape=self.shape)

    def _bad_records(self, messages: Messages, plan: EpochPlan, share: _Share) -> pa.Table:
        bad = share.output.bad_records()
        if bad.num_rows and share.feed.dead_letters.folder is not None and not plan.reads_keys:
            try:
                return self.runner.with_keys(messages, bad)
            except Exception as error:
                # The topic may have dropped these messages meanwhile. What is bad is in hand.
                _LOG.warning("the keys of bad records cannot be fetched: %s", first_line(error))
        return bad

    def _commit(self, epoch: int, share: _Share, source_end: str, times: _Times) -> None:
        """Commit a table's share and tell of it."""
        began = self.clock.steady_seconds()
        feed, output = share.feed, share.output
        properties = _properties(output.counts, source_end)
        committed = feed.job.commit_epoch(epoch, output.changes, properties)
        self.totals = self.totals.plus(output.counts)
        files = [file for change in output.changes for file in change.written]
        feed.listener.epoch(
            EpochReport(
                epoch=epoch,
                counts=output.counts,
                set_aside=share.set_aside,
                buckets=len(output.changes),
                files=len(files),
                bytes=sum(file.file_size for file in files),
                wait_s=times.wait_s,
                write_s=times.write_s,
                commit_s=self.clock.steady_seconds() - began,
                snapshots=committed.snapshots,
                sorted_runs=feed.job.sorted_runs(),
                compactions=committed.compactions,
                metrics=feed.job.compaction_metrics() or CompactionMetrics(),
            )
        )


@dataclass(slots=True)
class _Share:
    """What an epoch that is under way has brought for one table."""

    feed: TableFeed
    output: TableOutput
    set_aside: SetAside | None = None


@dataclass(frozen=True, slots=True)
class _Times:
    wait_s: float
    write_s: float


def _properties(counts: DecodeCounts, source_end: str) -> dict[str, str]:
    properties = {SOURCE_END_PROPERTY: source_end}
    if offsets := counts.last_offsets():
        properties[OFFSETS_PROPERTY] = json.dumps(offsets, sort_keys=True)
    return properties
