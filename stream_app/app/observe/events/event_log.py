"""Reports the events of a running job: a line for people on stderr, and a JSON line for programs.

The committer and the stream report to it, and it passes the same facts to `metrics.job_metrics`.
``--events FILE`` adds a JSON line for each event: an object with ``event`` and ``time_ms`` first.
At start it lists the table options that the job ignores.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import IO

from stream_app.app.inspect.table_facts import latest_snapshots
from stream_app.app.observe.channels.listener import Listeners
from stream_app.app.observe.events.epoch_history import EpochHistory
from stream_app.app.observe.events.event_texts import (
    bytes_text,
    compaction_text,
    drained_text,
    epoch_event,
    idle_event,
    quarantined_event,
    report_line,
    rounded_parts,
    snapshots_text,
)
from stream_app.app.observe.metrics.health import JobHealth
from stream_app.app.observe.metrics.job_metrics import OTHER_TABLES, JobMetrics
from stream_app.app.observe.metrics.proof_watch import ProofWatch
from stream_app.cdc.column_drift import DriftedColumn, DriftKind
from stream_app.cdc.message_format import FormatDeclaration
from stream_app.checkpoint.held_table import HeldTable
from stream_app.clock import Clock
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import COLUMN_NAMES_MAX, OTHER_COLUMNS, RecordSighting
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.errors import StreamAppError
from stream_app.kafka.offset_ranges import JobOffsets
from stream_app.message_format_registry import DEFAULT_FORMAT, FORMATS
from stream_app.process.log_fields import logging_about
from stream_app.quarantine.quarantine_writer import QuarantineReport
from stream_app.table.compact.compaction_report import CompactionReport
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import IdleReport, TableJob

_LOG = logging.getLogger("stream_app")
"""The logger that docs/operate/operating.md names in the JSON line of an epoch."""


@dataclass(slots=True)
class EventLog:
    """A log of epochs, of the source's lag, and of commits between epochs.

    Attributes:
        table: the table of these events, or None for the whole job or its only table.
        history: the newest epochs.
        health: the job's health, with the held tables.
        listeners: receivers of the same events.
        proofs: watches for proofs that other processes record, or None.
        epochs: the epochs that the job has written; the logs of its tables share this set.
    """

    clock: Clock
    sink: IO[str] | None = None
    _: KW_ONLY
    metrics: JobMetrics | None = None
    message_format: FormatDeclaration = FORMATS[DEFAULT_FORMAT]
    table: str | None = None
    history: EpochHistory = field(default_factory=EpochHistory)
    health: JobHealth | None = None
    listeners: Listeners = field(default_factory=Listeners)
    proofs: ProofWatch | None = None
    epochs: set[int] = field(default_factory=set)
    _warned_columns: set[DriftedColumn] = field(init=False, default_factory=set)

    @contextmanager
    def writing(self, sink: IO[str]) -> Iterator[None]:
        """Within the block, write the events as JSON lines."""
        self.sink = sink
        try:
            yield
        finally:
            self.sink = None

    def of_table(self, name: str) -> EventLog:
        """Return the log of one of many tables."""
        metrics = None if self.metrics is None else self.metrics.of_table(name)
        return replace(self, table=name, metrics=metrics)

    def report_start(self, table: str, checkpoint: str) -> None:
        """Report that the stream begins."""
        _LOG.info("writing %s, checkpoint %s", table, checkpoint)
        self._write("started", {"table": table, "checkpoint": checkpoint})

    def watch(self, table_job: TableJob) -> None:
        """Read metrics of compactions, expiry and commit callbacks from now on."""
        self.listeners.call(lambda listener: listener.on_table(self._name, table_job))
        if self.metrics is not None:
            self.metrics.compactions.add(self.metrics.label, table_job.compaction_metrics)
            self.metrics.maintenance.add(self.metrics.label, table_job.upkeep.metrics)
            self.metrics.callbacks.add(self.metrics.label, table_job.callback_problems)
            if self.proofs is not None:
                self.proofs.add(self.metrics, table_job.table)

    def on_open_table(self, table: FileStoreTable, topics: Collection[str]) -> None:
        """Report that the table is opened, with the topics that have brought it messages so far."""
        if self.metrics is None:
            return
        try:
            snapshots = latest_snapshots(table)
        except (StreamAppError, OSError):  # an epoch that needs these files reports the error
            return
        self.metrics.note_open_table(snapshots, topics)

    def watch_source(self, read_offsets: Callable[[], JobOffsets | None]) -> None:
        """Ask `read_offsets` for the offsets that the job has read, from now on."""
        if self.metrics is not None:
            self.metrics.source.read_from(read_offsets)

    def on_epoch(self, report: EpochReport) -> None:
        """Report a committed epoch."""
        offsets = report.counts.last_offsets()
        seconds = {} if report.is_skipped else rounded_parts(report.durations)
        with logging_about(table=self._name, epoch=report.epoch, offsets=offsets, seconds=seconds):
            self._report_epoch(report)
        self.listeners.call(lambda listener: listener.on_epoch(self._name, report))

    def _report_epoch(self, report: EpochReport) -> None:
        """Count an epoch in the metrics, log it with its warnings, and write its event."""
        self._update_metrics(lambda metrics: metrics.count_epoch(report))
        if report.is_skipped:
            _LOG.info("%sepoch %d: in the table already", self._prefix, report.epoch)
            self._write("epoch", {"epoch": report.epoch, "skipped": True})
            return
        self.epochs.add(report.epoch)
        self.history.add(self.table or "", report, self.clock.now_ms())
        counts = report.counts
        seconds = report.durations.total_s
        _LOG.info(
            "%sepoch %d: %d messages, %d changes in %.2f s (%.0f/s), %d bad, %d skipped; "
            "%d files in %d buckets, %s; snapshots %s; %s",
            self._prefix,
            report.epoch,
            counts.message_count,
            counts.change_count,
            seconds,
            counts.message_count / seconds if seconds else 0,
            counts.bad_record_count,
            counts.skipped_count,
            report.file_count,
            report.bucket_count,
            bytes_text(report.byte_count),
            snapshots_text(report.snapshots),
            compaction_text(report.metrics, report.durations.wait_s),
        )
        _warn_of_quarantined(report.epoch, report.quarantine_report, self._prefix)
        column_counts = self._count_columns(counts.drift)
        _log_compactions(report.compactions, self._prefix)
        self._write("epoch", epoch_event(report, column_counts))

    def report_progress(self, progress: SourceProgress) -> None:
        """Report that the job has finished an epoch."""
        self.report_poll(progress)
        self.listeners.call(lambda listener: listener.on_progress(progress))
        with logging_about(table=self._name, epoch=progress.epoch, offsets=progress.end_offsets):
            _LOG.info(
                "epoch %d: lag %s, next offsets %s",
                progress.epoch,
                "unknown" if progress.lag is None else progress.lag,
                json.dumps(progress.end_offsets),
            )
        self._write(
            "progress",
            {
                "epoch": progress.epoch,
                "messages": progress.message_count,
                "lag": progress.lag,
                "end_offsets": dict(progress.end_offsets),
            },
        )

    def report_poll(self, progress: SourceProgress) -> None:
        """Report that the job has polled the source, with or without new messages."""
        self._update_metrics(lambda metrics: metrics.note_progress(progress, self.clock.now_ms()))

    def report_drain(self, progress: SourceProgress | None) -> None:
        """Report that the job has read its source to the end; None if offsets are unknown."""
        lag = None if progress is None else progress.lag
        ends = {} if progress is None else dict(progress.end_offsets)
        _LOG.info(
            "%s; lag %s, next offsets %s",
            drained_text(len(self.epochs), lag),
            "unknown" if lag is None else lag,
            json.dumps(ends),
        )
        self._write("drained", {"epochs": len(self.epochs), "lag": lag, "end_offsets": ends})

    def on_idle_commit(self, report: IdleReport) -> None:
        """Report compactions that were committed between epochs."""
        self._update_metrics(
            lambda metrics: metrics.count_commits((report.snapshot,), report.compactions)
        )
        self.listeners.call(lambda listener: listener.on_idle_commit(self._name, report))
        commit_text = snapshots_text((report.snapshot,))
        with logging_about(table=self._name):
            _LOG.info("%sidle commit: snapshot %s", self._prefix, commit_text)
            _log_compactions(report.compactions, self._prefix)
        self._write("idle_commit", idle_event(report))

    def report_heartbeat(self, is_running: bool) -> None:
        """Report that the job has checked its stream; `is_running` is False at the last check."""
        if self.health is not None:
            self.health.note_heartbeat(is_running)
        self._update_metrics(lambda metrics: metrics.source.note_heartbeat(metrics.label))
        self.listeners.call(lambda listener: listener.on_heartbeat())

    def report_held_table(self, table: str, held_table: HeldTable | None) -> None:
        """Report that a table is held back, or has caught up."""
        self._update_metrics(lambda metrics: metrics.note_held_table(table, held_table))
        if self.health is not None:
            self.health.held_reasons.pop(table, None)
            if held_table is not None and held_table.has_failed:
                self.health.held_reasons[table] = held_table.reason
        label = table if self.metrics is None else f"{self.metrics.label}.{table}"
        self.listeners.call(lambda listener: listener.on_held_table(label, held_table))
        if held_table is None:
            with logging_about(table=label):
                _LOG.info("%s: has all epochs again", table)
            self._write("caught_up", {"table": table})
        elif held_table.has_failed:
            with logging_about(table=label, epoch=held_table.since_epoch, offsets=held_table.start):
                _LOG.error(
                    "%s: held back from epoch %d on, while the other tables continue: %s",
                    table,
                    held_table.since_epoch,
                    held_table.reason,
                )
            held_fields = {"since_epoch": held_table.since_epoch, "tries": held_table.tries}
            self._write("held", {"table": table, **held_fields, "reason": held_table.reason})

    def report_unassigned_messages(self, epoch: int, quarantine_report: QuarantineReport) -> None:
        """Report messages of an epoch that belong to no table."""
        self._update_metrics(lambda metrics: metrics.count_unassigned_messages(quarantine_report))
        with logging_about(epoch=epoch):
            _warn_of_quarantined(epoch, quarantine_report, "messages without a table: ")
        self.listeners.call(
            lambda listener: listener.on_quarantined_messages(self._name, quarantine_report)
        )
        self._write("unassigned", {"epoch": epoch, **quarantined_event(quarantine_report)})

    def report_end(self) -> None:
        """Report that the stream has ended by itself or on request."""
        _LOG.info("ended")
        self._write("ended", {})

    def _update_metrics(self, call: Callable[[JobMetrics], None]) -> None:
        """Update metrics; an error does not end the job, whose tables have the epoch already."""
        if self.metrics is not None:
            self.listeners.guard(self.metrics, call)

    @property
    def _name(self) -> str:
        """The table's label in metrics; tables that share a label get their own names."""
        if self.metrics is None or (self.table and self.metrics.label.endswith(OTHER_TABLES)):
            return self.table or ""
        return self.metrics.label

    @property
    def _prefix(self) -> str:
        return "" if self.table is None else f"{self.table}: "

    def _count_columns(
        self, sightings: Mapping[DriftedColumn, RecordSighting]
    ) -> dict[str, object]:
        """Warn of each drifted column once, and return the numbers of its records for the event."""
        counts: dict[str, Counter[str]] = {kind.value: Counter() for kind in DriftKind}
        for (kind, name), sighting in sorted(sightings.items(), key=lambda item: item[1].place):
            column = (kind, name)
            if column not in self._warned_columns and len(self._warned_columns) >= COLUMN_NAMES_MAX:
                column = (kind, OTHER_COLUMNS)
            if column not in self._warned_columns:
                self._warned_columns.add(column)
                option = self.message_format.full_key(kind.option)
                _warn_of_column(*column, sighting, option, self._prefix)
            counts[kind.value][column[1]] += sighting.record_count
            count_drift = partial(
                JobMetrics.count_drift,
                drift_kind=kind,
                name=column[1],
                record_count=sighting.record_count,
            )
            self._update_metrics(count_drift)
        return {f"{kind}_columns": dict(records) for kind, records in counts.items()}

    def _write(self, event: str, values: Mapping[str, object]) -> None:
        if self.sink is not None:
            table_field = {} if self.table is None else {"table": self.table}
            line = {"event": event, "time_ms": self.clock.now_ms(), **table_field, **values}
            self.sink.write(json.dumps(line) + "\n")
            self.sink.flush()


def _warn_of_column(
    drift_kind: DriftKind, name: str, sighting: RecordSighting, option: str, prefix: str
) -> None:
    """Log how a column of records differs from the table, the remedy, and the first record."""
    messages = {
        DriftKind.UNKNOWN: "column %r is not in the table, so its values are left out: add it to "
        "the table, or say what becomes of such records (%s)",
        DriftKind.MISSING: "column %r of the table is missing in messages, so it becomes null in "
        "their rows: was it renamed or dropped, or does the source generate it, which a log leaves "
        "out (compute it here: computed-column)? %s says what becomes of such records",
        DriftKind.CUT: "column %r cuts off digits of times that it cannot hold: make its type "
        "finer (stream-app alter --change-type), or say what becomes of such records (%s); a TIME "
        "keeps milliseconds, a STRING or a BIGINT all that the source sends",
    }
    _LOG.warning(
        "%s" + messages[drift_kind] + "; the first is topic %s, partition %d, offset %d",
        prefix,
        name,
        option,
        *sighting.place,
    )


def _warn_of_quarantined(
    epoch: int, quarantine_report: QuarantineReport | None, prefix: str
) -> None:
    if quarantine_report is not None:
        _LOG.warning(
            "%sepoch %d: bad records: %d (%s), kept in %s; the first is %s",
            prefix,
            epoch,
            sum(quarantine_report.reasons.values()),
            ", ".join(f"{count} {kind}" for kind, count in quarantine_report.reasons.items()),
            quarantine_report.file,
            quarantine_report.first_text,
        )


def _log_compactions(reports: Sequence[CompactionReport], prefix: str) -> None:
    for report in reports:
        _LOG.info("%scompacted %s", prefix, report_line(report))
