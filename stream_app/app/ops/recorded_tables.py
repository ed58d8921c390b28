"""Reads what a job's checkpoint records of the job's tables, while the job may run.

The checkpoint records their folders, sources and warnings. This module also makes splitters of
messages by the sources. `check`, `backfill`, and the list and the replay of a quarantine call it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.opening.job_folder_access import not_begun_text, open_checkpoint
from stream_app.app.table_setup.refused_tables import refused_tables
from stream_app.cdc.pipeline_steps.own_message_decoder import EVERY_SOURCE, SourceFilter
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobState, JobWarning, read_state, state_or_empty
from stream_app.checkpoint.load_plan import read_load_plan
from stream_app.epochs.stages.epoch_plan import MessageSplitter, OneTableSplitter
from stream_app.epochs.stages.origin_splitter import OriginSplitter
from stream_app.errors import SparkOnlyError, UsageError
from stream_app.model.source.origin import Origin
from stream_app.table.file_store_table import FileStoreTable


def paths_of(job_tables: JobTables, *, needs_one: bool = True) -> Sequence[str]:
    """Return the folders of a job's tables, in the order of their names.

    Raises:
        UsageError: the job has not seen any table yet, or only Spark can read its checkpoint.
    """
    paths = job_tables.paths(_recorded_names(job_tables))
    if not paths and needs_one:
        is_begun = read_state(_checkpoint(job_tables)) is not None
        raise UsageError(
            "the job has not seen any table yet"
            if is_begun
            else not_begun_text(job_tables.checkpoint),
            where=job_tables.checkpoint,
            fix="run the job first, or name a table's folder",
        )
    return list(paths.values())


def refused_sources(job_tables: JobTables) -> Mapping[Origin, str]:
    """Return source table → reason, for those that the job should store but does not.

    It is empty if only Spark can read the checkpoint.
    """
    try:
        return refused_tables(state_or_empty(_checkpoint(job_tables)), job_tables.rules)
    except SparkOnlyError:
        return {}


def warnings_of(job_tables: JobTables) -> Sequence[JobWarning]:
    """Return the warnings in a job's checkpoint; empty if only Spark can read the checkpoint."""
    try:
        return state_or_empty(_checkpoint(job_tables)).warnings
    except SparkOnlyError:
        return ()


def state_of_job(job_tables: JobTables) -> JobState:
    """Return the state in a job's checkpoint, which is empty before the job has begun.

    Raises:
        UsageError: only Spark can access the checkpoint.
    """
    return state_or_empty(_checkpoint(job_tables))


def loaded_tables(job_tables: JobTables | None) -> frozenset[str]:
    """Return the folders of tables whose first rows came from a database, from the checkpoint."""
    if job_tables is None:
        return frozenset()
    try:
        load_plan = read_load_plan(_checkpoint(job_tables))
    except SparkOnlyError:
        return frozenset()
    if load_plan is None:
        return frozenset()
    return frozenset(part.table for part in load_plan.parts_from(0))


def source_filter_of(job_tables: JobTables | None) -> SourceFilter:
    """Return the source tables that a job of one table accepts: all without a known checkpoint."""
    if job_tables is None or job_tables.joins_sources:
        return EVERY_SOURCE
    try:
        checkpoint = _checkpoint(job_tables)
    except SparkOnlyError:
        return EVERY_SOURCE
    names_by_topic = state_or_empty(checkpoint).source_tables_of()
    if not names_by_topic:
        return EVERY_SOURCE
    own_names = frozenset(
        name for names_of_topic in names_by_topic.values() for name in names_of_topic if name
    )
    foreign_sources = frozenset(
        (topic, "") for topic in job_tables.source.topics if topic not in names_by_topic
    )
    return SourceFilter(own_names=own_names, foreign_sources=foreign_sources)


def recorded_splitter(
    job_tables: JobTables | None, *file_store_tables: FileStoreTable
) -> MessageSplitter:
    """Make a splitter that assigns messages to tables, by the tables' indices.

    Messages of a source table that collides with another one, and was refused, belong to no table.

    Raises:
        UsageError: only the checkpoint could name the source tables, and it cannot be read.
    """
    if job_tables is None:
        return OneTableSplitter()
    names = [table.name for table in file_store_tables]
    targets: Mapping[Origin, str] = {}
    if job_tables.may_collide:  # otherwise the names suffice, and the checkpoint need not exist
        targets = state_or_empty(_checkpoint(job_tables)).targets
        for name in sorted(set(names) - set(targets.values())):
            raise UsageError(
                f"the checkpoint does not record which source tables the table {name!r} has: with "
                "merge-shards = false or case-sensitive = false two of them may have its name",
                where=job_tables.checkpoint,
                fix="give the configuration with the checkpoint of the table's job",
            )
    return named_splitter(job_tables, names, targets)


def named_splitter(
    job_tables: JobTables, names: Sequence[str], targets: Mapping[Origin, str]
) -> MessageSplitter:
    """Make a splitter that assigns messages to tables, by the indices of their names.

    Args:
        targets: source table → its table, as far as the caller knows.
    """
    assignment = job_tables.assignment(names, targets)
    if assignment is None:
        return OneTableSplitter()
    return OriginSplitter(job_tables.source.source_extractor.find_origins, assignment)


def _recorded_names(job_tables: JobTables) -> Iterator[str]:
    """Yield the tables in the checkpoint, which is read only for a job of a whole database."""
    yield from state_or_empty(_checkpoint(job_tables)).targets.values()


def _checkpoint(job_tables: JobTables) -> JobFolder:
    return open_checkpoint(job_tables, fix="name a table's folder")
