"""Provides the tables of a job to pages, even if the job does not run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

from stream_app.app.config.secrets import Secrets, is_secret
from stream_app.app.config.settings import catalog_variables, file_io_variables
from stream_app.app.config.shown_job import ShownJob
from stream_app.app.inspect.job_status import JobStatus, with_waiting_rows
from stream_app.app.inspect.table_facts import FactsCache
from stream_app.app.inspect.table_status import JobTableState, TableStatus
from stream_app.app.observe.events.epoch_history import EpochHistory, PastEpoch, TableActivity
from stream_app.app.opening.job_catalog import job_identifier, open_job_table
from stream_app.app.ops.replay.job_replay import job_record_replays
from stream_app.app.ops.replay.later_change_check import ReadRange
from stream_app.app.ops.replay.replay_lines import replay_lines
from stream_app.app.ops.resume import resume_tables
from stream_app.app.source.topic_checks import source_ends
from stream_app.app.web.job_glance import JobGlance, compactions_of_all, messages_per_s
from stream_app.app.web.site import Site
from stream_app.app.web.unassigned_records import (
    UnassignedFacts,
    UnassignedFactsCache,
    refused_reason,
    with_refused,
)
from stream_app.app.web.unresolved_record_counter import UnresolvedRecordCounter
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import state_or_empty
from stream_app.clock import Clock
from stream_app.errors import TableNotFoundError, UsageError
from stream_app.model.job_epoch import Offsets
from stream_app.quarantine.quarantine_folder import (
    Quarantine,
    RecordFilter,
    open_quarantine,
)
from stream_app.table.file_store_table import FileStoreTable

_PAUSE_MIN_S = 5.0
_PAUSE_RATIO = 4
"""The pause after a request, as a multiple of the request's duration."""
_MISSING_TABLE_FIX = "start the job, which creates the table, or correct its warehouse or name"
_MISSING_IN_DATABASE_FIX = (
    "start the job again: it creates the table with the next message of its source; "
    "stream-app backfill brings the earlier rows"
)
_Result = TypeVar("_Result")


class _CachedResult(Generic[_Result]):
    """A cache of a result that takes time; it asks again after a pause. Thread-safe."""

    def __init__(self, ask: Callable[[], _Result], clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._result: tuple[_Result, float] | None = None  # with the time until which it is valid
        self._lock = threading.Lock()

    def result(self) -> _Result:
        """Return a result that is not older than the pause."""
        with self._lock:
            start_s = self._clock.steady_seconds()
            if self._result is not None:
                result, valid_until_s = self._result
                if start_s < valid_until_s:
                    return result
            result = self._ask()
            now_s = self._clock.steady_seconds()
            self._result = result, now_s + max(_PAUSE_MIN_S, _PAUSE_RATIO * (now_s - start_s))
            return result


class JobSite(Site):
    """The pages of a job's tables. The job need not run.

    A table is ``DATABASE.TABLE``, as in the warehouse and in metrics.

    Attributes:
        shown_job: the parts of the job's configuration that pages show.
        checkpoint: the folder of the job's checkpoint.
    """

    def __init__(
        self,
        shown_job: ShownJob,
        checkpoint: JobFolder,
        clock: Clock,
        history: EpochHistory | None = None,
        *,
        ask_ends: Callable[[Callable[[str], None]], Offsets | None] | None = None,
        read_range: ReadRange | None = None,
    ) -> None:
        """Begin without results.

        Args:
            history: the history of the job in this process, or None.
            ask_ends: returns the topics' ends, or None after a call with the reason. By default it
                asks the broker.
            read_range: reads ranges of the topics for a replay; None uses the native reader.
        """
        self.shown_job = shown_job
        self.checkpoint = checkpoint
        self.clock = clock
        self._history = history
        self._read_range = read_range
        self._ask_ends = ask_ends or partial(source_ends, shown_job.job_tables.source)
        self._ends = _CachedResult(self._ask_for_ends, clock)
        self._cached_newest_time_ms = _CachedResult(
            lambda: self._status(None).newest_time_ms(), clock
        )
        self._facts = FactsCache(self._open, clock, is_of_job=True, counts_runs=self._counts_runs)
        self._unassigned_facts = UnassignedFactsCache(
            partial(self.quarantine, ""),
            shown_job.job_tables.source.source_extractor.find_origins,
            lambda: state_or_empty(checkpoint).targets,
        )
        self._unresolved_counter = UnresolvedRecordCounter(
            shown_job.job_tables, shown_job.quarantine, clock
        )

    @property
    def title(self) -> str:
        """See `Site.title`."""
        return self.shown_job.job_tables.name

    @property
    def secrets(self) -> Secrets:
        """See `Site.secrets`."""
        return self.shown_job.secrets

    def tables(self) -> Sequence[TableStatus]:
        """Return the statuses with page names, by the cached ends of the topics."""
        statuses = list(map(self._with_page_name, self._status(self._ends.result()[0]).tables()))
        return self._summary(statuses).with_lateness(statuses)

    def status(self, name: str) -> TableStatus | None:
        """See `Site.status`."""
        status = self._status(self._ends.result()[0]).table(
            self._name_in_job(name), self._newest_message_time_ms()
        )
        if status is None:
            return None
        return self._summary(()).with_lateness([self._with_page_name(status)])[0]

    def glance(self, tables: Sequence[TableStatus]) -> JobGlance:
        """See `Site.glance`."""
        unresolved_records = with_refused(
            self._unresolved_counter.by_table(), self._unassigned_facts.refused_counts()
        )
        status = self._status(None)
        warnings, decoder = status.warnings(), status.decoder()
        glance = replace(
            self._summary(tables),
            unresolved_records=unresolved_records,
            warnings=warnings,
            decoder=decoder,
        )
        if self._history is None:
            return glance
        names = [status.table for status in tables]
        running_count, queued_count = compactions_of_all(map(self.activity_of, names))
        rate = messages_per_s(map(self.epochs, names), self.clock.now_ms())
        return replace(
            glance, messages_per_s=rate, running_count=running_count, queued_count=queued_count
        )

    @property
    def ends_problem(self) -> str | None:
        """See `Site.ends_problem`."""
        return self._ends.result()[1]

    def open(self, name: str) -> FileStoreTable:
        """See `Site.open`."""
        return self._open(self._path(name))

    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """See `Site.settings`."""
        return self.shown_job.settings

    def quarantine(self, name: str) -> Quarantine | None:
        """Return the records in the configured folder; None if there is no such folder."""
        folder, job_tables = self.shown_job.quarantine, self.shown_job.job_tables
        if folder is None or not (name or job_tables.separates_tables):
            return None
        return open_quarantine(
            job_tables.quarantine_of(folder, self._name_in_job(name)), job_tables.file_system
        )

    def unassigned_records(self) -> UnassignedFacts:
        """See `Site.unassigned_records`."""
        return self._unassigned_facts.facts()

    def epochs(self, name: str) -> Sequence[PastEpoch]:
        """Return the epochs of this process; empty if the job runs in another process."""
        return () if self._history is None else self._history.epochs(self._state_key(name))

    def activity_of(self, name: str) -> TableActivity | None:
        """Return the activity in this process; None if the job runs in another process."""
        return None if self._history is None else self._history.activity_of(self._state_key(name))

    def replay(self, name: str) -> Iterator[str]:
        """See `Site.replay`."""
        if name:
            self._path(name)
        job_tables, folder = self.shown_job.job_tables, self.shown_job.quarantine
        if folder is None or self.quarantine(name) is None:
            raise UsageError(
                "the job has no quarantine", where=self.title, fix="set stream.quarantine"
            )
        quarantine = open_quarantine(folder, job_tables.file_system)
        replays = job_record_replays(
            job_tables, quarantine, self._name_in_job(name) or None, self._read_range
        )
        if not replays:
            yield "no record belongs to a table of the job by the rules of today"
        for replay in replays.values():
            yield from replay_lines(replay.run(RecordFilter(), dry_run=False), dry_run=False)
        self._unresolved_counter.invalidate()

    def resume(self, name: str) -> Iterator[str]:
        """See `Site.resume`."""
        job_tables = self.shown_job.job_tables
        name_in_job = self._name_in_job(name) or name
        yield from resume_tables(
            self.checkpoint, job_tables.checkpoint, [name_in_job], self.clock.now_ms()
        )

    def compact_command(self, name: str) -> tuple[Sequence[str], Mapping[str, str]]:
        """See `Site.compact_command`; secrets travel by the environment alone."""
        job_tables = self.shown_job.job_tables
        path = self._path(name)
        arguments = [str(job_identifier(job_tables, path)) if job_tables.catalog else path]
        for key, value in self.shown_job.spark_settings.items():
            if not is_secret(key):
                arguments += ["--set", f"{key}={value}"]
        variables = file_io_variables(self.shown_job.job_tables.file_system)
        return arguments, {**variables, **catalog_variables(job_tables.catalog)}

    def _name_in_job(self, name: str) -> str:
        """Return a table's name in the job; empty for a table of another database."""
        return self.shown_job.job_tables.name_in_job(name) or ""

    def _state_key(self, name: str) -> str:
        return self.shown_job.job_tables.state_key(self._name_in_job(name))

    def _path(self, name: str) -> str:
        path = self._status(None).paths().get(self._name_in_job(name))
        if path is None:
            raise TableNotFoundError(
                f"the job has no table {name}", where=self.title, fix="choose one of the list"
            )
        return path

    def _with_page_name(self, status: TableStatus) -> TableStatus:
        """Return the status under its name on pages, with the compactions of this process's job."""
        if status.state is JobTableState.REFUSED:
            return replace(status, reason=refused_reason(status.reason or ""))
        status = replace(status, table=self.shown_job.job_tables.full_name(status.table))
        if status.state is JobTableState.MISSING:
            has_database = self.shown_job.job_tables.separates_tables
            fix = _MISSING_IN_DATABASE_FIX if has_database else _MISSING_TABLE_FIX
            return replace(status, reason=f"{status.reason}\nto fix: {fix}")
        activity = self.activity_of(status.table)
        if activity is None or not activity.metrics.buckets:
            return status
        status = replace(status, sorted_runs=activity.metrics.sorted_runs_max)
        return with_waiting_rows(status, activity.metrics.waiting_rows)

    def _counts_runs(self, path: str) -> bool:
        """Return whether the sorted runs of the table in a folder are counted from manifests."""
        state_key = self.shown_job.job_tables.state_key(path.rsplit("/", 1)[-1])
        activity = None if self._history is None else self._history.activity_of(state_key)
        return activity is None or not activity.metrics.buckets

    def _summary(self, tables: Sequence[TableStatus]) -> JobGlance:
        """Return the facts about all tables that decide whether one is behind."""
        ages = [status.changed_s for status in tables if status.changed_s is not None]
        return JobGlance(
            is_here=self._history is not None,
            max_staleness_s=self.shown_job.max_staleness_s,
            changed_s=min(ages, default=None),
            ends_problem=self.ends_problem,
        )

    def _open(self, path: str) -> FileStoreTable:
        return open_job_table(self.shown_job.job_tables, path, self.clock)

    def _status(self, ends: Offsets | None) -> JobStatus:
        return JobStatus(
            job_tables=self.shown_job.job_tables,
            checkpoint=self.checkpoint,
            ends=ends,
            now_ms=self.clock.now_ms(),
            facts_of=self._facts.facts,
        )

    def _ask_for_ends(self) -> tuple[Offsets | None, str | None]:
        """Return the ends of the topics, and the reason if the broker did not report them."""
        reasons: list[str] = []
        ends = self._ask_ends(reasons.append)
        return ends, reasons[0] if reasons else None

    def _newest_message_time_ms(self) -> int | None:
        """Return the cached `JobStatus.newest_time_ms`, because that examines all tables."""
        return (
            self._cached_newest_time_ms.result()
            if self._history is None
            else self._history.source_time_ms
        )
