"""Begins a job's first load from its database, or resumes it.

`loaded_tables` splits the tables into parts, and the checkpoint keeps the plan.
`app.job.source_reader` runs the load's epochs before those of the topics.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.load.load_progress import LoadProgress, progress_of
from stream_app.app.load.loaded_tables import (
    LOAD_KEY,
    ChosenTables,
    LoadedDatabase,
    database_of,
    first_load_pipeline,
)
from stream_app.app.load.row_queries import LoadedRelation
from stream_app.app.source.captured_tables import followed_database
from stream_app.app.source.jdbc_connection import log_position, open_connection
from stream_app.app.source.kafka_reader import end_offsets
from stream_app.checkpoint.epoch_log_writer import EpochLogWriter
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile, JobWarning
from stream_app.checkpoint.load_plan import (
    LoadPlan,
    read_load_plan,
    split_into_epochs,
    write_load_plan,
)
from stream_app.clock import Clock
from stream_app.errors import TableNotFoundError, UsageError
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_table import SourceTable
from stream_app.spark.jobs.database_row_reader import DatabaseRowReader
from stream_app.spark.jobs.driver_epochs import DriverEpochRunner
from stream_app.spark.jobs.load_epochs import LoadEpochRunner
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)
_NEW_JOB = "give the job a new stream.checkpoint and new tables"


class PreparedTables(Protocol):
    """The tables that a first load fills: `CheckedTable`, or those of `DatabaseTables`."""

    def schema_for(self, name: str, sources: Mapping[Origin, SourceTable]) -> TableSchema:
        """Return the schema of an existing table, or the one with which it would be created."""
        ...

    def begin_with(
        self, sources_of: Mapping[str, Mapping[Origin, SourceTable]]
    ) -> Mapping[str, FileStoreTable]:
        """Open the tables, and create missing ones."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLoad:
    """A job's first load, whose plan is in the job's checkpoint."""

    load_plan: LoadPlan
    job_tables: JobTables
    clock: Clock

    @property
    def epoch_count(self) -> int:
        """The number of epochs of the load."""
        return len(self.load_plan.epochs)

    def progress(self, epoch: int) -> LoadProgress:
        """Return the load's progress at the beginning of an epoch."""
        return progress_of(self.load_plan, epoch)

    def runner_before(self, topic_runner: DriverEpochRunner) -> LoadEpochRunner:
        """Return a runner of the load's epochs and then of the topics' epochs."""
        return LoadEpochRunner(
            topic_runner=topic_runner,
            load_plan=self.load_plan,
            make_reader=self._make_reader,
            make_pipeline=functools.partial(first_load_pipeline, self.job_tables),
        )

    def is_over(self, checkpoint: JobFolder) -> bool:
        """Return whether the job has begun an epoch after those of the load."""
        newest_epoch = EpochLogWriter(checkpoint).newest_epoch()
        return newest_epoch is not None and newest_epoch >= self.epoch_count

    def check_tables(self, tables: Iterable[FileStoreTable], checkpoint: JobFolder) -> None:
        """Check that every table exists to which the load still has to bring rows.

        Raises:
            TableNotFoundError: such a table was deleted.
        """
        newest_epoch = EpochLogWriter(checkpoint).newest_epoch()
        locations = {table.location for table in tables}
        remaining_parts = self.load_plan.parts_from(0 if newest_epoch is None else newest_epoch)
        if missing_parts := [part for part in remaining_parts if part.table not in locations]:
            raise TableNotFoundError(
                "the first load has not ended, and the table for "
                f"{missing_parts[0].relation} is gone",
                where=missing_parts[0].table,
                fix=f"restore it; or {_NEW_JOB}",
            )

    def _make_reader(self, tables: Mapping[str, FileStoreTable]) -> DatabaseRowReader:
        """Return the reader of the source tables, with the table that gets the rows of each."""
        if self.job_tables.source.snapshot_from is None:
            raise UsageError(
                "the checkpoint has a first load that has not ended, and no database is named",
                where=self.load_plan.source,
                fix=f"give {LOAD_KEY} again",
            )
        url = database_of(self.job_tables.source)
        now_ms = self.clock.now_ms()
        with open_connection(url) as connection:
            loaded_database = LoadedDatabase(connection, url, self.job_tables)
            loaded_relations = {
                relation: loaded_database.relation(
                    table.name, table.schema, loaded_database.definition(relation)
                )
                for relation, table in tables.items()
            }
        queries = {
            relation: loaded_relation.row_query(now_ms)
            for relation, loaded_relation in loaded_relations.items()
        }
        return DatabaseRowReader(url=url, queries=queries)


def begin_or_resume_load(
    job_tables: JobTables,
    prepared_tables: PreparedTables,
    state_file: JobStateFile,
    reader_settings: ReaderSettings | None,
    clock: Clock,
    task_count: int,
) -> JobLoad | None:
    """Resume the first load in the checkpoint, or plan and record a configured one.

    Return None if there is neither.

    Args:
        prepared_tables: the table of the job, or the maker of a whole database's tables.
        reader_settings: settings of the native reader, or None if only Spark can read the topics.
        task_count: the number of parts of a table that are read at the same time.

    Raises:
        UsageError: the job has begun without a first load, a table has rows already, or only Spark
            can read the topics.
        UnsupportedTableError: a table cannot be loaded exactly.
        SourceError: the database does not respond.
        WrongSourceError: no connector follows the database.
    """
    checkpoint = state_file.checkpoint
    load_plan = read_load_plan(checkpoint)
    if load_plan is None:
        if job_tables.source.snapshot_from is None:
            return None
        planner = _LoadPlanner(
            job_tables=job_tables,
            prepared_tables=prepared_tables,
            state_file=state_file,
            reader_settings=_native_reader(reader_settings),
            clock=clock,
        )
        load_plan = planner.plan(task_count)
        write_load_plan(checkpoint, load_plan)
    EpochLogWriter(checkpoint).write_first_offsets(load_plan.offsets)
    load = JobLoad(load_plan=load_plan, job_tables=job_tables, clock=clock)
    if not load.is_over(checkpoint):
        _native_reader(reader_settings)
    return load


def _native_reader(reader_settings: ReaderSettings | None) -> ReaderSettings:
    if reader_settings is None:
        raise UsageError(
            "a first load needs the native reader, which cannot read these topics",
            where="source.kafka",
            fix=f"leave out {LOAD_KEY}, and let Debezium's own first read bring the rows",
        )
    return reader_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadPlanner:
    """The planner of the first load of a job that has not begun yet."""

    job_tables: JobTables
    prepared_tables: PreparedTables
    state_file: JobStateFile
    reader_settings: ReaderSettings
    clock: Clock

    def plan(self, task_count: int) -> LoadPlan:
        """Plan the load.

        The topics' ends are read first: the topics then have all changes of tables that are created
        meanwhile.
        """
        checkpoint = self.state_file.checkpoint
        if EpochLogWriter(checkpoint).newest_epoch() is not None:
            raise UsageError(
                "the job has read its topics already, and a first load comes before them",
                where=str(checkpoint),
                fix=f"leave out {LOAD_KEY}; or {_NEW_JOB}",
            )
        source_config = self.job_tables.source
        url = database_of(source_config)
        with open_connection(url) as connection:
            begun_time_ms = self.clock.now_ms()
            position = log_position(connection, url)
            offsets = end_offsets(source_config, self.reader_settings)
            loaded_database = LoadedDatabase(connection, url, self.job_tables)
            chosen_tables = loaded_database.choose_tables(followed_database(connection, url))
            sources_of = chosen_tables.sources(url, lowers_names=self.job_tables.lowers_names)
            schemas = {
                name: self.prepared_tables.schema_for(name, sources)
                for name, sources in sources_of.items()
            }
            relations = loaded_database.relations(chosen_tables, schemas)
            tables = self._open_tables(sources_of)
            parts = [
                loaded_database.parts(name, tables[name], relation, source_config.snapshot_rows)
                for name, table_relations in relations.items()
                for relation in table_relations
            ]
        self._warn_of_tables(chosen_tables)
        self._warn_of_columns(relations)
        _LOG.info(
            "first load: %d parts of %d tables of %s, at %s",
            sum(map(len, parts)), len(tables), url, position,
        )  # fmt: skip
        return LoadPlan(
            source=str(url),
            log_position=position,
            begun_time_ms=begun_time_ms,
            offsets=offsets,
            epochs=split_into_epochs(parts, task_count),
        )

    def _open_tables(
        self, sources_of: Mapping[str, Mapping[Origin, SourceTable]]
    ) -> Mapping[str, FileStoreTable]:
        """Return name in the job → table, opened or created.

        The planner calls this only after it has found that all tables can be loaded.
        """
        tables = self.prepared_tables.begin_with(sources_of)
        for table in tables.values():
            _check_empty(table)
        return tables

    def _warn_of_columns(self, relations: Mapping[str, Sequence[LoadedRelation]]) -> None:
        self.state_file.write_warnings(
            JobWarning(
                table=self.job_tables.full_name(name),
                problem=f"the first load leaves out columns of {relation} that the table does not "
                f"have: {', '.join(relation.omitted_columns)}",
                fix="to store them, give the job a new table that has them, and a new "
                "stream.checkpoint",
                is_lasting=True,
            )
            for name, table_relations in relations.items()
            for relation in table_relations
            if relation.omitted_columns
        )

    def _warn_of_tables(self, chosen_tables: ChosenTables) -> None:
        self.state_file.write_warnings(
            JobWarning(
                problem=f"the first load leaves out {relation}, which {reason}: "
                "no change of it comes",
                fix="let Debezium send it, and load it by a job of its own; or leave it out by "
                "sync.excluding-tables",
                is_lasting=True,
            )
            for relation, reason in chosen_tables.unsent_reasons.items()
        )


def _check_empty(table: FileStoreTable) -> None:
    latest_snapshot = table.snapshots.latest()
    if latest_snapshot is not None and latest_snapshot.total_record_count:
        raise UsageError(
            f"the table has {latest_snapshot.total_record_count} records already; those that the "
            "source has deleted since would stay",
            where=table.location,
            fix=f"leave out {LOAD_KEY}, or give a new table",
        )
