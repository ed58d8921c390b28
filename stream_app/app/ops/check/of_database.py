"""What `check` needs of a job of a whole database: its tables, and the messages of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stream_app.app.config.app_config import AppConfig
from stream_app.app.tables.database_tables import remembered_origins
from stream_app.app.tables.job_folders import not_begun, open_folder
from stream_app.app.tables.refused_tables import refused_tables
from stream_app.cdc.own_table import EVERY_SOURCE, SourceChoice
from stream_app.errors import UsageError
from stream_app.message_formats import source_reader
from stream_app.model.schema.origin import Origin
from stream_app.planning.sync.assignment import Assignment
from stream_app.spark.epoch.epoch_plan import AllToOneTable, MessageSplitter
from stream_app.spark.epoch.origin_splitter import OriginSplitter
from stream_app.spark.ingest.checkpoint_state import is_begun, remembered_tables
from stream_app.spark.ingest.held_tables import read_tables
from stream_app.table.file_store_table import FileStoreTable


def database_paths(config: AppConfig, *, needs_one: bool = True) -> Sequence[str]:
    """The folders of a job's tables, by name.

    Raises:
        UsageError: the job has met no table yet, or only Spark reads its checkpoint.
    """
    if config.sync is None:
        return [config.table.path]
    checkpoint = open_folder(config.stream.checkpoint, config.file_system, _no_session)
    names = sorted(set(remembered_origins(checkpoint).values()))
    if not names and needs_one:
        raise UsageError(
            "the job has met no table yet"
            if is_begun(checkpoint) or read_tables(checkpoint)
            else not_begun(config.stream.checkpoint),
            where=config.stream.checkpoint,
            fix="run the job first, or name a table's folder",
        )
    return [config.sync.path(name) for name in names]


def refused_sources(config: AppConfig) -> Mapping[Origin, str]:
    """Tables of the source that the job should take, and of which it stores nothing → why.

    Raises:
        UsageError: only Spark reads the checkpoint.
    """
    if config.sync is None:
        return {}
    checkpoint = open_folder(config.stream.checkpoint, config.file_system, _no_session)
    return refused_tables(checkpoint, config.sync.rules, remembered_origins(checkpoint))


def choice_of(config: AppConfig | None) -> SourceChoice:
    """The records that a job of one table takes, as its checkpoint tells; of any table if not."""
    if config is None or config.sync is not None or config.source.merge_shards:
        return EVERY_SOURCE
    try:
        checkpoint = open_folder(config.stream.checkpoint, config.file_system, _no_session)
    except UsageError:  # only Spark reaches it
        return EVERY_SOURCE
    known = remembered_tables(checkpoint)
    if not known:
        return EVERY_SOURCE
    names = frozenset(name for each in known.values() for name in each if name)
    others = frozenset((topic, "") for topic in config.source.topics if topic not in known)
    return SourceChoice(own=names, others=others)


def splitter_of(config: AppConfig | None, *tables: FileStoreTable) -> MessageSplitter:
    """Gives each table its messages, by its place among the tables.

    Those of a source table that the job has refused, as another one has its name, are no table's.

    Raises:
        UsageError: only the checkpoint tells which source tables these are, and it does not.
    """
    if config is None or config.sync is None:
        return AllToOneTable()
    names = [config.sync.name_of(each.location) for each in tables]
    origins: Mapping[Origin, str] = {}
    if config.sync.rules.may_collide:  # else the names tell it, and the checkpoint may be gone
        checkpoint = open_folder(config.stream.checkpoint, config.file_system, _no_session)
        origins = remembered_origins(checkpoint)
        for name in sorted(set(names) - set(origins.values())):
            raise UsageError(
                f"the checkpoint does not tell which source tables the table {name!r} has: with "
                "merge-shards = false or case-sensitive = false two of them may have its name",
                where=config.stream.checkpoint,
                fix="give the configuration with the checkpoint of the table's job",
            )
    return splitter_for(config, names, origins)


def splitter_for(
    config: AppConfig, names: Sequence[str], origins: Mapping[Origin, str]
) -> MessageSplitter:
    """Gives each table its messages, by the place of its name.

    Args:
        origins: where the job's source tables go, as far as that is known.
    """
    if config.sync is None:
        return AllToOneTable()
    indexes = {name: index for index, name in enumerate(names)}
    assignment = Assignment(rules=config.sync.rules, indexes=indexes, taken=origins)
    reader = source_reader(config.source.format, config.source.format_options)
    return OriginSplitter(reader.origins, assignment)


def _no_session() -> Any:
    raise UsageError(
        "the checkpoint lies on a file system that only Spark reaches",
        where="stream.checkpoint",
        fix="name a table's folder",
    )
