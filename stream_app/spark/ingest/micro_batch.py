"""One epoch: messages → blocks → files → snapshots.

`MicroBatch` is what Spark calls for each micro-batch (`foreachBatch`), on the driver. It is the
only one who commits: an idle commit takes the same lock, and so does upkeep.

Source: Paimon `table/sink/StreamTableCommit.java`.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA
from stream_app.clock import Clock
from stream_app.errors import CheckpointError, StoppedError, StreamAppError
from stream_app.model.bucket_change import BucketChange
from stream_app.model.snapshot import SOURCE_END_PROPERTY, Snapshot
from stream_app.spark.ingest.bad_record_keys import in_order, with_keys
from stream_app.spark.ingest.dead_letters import DeadLetters, SetAside
from stream_app.spark.ingest.decode_counts import DecodeCounts, TablesSeen, counts_of
from stream_app.spark.ingest.route_blocks import (
    BlockKind,
    RoutePlan,
    bad_records_of,
    route_blocks,
)
from stream_app.spark.ingest.write_task import WritePlan, bucket_change, write_blocks
from stream_app.spark.task_errors import first_line, readable
from stream_app.table.compact.metrics import CompactionMetrics
from stream_app.table.compact.report import CompactionReport
from stream_app.table.job.stream_commit import StreamTableCommit
from stream_app.table.job.table_maintenance import TableMaintenance

_LOG = logging.getLogger(__name__)
OFFSETS_PROPERTY = "stream_app.offsets"
"""Key of a snapshot's property: the last offset of each partition that the epoch read, as JSON."""
INGEST_POOL = "ingest"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """What an epoch did and how long it took (seconds).

    Attributes:
        skipped: whether the table had the epoch already.
        set_aside: the bad records; None: there are none.
        wait_s: back-pressure before the epoch's work.
        write_s: reading, decoding, routing and writing: the Spark job.
        sorted_runs: number of sorted runs → number of buckets that have so many; of the buckets
            that this run of the job has touched.
        compactions: that the snapshots have published.
        metrics: of all compactions of this run of the job, at the epoch's end.
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


@dataclass(frozen=True, slots=True)
class IdleReport:
    """A commit of compactions between two epochs; see `EpochReport`."""

    snapshot: Snapshot
    sorted_runs: Mapping[int, int]
    compactions: tuple[CompactionReport, ...]
    metrics: CompactionMetrics


Listener = Callable[[EpochReport], None]


@dataclass(slots=True)
class MicroBatch:
    """Writes and commits epochs.

    Attributes:
        open_commit: makes the committer; called in the first epoch, when Spark has given the
            query its id.
        source_end: where Spark has noted that an epoch ends.
        check_tables: raises when the source's tables that an epoch has seen do not fit together.
        upkeep: of the table; called when nothing else may commit.
        failure: the error that stopped the query, with its own text.
        totals: of all epochs that this run has committed.
        epoch_at_work: the epoch that is being written; None: none is.
    """

    spark: SparkSession
    plan: RoutePlan
    open_commit: Callable[[], StreamTableCommit]
    source_end: Callable[[int], str]
    dead_letters: DeadLetters
    check_tables: Callable[[TablesSeen], None]
    clock: Clock
    listener: Listener
    upkeep: TableMaintenance
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: bool = False
    failure: BaseException | None = None
    totals: DecodeCounts = field(default_factory=DecodeCounts)
    epoch_at_work: int | None = None
    _commit: StreamTableCommit | None = None

    def __call__(self, messages: DataFrame, epoch: int) -> None:
        """Process a micro-batch; does nothing for an epoch that the table has already."""
        with self.lock:
            if self.stopping:
                raise RuntimeError("the job is stopping")
            self.epoch_at_work = epoch
            try:
                report = self._run(messages, epoch)
                self.listener(report)
                if not report.skipped:
                    self.upkeep.after_commit()
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
        return self._commit is None

    def while_idle(self) -> IdleReport | None:
        """Publish finished compactions, or do upkeep, unless an epoch is being worked on."""
        if not self.lock.acquire(blocking=False):
            return None
        try:
            snapshot = None if self._commit is None else self._commit.commit_idle()
            if self._commit is None or snapshot is None:
                self.upkeep.while_idle()
                return None
            self.upkeep.after_commit()
            return _idle_report(self._commit, snapshot)
        finally:
            self.lock.release()

    def drain(self) -> Sequence[IdleReport]:
        """Wait for all compactions that are due and publish them; upkeep, also without an epoch."""
        with self.lock:
            commit = self._commit
            reports = [_idle_report(commit, each) for each in commit.draining()] if commit else []
            self.upkeep.after_commit()
            return reports

    def compaction_metrics(self) -> CompactionMetrics | None:
        """Numbers about the compactions; None before the first epoch. Any thread may ask."""
        return None if self._commit is None else self._commit.compaction_metrics()

    def _run(self, messages: DataFrame, epoch: int) -> EpochReport:
        commit = self._opened(epoch)
        source_end = self.source_end(epoch)
        if commit.is_committed(epoch):
            _check_same_end(commit, epoch, source_end)
            return EpochReport(epoch=epoch, skipped=True)
        context = self.spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", INGEST_POOL)
        context.setJobDescription(f"epoch {epoch}: decode, route, write")
        began = self.clock.steady_seconds()
        self.upkeep.before_rows()
        next_sequence_number = commit.begin_epoch()
        waited = self.clock.steady_seconds()
        written = self._write(messages, next_sequence_number)
        try:
            self.check_tables(written.counts.tables)
            set_aside = self.dead_letters.write(epoch, self._bad_records(messages, written.bad))
        except BaseException:
            commit.table.discard(written.changes)
            raise
        done = self.clock.steady_seconds()
        committed = commit.commit_epoch(
            epoch, written.changes, properties=_properties(written.counts, source_end)
        )
        self.totals = self.totals.plus(written.counts)
        files = [file for change in written.changes for file in change.written]
        return EpochReport(
            epoch=epoch,
            counts=written.counts,
            set_aside=set_aside,
            buckets=len(written.changes),
            files=len(files),
            bytes=sum(file.file_size for file in files),
            wait_s=waited - began,
            write_s=done - waited,
            commit_s=self.clock.steady_seconds() - done,
            snapshots=committed.snapshots,
            sorted_runs=_sorted_runs(commit),
            compactions=committed.compactions,
            metrics=commit.compaction_metrics(),
        )

    def _bad_records(self, messages: DataFrame, bad: Sequence[pa.RecordBatch]) -> pa.Table:
        keys_are_there = self.plan.message_format.reads_keys
        if bad and self.dead_letters.folder is not None and not keys_are_there:
            try:
                return with_keys(messages, bad)
            except Exception as error:
                # The topic may have dropped these messages meanwhile. What is bad is in hand.
                _LOG.warning("the keys of bad records cannot be fetched: %s", first_line(error))
        return in_order(pa.Table.from_batches(bad, BAD_RECORD_SCHEMA))

    def _opened(self, epoch: int) -> StreamTableCommit:
        if self._commit is None:
            self._commit = self.open_commit()
            _check_not_behind(self._commit, epoch)
        return self._commit

    def _write(self, messages: DataFrame, next_sequence_number: int) -> _Written:
        blocks = route_blocks(messages, self.plan)
        table = self._opened(-1).table
        rows = write_blocks(blocks, WritePlan(table, next_sequence_number)).collect()
        written = _Written()
        for kind, payload in rows:
            if kind == BlockKind.CHANGES:
                written.changes.append(bucket_change(payload))
            elif kind == BlockKind.BAD_RECORDS:
                written.bad.append(bad_records_of(payload))
            else:
                written.counts = written.counts.plus(counts_of(payload))
        return written


@dataclass(slots=True)
class _Written:
    changes: list[BucketChange] = field(default_factory=list)
    bad: list[pa.RecordBatch] = field(default_factory=list)
    counts: DecodeCounts = field(default_factory=DecodeCounts)


def _sorted_runs(commit: StreamTableCommit) -> dict[int, int]:
    return dict(sorted(Counter(commit.coordinator.sorted_runs().values()).items()))


def _idle_report(commit: StreamTableCommit, snapshot: Snapshot) -> IdleReport:
    return IdleReport(
        snapshot, _sorted_runs(commit), commit.take_reports(), commit.compaction_metrics()
    )


def _check_not_behind(commit: StreamTableCommit, epoch: int) -> None:
    """Spark has finished all epochs before this one: the table must have them."""
    last = commit.last_identifier
    snapshots = commit.table.snapshots
    if last is not None and last > epoch:
        raise CheckpointError(
            f"the checkpoint goes on with epoch {epoch}, the table has epoch {last} of it already",
            where=commit.table.location,
            fix="an older copy of the checkpoint was restored: restore the newest one, or give the "
            "job a new checkpoint, for which source.starting-offsets says where to begin",
        )
    if epoch <= 0 or (last is not None and last >= epoch - 1):
        return
    if last is None and (snapshots.earliest_id() or 1) > 1:
        _LOG.warning("the table's snapshots of epoch %d have expired; going on", epoch - 1)
        return
    raise CheckpointError(
        f"the checkpoint has finished epoch {epoch - 1}, the table has only "
        f"{'none' if last is None else last} of it",
        where=commit.table.location,
        fix="the table was rolled back, or an older copy of it was restored: give the job a new "
        "checkpoint (it reads from source.starting-offsets then), or restore the newer table",
    )


def _check_same_end(commit: StreamTableCommit, epoch: int, source_end: str) -> None:
    """An epoch that the table has must be the same one: what it has more would be lost."""
    end = commit.last_source_end
    if end is None or commit.last_identifier != epoch or end == source_end:
        return
    raise CheckpointError(
        f"epoch {epoch} ends elsewhere in the checkpoint than in the table: at {source_end}, "
        f"not {end}",
        where=commit.table.location,
        fix="the checkpoint has lost its newest files: give the job a new checkpoint, with "
        "source.starting-offsets where the table ends",
    )


def _properties(counts: DecodeCounts, source_end: str) -> dict[str, str]:
    properties = {SOURCE_END_PROPERTY: source_end}
    if offsets := counts.last_offsets():
        properties[OFFSETS_PROPERTY] = json.dumps(offsets, sort_keys=True)
    return properties


def is_expected(error: BaseException) -> bool:
    """Whether an error explains itself, so that its trace would only hide it."""
    return isinstance(error, StreamAppError)
