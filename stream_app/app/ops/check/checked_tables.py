"""Finds the folders of a job's tables and the messages of each, for `check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stream_app.app.config.job_tables.tables_of_job import TablesOfJob
from stream_app.app.tables.job_folders import checkpoint_of, not_begun
from stream_app.app.tables.refused_tables import refused_tables
from stream_app.cdc.steps.own_table import EVERY_SOURCE, SourceChoice
from stream_app.errors import UsageError
from stream_app.model.source.origin import Origin
from stream_app.spark.checkpoint.job_state import JobState, JobWarning, read_state, state_of
from stream_app.spark.checkpoint.load_plan import read_load
from stream_app.spark.epoch.epoch_plan import AllToOneTable, MessageSplitter
from stream_app.spark.epoch.origin_splitter import OriginSplitter
from stream_app.spark.job_folder import Folder
from stream_app.table.file_store_table import FileStoreTable


def paths_of(tables: TablesOfJob, *, needs_one: bool = True) -> Sequence[str]:
    """The folders of a job's tables, by name.

    Raises:
        UsageError: the job has not seen any table yet, or only Spark reads its checkpoint.
    """
    paths = tables.paths(_met(tables))
    if not paths and needs_one:
        is_begun = read_state(_checkpoint(tables)) is not None
        raise UsageError(
            "the job has not seen any table yet" if is_begun else not_begun(tables.checkpoint),
            where=tables.checkpoint,
            fix="run the job first, or name a table's folder",
        )
    return list(paths.values())


def refused_sources(tables: TablesOfJob) -> Mapping[Origin, str]:
    """The reason for each source table that the job should store but does not.

    It is empty if only Spark can read the checkpoint.
    """
    try:
        return refused_tables(state_of(_checkpoint(tables)), tables.rules)
    except UsageError:
        return {}


def warnings_of(tables: TablesOfJob) -> Sequence[JobWarning]:
    """The job's warnings from its checkpoint; empty if only Spark can read the checkpoint."""
    try:
        return state_of(_checkpoint(tables)).warnings
    except UsageError:
        return ()


def state_of_job(tables: TablesOfJob) -> JobState:
    """The state in a job's checkpoint; empty before the job has begun.

    Raises:
        UsageError: only Spark reaches the checkpoint.
    """
    return state_of(_checkpoint(tables))


def loaded_tables(tables: TablesOfJob | None) -> frozenset[str]:
    """The folders of a job's tables whose first rows came from a database, by its checkpoint."""
    if tables is None:
        return frozenset()
    try:
        load = read_load(_checkpoint(tables))
    except UsageError:  # only Spark reaches it
        return frozenset()
    return frozenset() if load is None else frozenset(part.table for part in load.parts_from(0))


def choice_of(tables: TablesOfJob | None) -> SourceChoice:
    """The records that a job of one table takes, by its checkpoint; all without a checkpoint."""
    if tables is None or tables.joins_sources:
        return EVERY_SOURCE
    try:
        folder = _checkpoint(tables)
    except UsageError:  # only Spark reaches it
        return EVERY_SOURCE
    known = state_of(folder).source_tables_of()
    if not known:
        return EVERY_SOURCE
    names = frozenset(name for names_of_topic in known.values() for name in names_of_topic if name)
    others = frozenset((topic, "") for topic in tables.source.topics if topic not in known)
    return SourceChoice(own=names, others=others)


def splitter_of(job: TablesOfJob | None, *tables: FileStoreTable) -> MessageSplitter:
    """Make a splitter that gives each table its messages, by the table's index.

    Messages of a source table that the job refused for its name belong to no table.

    Raises:
        UsageError: only the checkpoint could name these source tables, and it cannot be read.
    """
    if job is None:
        return AllToOneTable()
    names = [table.name for table in tables]
    origins: Mapping[Origin, str] = {}
    if job.may_collide:  # else the names tell it, and the checkpoint may be gone
        origins = state_of(_checkpoint(job)).origins
        for name in sorted(set(names) - set(origins.values())):
            raise UsageError(
                f"the checkpoint does not record which source tables the table {name!r} has: with "
                "merge-shards = false or case-sensitive = false two of them may have its name",
                where=job.checkpoint,
                fix="give the configuration with the checkpoint of the table's job",
            )
    return splitter_for(job, names, origins)


def splitter_for(
    tables: TablesOfJob, names: Sequence[str], origins: Mapping[Origin, str]
) -> MessageSplitter:
    """Make a splitter that gives each table its messages, by the index of its name.

    Args:
        origins: source table → the job's table, as far as known.
    """
    assignment = tables.assignment(names, origins)
    if assignment is None:
        return AllToOneTable()
    return OriginSplitter(tables.source_facts.origins, assignment)


def _met(tables: TablesOfJob) -> Iterator[str]:
    """The tables that the checkpoint names. It is read only if a job of many asks for them."""
    yield from state_of(_checkpoint(tables)).origins.values()


def _checkpoint(tables: TablesOfJob) -> Folder:
    return checkpoint_of(tables, fix="name a table's folder")
