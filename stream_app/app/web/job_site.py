"""The tables of a job as a site: with lag, epochs, compactions and quarantine."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.secrets import Secrets, is_secret
from stream_app.app.config.settings import file_io_variables
from stream_app.app.inspect.job_status import JobStatus, TableStatus
from stream_app.app.inspect.source_ends import source_ends
from stream_app.app.inspect.table_facts import RememberedFacts
from stream_app.app.job.epoch_history import CompactionsNow, EpochHistory, PastEpoch
from stream_app.app.quarantine.choice import Choice
from stream_app.app.quarantine.kept_records import Quarantine, open_quarantine
from stream_app.app.quarantine.later_changes import ReadRange
from stream_app.app.quarantine.outcome import replay_lines
from stream_app.clock import Clock
from stream_app.errors import TableNotFoundError, UsageError
from stream_app.kafka.offset_ranges import Offsets
from stream_app.spark.job_folder import Folder
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_table

_ENDS_S = 5.0
_REST = 4
"""Times the duration of a look at all tables until the next one."""


@dataclass(slots=True)
class JobSite:
    """The tables of a job, by its configuration; the job may run or not.

    Attributes:
        history: of the job that runs in this process; None: none does.
        ask_ends: where the topics end; None: of the broker.
        read: reads ranges of the topics for a replay; None: by Kafka's client.
    """

    config: AppConfig
    checkpoint: Folder
    clock: Clock
    history: EpochHistory | None = None
    ask_ends: Callable[[], Offsets | None] | None = None
    read: ReadRange | None = None
    _ends: Offsets | None = None
    _ends_at: float = float("-inf")
    _newest_ms: int | None = None
    _newest_until: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _facts: RememberedFacts = field(init=False)

    def __post_init__(self) -> None:
        self._facts = RememberedFacts(
            self._open, self.clock, of_job=True, counts_runs=self.history is None
        )

    @property
    def title(self) -> str:
        """See `Site.title`."""
        return self.config.name

    @property
    def secrets(self) -> Secrets:
        """See `Site.secrets`."""
        return self.config.secrets

    def tables(self) -> Sequence[TableStatus]:
        """See `Site.tables`."""
        return list(map(self._with_runs, self._status(self._source_ends()).tables()))

    def status(self, name: str) -> TableStatus | None:
        """See `Site.status`."""
        one = self._status(self._source_ends()).table(name, self._newest_message_ms())
        return None if one is None else self._with_runs(one)

    def open(self, name: str) -> FileStoreTable:
        """See `Site.open`."""
        return self._open(self._path(name))

    def settings(self) -> Mapping[str, Mapping[str, object]]:
        """See `Site.settings`."""
        return self.config.masked()

    def quarantine(self, name: str) -> Quarantine | None:
        """See `Site.quarantine`."""
        folder = self.config.stream.quarantine
        if folder is None:
            return None
        of_table = folder if self.config.sync is None else f"{folder}/{name}"
        return open_quarantine(of_table, self.config.file_system)

    def epochs(self, name: str) -> Sequence[PastEpoch]:
        """See `Site.epochs`."""
        if self.history is None:
            return ()
        return self.history.of(self._own_name(name))

    def compactions(self, name: str) -> CompactionsNow | None:
        """See `Site.compactions`."""
        return None if self.history is None else self.history.compactions(self._own_name(name))

    def replay(self, name: str) -> Iterator[str]:
        """See `Site.replay`."""
        self._path(name)
        quarantine = self.quarantine(name)
        if quarantine is None:
            raise UsageError(
                "the job has no quarantine", where=self.title, fix="set stream.quarantine"
            )
        # Imported only when it is asked for: it needs Spark's package and a broker's client.
        replays = importlib.import_module("stream_app.app.quarantine.job_replay")
        own = None if self.config.sync is None else name
        for one in replays.job_replays(self.config, quarantine, own, self.read).values():
            yield from replay_lines(one.run(Choice(), dry_run=False), dry_run=False)

    def compact_command(self, name: str) -> tuple[Sequence[str], Mapping[str, str]]:
        """See `Site.compact_command`; secrets travel by the environment alone."""
        words = [self._path(name)]
        for key, value in self.config.spark.items():
            if not is_secret(key):
                words += ["--set", f"{key}={value}"]
        return words, file_io_variables(self.config.file_system)

    def _own_name(self, name: str) -> str:
        """The name in the history."""
        return "" if self.config.sync is None else name

    def _path(self, name: str) -> str:
        path = self._status(None).paths().get(name)
        if path is None:
            raise TableNotFoundError(
                f"the job has no table {name}", where=self.title, fix="choose one of the list"
            )
        return path

    def _open(self, path: str) -> FileStoreTable:
        return open_table(path, self.clock, file_io_options=self.config.file_system)

    def _status(self, ends: Offsets | None) -> JobStatus:
        return JobStatus(
            config=self.config,
            checkpoint=self.checkpoint,
            ends=ends,
            now_ms=self.clock.now_ms(),
            facts_of=self._facts.of,
        )

    def _with_runs(self, one: TableStatus) -> TableStatus:
        """With the sorted runs that the job of this process knows; others are in the facts."""
        now = self.compactions(one.table)
        if now is None or not now.numbers.buckets:
            return one
        return replace(one, sorted_runs=now.numbers.sorted_runs_max)

    def _newest_message_ms(self) -> int | None:
        """As `JobStatus.newest_ms`, but not always of now: that looks at all tables."""
        if self.history is not None:
            return self.history.source_ms
        began = self.clock.steady_seconds()
        if began >= self._newest_until:
            self._newest_ms = self._status(None).newest_ms()
            now = self.clock.steady_seconds()
            self._newest_until = now + max(_ENDS_S, _REST * (now - began))
        return self._newest_ms

    def _source_ends(self) -> Offsets | None:
        """Asked of the broker at most each `_ENDS_S` seconds; a broker that is away is slow."""
        with self._lock:
            if self.clock.steady_seconds() - self._ends_at > _ENDS_S:
                ask = self.ask_ends or partial(source_ends, self.config.source, lambda _: None)
                self._ends = ask()
                self._ends_at = self.clock.steady_seconds()
            return self._ends
