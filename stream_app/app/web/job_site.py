"""The tables of a job as pages show them, by its configuration; the job may run or not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.secrets import Secrets, is_secret
from stream_app.app.config.settings import catalog_variables, file_io_variables
from stream_app.app.config.tables_of_job import SingleTable, TablesOfJob
from stream_app.app.config.toml_text import toml_settings
from stream_app.app.observe.events.epoch_history import CompactionsNow, EpochHistory, PastEpoch
from stream_app.app.observe.metrics.quarantine_watch import QuarantineWatch
from stream_app.app.ops.inspect.job_status import (
    MISSING,
    REFUSED,
    JobStatus,
    TableStatus,
    with_waiting_rows,
)
from stream_app.app.ops.inspect.table_facts import RememberedFacts
from stream_app.app.ops.quarantine.job_replay import job_replays
from stream_app.app.ops.quarantine.later_changes import ReadRange
from stream_app.app.ops.quarantine.quarantine_folder import Choice, Quarantine, open_quarantine
from stream_app.app.ops.quarantine.replay import replay_lines
from stream_app.app.ops.resume import resume_tables
from stream_app.app.source.preflight import source_ends
from stream_app.app.tables.job_catalog import job_identifier, open_job_table
from stream_app.app.web.job_glance import JobGlance, compactions_of_all, messages_per_s
from stream_app.app.web.site import Site
from stream_app.app.web.table_parts import QUARANTINED_READ
from stream_app.app.web.unassigned_records import (
    Homeless,
    HomelessRecords,
    refused_reason,
    with_refused,
)
from stream_app.clock import Clock
from stream_app.errors import TableNotFoundError, UsageError
from stream_app.fileio.file_io_registry import can_open
from stream_app.kafka.offset_ranges import Offsets
from stream_app.spark.ingest.job_state import state_of
from stream_app.spark.job_folder import Folder
from stream_app.table.file_store_table import FileStoreTable

_COUNT_S = 1.0
"""Seconds for which a page waits for a new count of the quarantine."""
_PAUSE_S = 5.0
_PAUSE_RATIO = 4
"""The pause after a question, as a multiple of its duration."""
_Answer = TypeVar("_Answer")


class _CachedAnswer(Generic[_Answer]):
    """Caches an answer that is slow to get, and asks again after a pause. Any thread may look."""

    def __init__(self, ask: Callable[[], _Answer], clock: Clock) -> None:
        self._ask, self._clock = ask, clock
        self._answers: list[_Answer] = []
        self._until = float("-inf")
        self._lock = threading.Lock()

    def look(self) -> _Answer:
        """The present answer, or one from a moment ago."""
        with self._lock:
            began = self._clock.steady_seconds()
            if began >= self._until:
                self._answers[:] = [self._ask()]
                now = self._clock.steady_seconds()
                self._until = now + max(_PAUSE_S, _PAUSE_RATIO * (now - began))
            return self._answers[0]


class JobSite(Site):
    """The tables of a job, by its configuration; the job may run or not.

    A table is ``DATABASE.TABLE``, as in the warehouse and in metrics.

    Attributes:
        history: history of the job in this process; None: there is none.
        ask_ends: where the topics end, or None with the reason told; None: of the broker.
        read: reads ranges of the topics for a replay; None: by Kafka's client.
    """

    def __init__(
        self,
        config: AppConfig,
        checkpoint: Folder,
        clock: Clock,
        history: EpochHistory | None = None,
        *,
        ask_ends: Callable[[Callable[[str], None]], Offsets | None] | None = None,
        read: ReadRange | None = None,
    ) -> None:
        self.config, self.checkpoint, self.clock = config, checkpoint, clock
        self._history, self._read = history, read
        self._ask_ends = ask_ends or partial(source_ends, config.source)
        self._ends = _CachedAnswer(self._asked_ends, clock)
        self._newest = _CachedAnswer(lambda: self._status(None).newest_ms(), clock)
        self._facts = RememberedFacts(self._open, clock, of_job=True, counts_runs=self._counts_runs)
        self._homeless = HomelessRecords(
            partial(self.quarantine, ""),
            config.tables.reader.origins,
            lambda: state_of(checkpoint).origins,
        )
        folder = config.stream.quarantine
        self._waiting: Mapping[str, int] | None = {} if folder is None else None
        self._waiting_until = float("-inf")
        self._counting = threading.Lock()
        self._watch: QuarantineWatch | None = None
        if folder is not None and can_open(folder):
            quarantine = open_quarantine(folder, config.file_system)
            self._watch = QuarantineWatch(quarantine, clock, self._counted, most=QUARANTINED_READ)

    @property
    def title(self) -> str:
        """See `Site.title`."""
        return self.config.tables.name

    @property
    def secrets(self) -> Secrets:
        """See `Site.secrets`."""
        return self.config.secrets

    def tables(self) -> Sequence[TableStatus]:
        """See `Site.tables`."""
        statuses = list(map(self._shown, self._status(self._ends.look()[0]).tables()))
        return self._judge(statuses).judged(statuses)

    def status(self, name: str) -> TableStatus | None:
        """See `Site.status`."""
        ends, own = self._ends.look()[0], self.config.tables.own_name(name)
        one = self._status(ends).table(own or "", self._newest_message_ms())
        if own is None or one is None:
            return None
        return self._judge(()).judged([self._shown(one)])[0]

    def glance(self, tables: Sequence[TableStatus]) -> JobGlance:
        """See `Site.glance`."""
        waiting = with_refused(self._waiting_records(), self._homeless.refused())
        warnings = self._status(None).warnings()
        glance = replace(self._judge(tables), waiting=waiting, warnings=warnings)
        if self._history is None:
            return glance
        names = [one.table for one in tables]
        running, queued = compactions_of_all(map(self.compactions, names))
        rate = messages_per_s(map(self.epochs, names), self.clock.now_ms())
        return replace(glance, messages_per_s=rate, running=running, queued=queued)

    @property
    def no_ends(self) -> str | None:
        """See `Site.no_ends`."""
        return self._ends.look()[1]

    def open(self, name: str) -> FileStoreTable:
        """See `Site.open`."""
        return self._open(self._path(name))

    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """See `Site.settings`."""
        return toml_settings(self.config)

    def quarantine(self, name: str) -> Quarantine | None:
        """See `Site.quarantine`."""
        folder, tables = self.config.stream.quarantine, self.config.tables
        if folder is None or not (name or tables.is_of_many):
            return None
        own = (name and tables.own_name(name)) or ""
        return open_quarantine(tables.quarantine_of(folder, own), tables.file_system)

    def homeless(self) -> Homeless:
        """See `Site.homeless`."""
        return self._homeless.look()

    def epochs(self, name: str) -> Sequence[PastEpoch]:
        """See `Site.epochs`."""
        return () if self._history is None else self._history.of(self._part(name))

    def compactions(self, name: str) -> CompactionsNow | None:
        """See `Site.compactions`."""
        return None if self._history is None else self._history.compactions(self._part(name))

    def replay(self, name: str) -> Iterator[str]:
        """See `Site.replay`."""
        if name:
            self._path(name)
        tables, folder = self.config.tables, self.config.stream.quarantine
        if folder is None or self.quarantine(name) is None:
            raise UsageError(
                "the job has no quarantine", where=self.title, fix="set stream.quarantine"
            )
        whole = open_quarantine(folder, tables.file_system)
        own = tables.own_name(name) if name else None
        by_table = job_replays(tables, whole, own, self._read)
        if not by_table:
            yield "no record belongs to a table of the job by the rules of today"
        for one in by_table.values():
            yield from replay_lines(one.run(Choice(), dry_run=False), dry_run=False)
        self._waiting_until = float("-inf")

    def resume(self, name: str) -> Iterator[str]:
        """See `Site.resume`."""
        own, stream = self.config.tables.own_name(name) or name, self.config.stream
        yield from resume_tables(self.checkpoint, stream.checkpoint, [own], self.clock.now_ms())

    def compact_command(self, name: str) -> tuple[Sequence[str], Mapping[str, str]]:
        """See `Site.compact_command`; secrets travel by the environment alone."""
        tables, path = self.config.tables, self._path(name)
        words = [str(job_identifier(tables, path)) if tables.catalog else path]
        for key, value in self.config.spark.items():
            if not is_secret(key):
                words += ["--set", f"{key}={value}"]
        further = file_io_variables(self.config.file_system)
        return words, {**further, **catalog_variables(tables.catalog)}

    def _part(self, name: str) -> str:
        return self.config.tables.part(self.config.tables.own_name(name) or "")

    def _path(self, name: str) -> str:
        path = self._status(None).paths().get(self.config.tables.own_name(name) or "")
        if path is None:
            raise TableNotFoundError(
                f"the job has no table {name}", where=self.title, fix="choose one of the list"
            )
        return path

    def _shown(self, one: TableStatus) -> TableStatus:
        """The status under its name on pages, with the compactions of this process's job."""
        if one.state == REFUSED:
            return replace(one, reason=refused_reason(one.reason or ""))
        one = replace(one, table=self.config.tables.full_name(one.table))
        if one.state == MISSING:
            return replace(one, reason=f"{one.reason}\nto fix: {_remedy(self.config.tables)}")
        now = self.compactions(one.table)
        if now is None or not now.numbers.buckets:
            return one
        one = replace(one, sorted_runs=now.numbers.sorted_runs_max)
        return with_waiting_rows(one, now.numbers.waiting_rows)

    def _counts_runs(self, path: str) -> bool:
        """Whether the sorted runs of the table in a folder are counted from manifests."""
        part = self.config.tables.part(path.rsplit("/", 1)[-1])
        now = None if self._history is None else self._history.compactions(part)
        return now is None or not now.numbers.buckets

    def _judge(self, tables: Sequence[TableStatus]) -> JobGlance:
        """The glance at all tables by which pages judge whether one is behind."""
        ages = [one.changed_s for one in tables if one.changed_s is not None]
        return JobGlance(
            is_here=self._history is not None,
            max_staleness_s=self.config.stream.max_staleness // 1000,
            changed_s=min(ages, default=None),
            no_ends=self.no_ends,
        )

    def _waiting_records(self) -> Mapping[str, int] | None:
        """Counted at most each minute, and only what has changed; a slow count goes on alone."""
        is_due = self.clock.steady_seconds() >= self._waiting_until
        if self._watch is not None and is_due and self._counting.acquire(blocking=False):
            thread = threading.Thread(target=self._count, args=(self._watch,), daemon=True)
            thread.start()
            thread.join(_COUNT_S)
        return self._waiting

    def _count(self, watch: QuarantineWatch) -> None:
        try:
            self._waiting_until = watch.look() + self.clock.steady_seconds()
        finally:
            self._counting.release()

    def _counted(self, waiting: Mapping[str, int]) -> None:
        full_name = self.config.tables.full_name
        self._waiting = {full_name(own): count for own, count in waiting.items() if count}

    def _open(self, path: str) -> FileStoreTable:
        return open_job_table(self.config.tables, path, self.clock)

    def _status(self, ends: Offsets | None) -> JobStatus:
        return JobStatus(
            tables_of_job=self.config.tables,
            checkpoint=self.checkpoint,
            ends=ends,
            now_ms=self.clock.now_ms(),
            facts_of=self._facts.of,
        )

    def _asked_ends(self) -> tuple[Offsets | None, str | None]:
        """The ends of the topics, and the reason if the broker did not report them."""
        reasons: list[str] = []
        ends = self._ask_ends(reasons.append)
        return ends, reasons[0] if reasons else None

    def _newest_message_ms(self) -> int | None:
        """As `JobStatus.newest_ms`, but cached: that examines all tables."""
        return self._newest.look() if self._history is None else self._history.source_ms


def _remedy(tables: TablesOfJob) -> str:
    """The remedy for a table that is gone."""
    if isinstance(tables, SingleTable):
        return "start the job, which makes the table, or correct table.path"
    return (
        "start the job again: it makes the table with the next message of its source; "
        "stream-app backfill brings the rows from before"
    )
