"""Begins a job's first load from its database, or goes on with it.

`app.ops.load` plans it, and the checkpoint remembers the plan. `stream` puts its epochs in front of
those of the topics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.single_table_or_database import SingleTableOrDatabase
from stream_app.app.job.checks import CheckedJob
from stream_app.app.ops.load.first_load import (
    FirstLoad,
    LoadedTable,
    database_of,
    load_format,
    loaded_table,
)
from stream_app.cdc.pipeline import Pipeline
from stream_app.clock import Clock
from stream_app.errors import UsageError
from stream_app.spark.epoch.driver_epochs import DriverEpochs
from stream_app.spark.job_folder import Folder
from stream_app.spark.load.database_rows import DatabaseRows
from stream_app.spark.load.load_epochs import LoadEpochs
from stream_app.spark.load.load_plan import LoadPlan, read_load, write_load
from stream_app.spark.stream.epoch_log_writer import EpochLogWriter
from stream_app.table.file_store_table import FileStoreTable

_KEY = "source.snapshot-from"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLoad:
    """The first load of a job, planned in its checkpoint.

    Attributes:
        rows: makes the reader of the database.
        format_of: makes the format of its rows for a table.
    """

    plan: LoadPlan
    rows: Callable[[], DatabaseRows]
    format_of: Callable[[FileStoreTable], Pipeline]

    @property
    def epochs(self) -> int:
        """The number of its epochs."""
        return len(self.plan.epochs)

    def before(self, topics: DriverEpochs) -> LoadEpochs:
        """The runner of the load's epochs, then of the topics'."""
        return LoadEpochs(topics=topics, load=self.plan, rows=self.rows, format_of=self.format_of)


def load_of(
    tables: SingleTableOrDatabase, checked: CheckedJob, clock: Clock, tasks: int
) -> JobLoad | None:
    """The first load that the configuration asks for, or that the checkpoint has; None: neither.

    Args:
        tasks: parts of a table that are read at once.

    Raises:
        UsageError: the job has begun without it, or the table has rows already.
        UnsupportedTableError: a table cannot be loaded exactly.
        SourceError: the database does not answer.
    """
    folder, source = checked.state_file.folder, tables.source
    plan = read_load(folder)
    if plan is None and source.snapshot_from is None:
        return None

    def possible() -> FirstLoad:
        if source.snapshot_from is None:
            raise UsageError(
                "the checkpoint has a first load that has not ended, and no database is named",
                where=str(folder),
                fix=f"give {_KEY} again",
            )
        url = database_of(source)
        loaded = [
            loaded_table(url, tables, table, relation)
            for table, relation in _relations(tables, checked)
        ]
        if plan is not None:
            _check_same(plan, loaded, folder)
        return FirstLoad(url=url, tables=loaded)

    if plan is None:
        _check_new(folder, [table for table, _ in _relations(tables, checked)])
        plan = possible().plan(source.snapshot_rows, tasks)
        write_load(folder, plan)
    return JobLoad(
        plan=plan,
        rows=lambda: possible().rows(clock.now_ms()),
        format_of=lambda table: load_format(tables, table),
    )


def _relations(
    tables: SingleTableOrDatabase, checked: CheckedJob
) -> Sequence[tuple[FileStoreTable, str]]:
    """Each table with the table of the source whose rows it gets."""
    assert isinstance(tables, SingleTable)
    assert checked.table is not None
    return [(checked.table, tables.source.snapshot_table or tables.table.name)]


def _check_same(plan: LoadPlan, loaded: Sequence[LoadedTable], folder: Folder) -> None:
    """The parts that are left are keys of the source tables that the load began with."""
    begun = {part.table: part.relation for parts in plan.epochs for part in parts}
    for one in loaded:
        if begun.get(one.table.location) != str(one.relation):
            raise UsageError(
                f"the first load of {one.table.label} has begun with the rows of "
                f"{begun.get(one.table.location)}, not of {one.relation}",
                where=str(folder),
                fix="give source.snapshot-table as it was until the load ends; or give the job a "
                "new stream.checkpoint and a new table",
            )


def _check_new(folder: Folder, tables: Sequence[FileStoreTable]) -> None:
    if EpochLogWriter(folder).newest() is not None:
        raise UsageError(
            "the job has read its topics already, and a first load stands before them",
            where=str(folder),
            fix=f"leave out {_KEY}; or give the job a new stream.checkpoint and a new table",
        )
    for table in tables:
        latest = table.snapshots.latest()
        if latest is not None and latest.total_record_count:
            raise UsageError(
                f"the table has {latest.total_record_count} records already; those that the source "
                "has deleted since would stay",
                where=table.location,
                fix=f"leave out {_KEY}, or give a new table",
            )
