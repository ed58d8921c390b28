"""Plans the first load of a job's tables from their database, and refuses what is not exact.

1. Refuse a table whose rows would count twice, or lack something, when changes come again.
2. Read the source table's columns; refuse those that the database cannot write as Debezium would.
3. See that a connector follows the database: what it does not send later would be a gap.
4. Cut each table into parts of some rows, by ranges of its key. Remember the parts.

The job then records the ends of its topics, and reads the parts as its first epochs. It goes on
with the topics from there (docs/adr/0043-a-first-load-is-the-first-epochs.md).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from stream_app.app.config.job_tables.tables_of_job import TablesOfJob
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.ops.check.database_sums import log_position, source_kinds
from stream_app.app.ops.check.source_replay import why_incomparable
from stream_app.app.ops.init.jdbc_source import jdbc_table, opened_database
from stream_app.app.ops.load.row_queries import (
    LOAD_FORMAT,
    LOAD_OPTIONS,
    LoadedRelation,
)
from stream_app.app.tables.format_setup import format_setup
from stream_app.app.tables.table_pipeline import row_settings
from stream_app.cdc.column_drift import COLUMN_ALIASES, parse_aliases
from stream_app.cdc.json_records.options import COLUMN_OPTIONS
from stream_app.cdc.pipeline import Pipeline, StepPlace
from stream_app.errors import UnsupportedTableError, WrongSourceError
from stream_app.jdbc import POSTGRESQL, SERVERS, JdbcUrl, parse_jdbc_url
from stream_app.model.schema.data_type import DataType
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS
from stream_app.spark.checkpoint.epoch_log import EpochLog
from stream_app.spark.job_folder import Folder
from stream_app.spark.load.database_rows import DatabaseRows
from stream_app.spark.load.load_plan import KeyValues, LoadPart, LoadPlan, read_load
from stream_app.spark.stream.epoch_log_writer import EpochLogWriter
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger("stream_app")
_KEY = "source.snapshot-from"
_OTHERWISE = "let Debezium's own first read bring its rows: leave out source.snapshot-from"
_PASSWORDS = {"postgresql": "PGPASSWORD"}
_SLOTS = """
    select slot_name from pg_replication_slots
    where slot_type = 'logical' and database = current_database()
    and confirmed_flush_lsn is not null"""
"""A slot without this position still waits for older transactions, and will not send them."""
_FOLLOWERS = "select id from information_schema.processlist where command like 'Binlog Dump%'"
_OF_MESSAGES = ("topic", "partition", "offset", "timestamp")
_TABLE_TYPE = """
    select table_type from information_schema.tables
    where table_schema = %s and table_name = %s"""
_TABLE_TYPES = ("BASE TABLE", "SYSTEM VERSIONED")
_ANSWER_S = 6 * 3600
"""A query of bounds reads an index as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """A table and the table of the source whose rows it gets."""

    table: FileStoreTable
    relation: LoadedRelation


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLoad:
    """A first load that is possible.

    Attributes:
        url: the database, with the login.
    """

    url: JdbcUrl
    tables: Sequence[LoadedTable]

    def plan(self, rows: int, parts: int) -> LoadPlan:
        """Cut the tables into parts, after the log's position is known.

        Args:
            rows: most rows of a part.
            parts: most parts of an epoch.

        Raises:
            SourceError: the database does not answer.
            WrongSourceError: no connector follows the database.
        """
        self._check_followed()
        position = log_position(self.url)
        url = replace(self.url, answer_s=_ANSWER_S)
        every = [part for table in self.tables for part in _parts_of(url, table, rows)]
        epochs = [every[first : first + parts] for first in range(0, len(every), parts)]
        _LOG.info(
            "first load: %d parts of %d tables of %s, at %s",
            len(every), len(self.tables), self.url, position,
        )  # fmt: skip
        return LoadPlan(source=str(self.url), position=position, epochs=epochs)

    def rows(self, now_ms: int) -> DatabaseRows:
        """The reader of the rows, for tasks."""
        queries = {one.table.location: one.relation.row_query(now_ms) for one in self.tables}
        return DatabaseRows(url=self.url, queries=queries)

    def _check_followed(self) -> None:
        is_postgres = self.url.driver is POSTGRESQL
        with opened_database(self.url) as connection:
            followers = _rows(connection, _SLOTS if is_postgres else _FOLLOWERS)
        if followers:
            return
        missing = "has no logical replication slot" if is_postgres else "sends its log to nobody"
        raise WrongSourceError(
            f"the database {missing}: changes since the load would be a gap",
            where=str(self.url),
            fix="start Debezium's connector first, with snapshot.mode = no_data; the user needs "
            "the right to see it (MySQL and MariaDB: PROCESS)",
        )


def load_progress(checkpoint: Folder) -> Iterator[str]:
    """The epoch of a first load that a job has reached, for people; nothing if no load lasts."""
    load, newest = read_load(checkpoint), EpochLogWriter(checkpoint).newest()
    epoch = 0 if newest is None else newest
    is_done = EpochLog(checkpoint, goes_back=True).is_done(epoch)
    if load is not None and epoch + is_done < len(load.epochs):
        yield load.progress(epoch + is_done)


def database_of(source: SourceConfig) -> JdbcUrl:
    """The database of a first load, with its login.

    Raises:
        UsageError: the URL names no database that can be read.
    """
    url = parse_jdbc_url(source.snapshot_from or "", _KEY, SERVERS)
    password = source.snapshot_password or os.environ.get(
        _PASSWORDS.get(url.driver.name, "MYSQL_PWD"), ""
    )
    return replace(url, password=password)


def loaded_table(
    url: JdbcUrl, tables: TablesOfJob, table: FileStoreTable, relation: str
) -> LoadedTable:
    """Steps 1 and 2 for one table.

    Args:
        relation: the source table, perhaps with its schema in front.

    Raises:
        UnsupportedTableError: its rows cannot be loaded exactly.
        UsageError: there is no such source table.
        SourceError: the database does not answer.
    """
    source, rules = (
        tables.source_of(table.name),
        tables.table_config(table.name, table.schema.fields),
    )
    if why := why_incomparable(table, rules):
        raise _refused(table, f"changes that come again would not leave the same rows: {why}")
    if table.kind.postpones:
        raise _refused(
            table, "its rows would wait in bucket-postpone, which the load does not read"
        )
    if places := [name for name in rules.metadata_columns if name in _OF_MESSAGES]:
        raise _refused(table, f"its rows have no message for metadata-columns: {places[0]}")
    known = jdbc_table(url, relation, NO_MAPPING_OPTIONS)
    with opened_database(url) as connection:
        schema, name, kinds = source_kinds(connection, url, f"{known.schema}.{known.name}")
        if not is_table(connection, schema, name):
            raise _refused(table, f"{schema}.{name} is no table, and no log has changes of it")
    setup = format_setup(source, rules, table.schema)
    wanted = {field.name: field.data_type for field in setup.columns.fields}
    columns, lost = _columns_of(kinds, wanted, source)
    loaded = LoadedRelation(
        driver=url.driver,
        database=url.database,
        schema=schema,
        name=name,
        kinds=kinds,
        columns=columns,
        keys=known.table.primary_keys,
    )
    if missing := [key for key in setup.primary_keys if key not in _targets(columns, source)]:
        raise _refused(table, f"{loaded} has no column {missing[0]!r} of the key")
    if loaded.unloadable:
        columns_text = ", ".join(loaded.unloadable)
        raise _refused(table, f"the database cannot write as Debezium would: {columns_text}")
    if lost:
        _LOG.warning(
            "first load: columns of %s that the table %s does not have are left out: %s",
            loaded, table.label, ", ".join(lost),
        )  # fmt: skip
    return LoadedTable(table=table, relation=loaded)


def load_format(tables: TablesOfJob, table: FileStoreTable) -> Pipeline:
    """The format of the rows that a database writes for a table, with the job's own steps."""
    settings = row_settings(tables, table)
    kept = {option.key for option in COLUMN_OPTIONS}
    options = {key: text for key, text in settings.source.format_options.items() if key in kept}
    source = replace(
        settings.source, format=LOAD_FORMAT, format_options={**options, **LOAD_OPTIONS}
    )
    left_out = frozenset({StepPlace.NARROWED_COLUMNS, StepPlace.DESCRIBED_COLUMNS})
    return replace(settings, source=source, leaves_out=left_out).pipeline()


def is_table(connection: Any, schema: str, name: str) -> bool:
    """Whether a database's log has changes of it: it is no view and no foreign table."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(_TABLE_TYPE, (schema, name))
        return any(str(kind) in _TABLE_TYPES for (kind,) in cursor.fetchall())


def _columns_of(
    kinds: Mapping[str, str], wanted: Mapping[str, DataType], source: SourceConfig
) -> tuple[dict[str, DataType], list[str]]:
    """The source's columns with the types of the table's, and those that the table lacks."""
    columns, lost = {}, []
    for name in kinds:
        target = _target(name, source)
        if target in wanted:
            columns[name] = wanted[target]
        else:
            lost.append(name)
    return columns, lost


def _targets(columns: Mapping[str, object], source: SourceConfig) -> set[str]:
    return {_target(name, source) for name in columns}


def _target(name: str, source: SourceConfig) -> str:
    """The table's column for a column of the source."""
    aliases = parse_aliases(source.format_options.get(COLUMN_ALIASES, ""))
    lowered = name.lower() if source.lowers_names else name
    return aliases.get(lowered, lowered)


def _parts_of(url: JdbcUrl, loaded: LoadedTable, rows: int) -> Iterator[LoadPart]:
    """Step 4 for one table."""
    bounds: list[KeyValues] = []
    if query := loaded.relation.bounds_query(rows):
        with opened_database(url) as connection:
            bounds = [tuple(bound) for bound in _rows(connection, query)]
    for after, until in zip([None, *bounds], [*bounds, None], strict=True):
        yield LoadPart(
            table=loaded.table.location, relation=str(loaded.relation), after=after, until=until
        )


def _rows(connection: Any, query: str) -> list[Any]:
    with closing(connection.cursor()) as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def _refused(table: FileStoreTable, why: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"the table cannot be loaded from its database: {why}",
        where=table.location,
        fix=_OTHERWISE,
    )
