"""The tables that the pages show: those of a warehouse, or those of a job.

A site is asked from threads of the server, and keeps no table open.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.secrets import Secrets
from stream_app.app.inspect.job_status import EMPTY, READY, UNREADABLE, JobStatus, TableStatus
from stream_app.app.inspect.source_ends import source_ends
from stream_app.app.job.epoch_history import EpochHistory, EpochTimes
from stream_app.app.quarantine.kept_records import Quarantine, open_quarantine
from stream_app.clock import Clock
from stream_app.errors import StreamAppError, TableNotFoundError
from stream_app.fileio.file_io import FileIO
from stream_app.kafka.offset_ranges import Offsets
from stream_app.spark.job_folder import Folder
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_table

LOCAL_HOST = "127.0.0.1"
"""Where pages are served unless another address is given."""
_DATABASE = ".db"
_ENDS_S = 5.0


class Site(Protocol):
    """Some tables, by name."""

    @property
    def title(self) -> str:
        """Which tables these are."""
        ...

    @property
    def secrets(self) -> Secrets:
        """Texts that no page may hold."""
        ...

    def tables(self) -> Sequence[TableStatus]:
        """The status of each table, by name."""
        ...

    def open(self, name: str) -> FileStoreTable:
        """One of them as it is now.

        Raises:
            TableNotFoundError: there is none of this name.
            StreamAppError: it cannot be read.
        """
        ...

    def settings(self) -> Mapping[str, Mapping[str, object]]:
        """The job's configuration by section, without secrets; empty without a job."""
        ...

    def quarantine(self, name: str) -> Quarantine | None:
        """The records of a table that were set aside; None: the job keeps none."""
        ...

    def epochs(self, name: str) -> Sequence[EpochTimes]:
        """The newest epochs of a table, oldest first; none when this process is not its job."""
        ...


@dataclass(frozen=True, slots=True)
class WarehouseSite:
    """All tables of the databases of a warehouse, ``…/DATABASE.db/TABLE``.

    Attributes:
        warehouse: its folder.
        options: of its file system.
    """

    warehouse: str
    files: FileIO
    options: Mapping[str, str]
    clock: Clock
    secrets: Secrets = field(default_factory=Secrets)

    @property
    def title(self) -> str:
        """See `Site.title`."""
        return self.warehouse

    def tables(self) -> Sequence[TableStatus]:
        """See `Site.tables`; a table's newest snapshot is all that is read of it."""
        found = (self._status(name, path) for name, path in sorted(self._paths().items()))
        return [one for one in found if one is not None]

    def open(self, name: str) -> FileStoreTable:
        """See `Site.open`."""
        path = self._paths().get(name)
        if path is None:
            raise TableNotFoundError(
                f"there is no table {name}",
                where=self.warehouse,
                fix="choose one of the list",
            )
        return self._open(path)

    def settings(self) -> Mapping[str, Mapping[str, object]]:
        """See `Site.settings`."""
        return {}

    def quarantine(self, name: str) -> Quarantine | None:  # noqa: ARG002 - no job, none of its own
        """See `Site.quarantine`."""
        return None

    def epochs(self, name: str) -> Sequence[EpochTimes]:  # noqa: ARG002 - no job, no epochs
        """See `Site.epochs`."""
        return ()

    def _open(self, path: str) -> FileStoreTable:
        return open_table(path, self.clock, file_io_options=self.options)

    def _paths(self) -> Mapping[str, str]:
        """``DATABASE.TABLE`` → folder."""
        found = {}
        for folder in self._folders(self.warehouse):
            if folder.endswith(_DATABASE):
                database = folder.removesuffix(_DATABASE)
                for table in self._folders(f"{self.warehouse}/{folder}"):
                    found[f"{database}.{table}"] = f"{self.warehouse}/{folder}/{table}"
        return found

    def _folders(self, path: str) -> list[str]:
        """Names of folders; no table has a name that is not Unicode, and no page can show it."""
        names = [each.name for each in self.files.list_status(path) if each.is_folder]
        return [name for name in names if _is_unicode(name)]

    def _status(self, name: str, path: str) -> TableStatus | None:
        """None: the folder is no table."""
        try:
            latest = self._open(path).snapshots.latest()
        except TableNotFoundError:
            return None
        except (StreamAppError, OSError) as error:
            return TableStatus(table=name, state=UNREADABLE, reason=str(error))
        if latest is None:
            return TableStatus(table=name, state=EMPTY)
        age_ms = self.clock.now_ms() - latest.time_millis
        return TableStatus(
            table=name,
            state=READY,
            snapshot=latest.snapshot_id,
            changed_s=max(0, age_ms) // 1000,
        )


@dataclass(slots=True)
class JobSite:
    """The tables of a job, by its configuration; the job may run or not.

    Attributes:
        history: of the job that runs in this process; None: none does.
    """

    config: AppConfig
    checkpoint: Folder
    clock: Clock
    history: EpochHistory | None = None
    _ends: Offsets | None = None
    _ends_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

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
        return list(self._status(self._source_ends()).tables())

    def open(self, name: str) -> FileStoreTable:
        """See `Site.open`."""
        path = self._status(None).paths().get(name)
        if path is None:
            raise TableNotFoundError(
                f"the job has no table {name}", where=self.title, fix="choose one of the list"
            )
        return open_table(path, self.clock, file_io_options=self.config.file_system)

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

    def epochs(self, name: str) -> Sequence[EpochTimes]:
        """See `Site.epochs`."""
        if self.history is None:
            return ()
        return self.history.of("" if self.config.sync is None else name)

    def _status(self, ends: Offsets | None) -> JobStatus:
        return JobStatus(
            config=self.config,
            checkpoint=self.checkpoint,
            ends=ends,
            now_ms=self.clock.now_ms(),
        )

    def _source_ends(self) -> Offsets | None:
        """Asked of the broker at most each `_ENDS_S` seconds; a broker that is away is slow."""
        with self._lock:
            if self.clock.steady_seconds() - self._ends_at > _ENDS_S:
                self._ends = source_ends(self.config.source, lambda _: None)
                self._ends_at = self.clock.steady_seconds()
            return self._ends


def _is_unicode(name: str) -> bool:
    """Python gives other bytes of a file's name as lone surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
