"""Provides tables to pages: those of a warehouse, or those of a job.

Threads of the server call a site, which keeps no table open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stream_app.app.config.secrets import Secrets
from stream_app.app.inspect.job_status import with_proof, with_waiting_rows
from stream_app.app.inspect.table_facts import FactsCache, freshness_s
from stream_app.app.inspect.table_status import JobTableState, TableStatus
from stream_app.app.observe.events.epoch_history import PastEpoch, TableActivity
from stream_app.app.web.job_glance import JobGlance
from stream_app.app.web.unassigned_records import UnassignedFacts
from stream_app.clock import Clock
from stream_app.errors import StreamAppError, TableNotFoundError, UsageError
from stream_app.fileio.file_io import FileIO
from stream_app.quarantine.quarantine_folder import Quarantine
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.map_in_threads import map_in_threads
from stream_app.table.opening import open_file_store_table

LOCAL_HOST = "127.0.0.1"
"""The default address of pages."""
_DATABASE = ".db"
_THREAD_COUNT = 8
"""The number of tables that are read concurrently, because reads mostly wait for the store."""


class Site(Protocol):
    """A set of named tables; without a job they have no epochs, no quarantine and no settings.

    Attributes:
        clock: the time of ages.
    """

    clock: Clock

    @property
    def title(self) -> str:
        """A title for these tables."""
        ...

    @property
    def secrets(self) -> Secrets:
        """Texts that no page may contain."""
        ...

    @property
    def ends_problem(self) -> str | None:
        """The reason why the broker has not reported the topics' ends recently, or None."""
        return None

    def status(self, name: str) -> TableStatus | None:
        """Return the status of one table; None if it is not in the list."""
        ...

    def tables(self) -> Sequence[TableStatus]:
        """Return the status of each table, by name."""
        ...

    def glance(self, tables: Sequence[TableStatus]) -> JobGlance | None:  # noqa: ARG002 - a default
        """Return the summary of the job; None if the tables do not belong to a job.

        Args:
            tables: the status of all tables.
        """
        return None

    def open(self, name: str) -> FileStoreTable:
        """Open one of the tables, as it is now.

        Raises:
            TableNotFoundError: no table has this name.
            StreamAppError: the table cannot be read.
        """
        ...

    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """Return section → key → value of the job's configuration, without secrets; or empty."""
        return {}

    def quarantine(self, name: str) -> Quarantine | None:  # noqa: ARG002 - a default
        """Return the quarantine of a table, or None if the job has none.

        Args:
            name: the table; empty means the records that belong to no table.
        """
        return None

    def unassigned_records(self) -> UnassignedFacts:
        """Return the records of the quarantine that belong to no table."""
        return UnassignedFacts()

    def epochs(self, name: str) -> Sequence[PastEpoch]:  # noqa: ARG002 - a default
        """Return a table's newest epochs, oldest first; empty if its job runs elsewhere."""
        return ()

    def activity_of(self, name: str) -> TableActivity | None:  # noqa: ARG002 - a default
        """Return a table's current compactions, or None if its job does not run in this process."""
        return None

    def replay(self, name: str) -> Iterator[str]:
        """Replay quarantined records of a table, or of no table, and yield lines of a report.

        Raises:
            UsageError: the job has no quarantine, or a record cannot be replayed safely.
        """
        raise UsageError(
            "a replay needs the configuration of a job",
            where=name,
            fix="serve the page with --conf",
        )

    def resume(self, name: str) -> Iterator[str]:
        """Ask the job to retry a held table, and yield lines of a report.

        Raises:
            UsageError: the table is not held back, or these are not the tables of a job.
        """
        raise UsageError(
            "only a job holds tables back", where=name, fix="serve the page with --conf"
        )

    def compact_command(self, name: str) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the arguments and the environment of ``stream-app compact`` for a table."""
        ...


@dataclass(slots=True)
class WarehouseSite(Site):
    """All tables of the databases of a warehouse, ``…/DATABASE.db/TABLE``.

    Attributes:
        warehouse: its folder.
        options: the options of its file system.
    """

    warehouse: str
    file_io: FileIO
    options: Mapping[str, str]
    clock: Clock
    secrets: Secrets = field(default_factory=Secrets)
    _facts: FactsCache = field(init=False)

    def __post_init__(self) -> None:
        self._facts = FactsCache(self._open, self.clock)

    @property
    def title(self) -> str:
        """See `Site.title`."""
        return self.warehouse

    def tables(self) -> Sequence[TableStatus]:
        """See `Site.tables`. It also reads the manifests of a table whose rows may wait."""
        statuses = map_in_threads(_THREAD_COUNT, self._status, sorted(self._paths().items()))
        return [status for status in statuses if status is not None]

    def status(self, name: str) -> TableStatus | None:
        """See `Site.status`."""
        return self._status((name, self._path(name)))

    def open(self, name: str) -> FileStoreTable:
        """See `Site.open`."""
        return self._open(self._path(name))

    def compact_command(self, name: str) -> tuple[Sequence[str], Mapping[str, str]]:
        """See `Site.compact_command`."""
        return [self._path(name)], {}

    def _path(self, name: str) -> str:
        path = self._paths().get(name)
        if path is None:
            raise TableNotFoundError(
                f"there is no table {name}",
                where=self.warehouse,
                fix="choose one of the list",
            )
        return path

    def _open(self, path: str) -> FileStoreTable:
        return open_file_store_table(path, self.clock, file_io_options=self.options)

    def _paths(self) -> Mapping[str, str]:
        """Return ``DATABASE.TABLE`` → folder."""
        paths = {}
        for folder in self._folders(self.warehouse):
            if folder.endswith(_DATABASE):
                database = folder.removesuffix(_DATABASE)
                for table in self._folders(f"{self.warehouse}/{folder}"):
                    paths[f"{database}.{table}"] = f"{self.warehouse}/{folder}/{table}"
        return paths

    def _folders(self, path: str) -> list[str]:
        """Return names of folders, without those that are not Unicode: no page can show them."""
        names = [status.name for status in self.file_io.list_status(path) if status.is_folder]
        return [name for name in names if _is_unicode(name)]

    def _status(self, name_and_path: tuple[str, str]) -> TableStatus | None:
        """Return the status of the table in a folder, or None if the folder is not a table."""
        name, path = name_and_path
        try:
            facts = self._facts.facts(path)
        except TableNotFoundError:
            return None
        except (StreamAppError, OSError) as error:
            return TableStatus(table=name, state=JobTableState.UNREADABLE, reason=str(error))
        if facts.time_ms is None:
            return TableStatus(table=name, state=JobTableState.EMPTY)
        now_ms = self.clock.now_ms()
        status = TableStatus(
            table=name,
            state=JobTableState.READY,
            snapshot=facts.snapshot_id,
            fresh_s=freshness_s(now_ms, facts.source_time_ms, None),
            changed_s=max(0, now_ms - facts.time_ms) // 1000,
        )
        return with_waiting_rows(with_proof(status, facts, now_ms), facts.waiting_row_count)


def _is_unicode(name: str) -> bool:
    """Return whether a file's name is valid Unicode, without lone surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
