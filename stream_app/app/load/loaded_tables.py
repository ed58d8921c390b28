"""Chooses the tables of a first load, and splits them into parts; refuses inexact loads.

1. Check that a connector follows the database, and find which tables it sends.
2. Choose the job's tables among them, with the schemas that messages would create.
3. Refuse a table whose rows would become wrong if changes are applied to them twice. Refuse columns
   that the database cannot write as Debezium would.
4. Split each table into parts of a limited number of rows, by ranges of its key.

Jobs of one table and of a whole database differ only in step 2. The job records its topics' end
offsets before. It stores the parts in its checkpoint, reads them as its first epochs, and continues
with the topics from these offsets (docs/adr/0043-a-first-load-is-the-first-epochs.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.load.row_queries import (
    LOAD_FORMAT,
    LOAD_OPTIONS,
    LoadedRelation,
)
from stream_app.app.source.captured_tables import FollowedDatabase, relation_origin
from stream_app.app.source.jdbc_connection import query_rows
from stream_app.app.source.jdbc_table import JdbcTable, read_table, with_enums
from stream_app.app.table_setup.comparable_rows import why_incomparable
from stream_app.app.table_setup.format_setup import format_setup
from stream_app.app.table_setup.table_pipeline import row_settings
from stream_app.cdc.json_records.json_options import SOURCE_COLUMN_OPTIONS
from stream_app.cdc.lower_case_names import lower_case_table
from stream_app.cdc.pipeline import Pipeline, StepPlace
from stream_app.checkpoint.load_plan import KeyValues, LoadPart
from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_table import SourceTable
from stream_app.network.jdbc import SERVERS, JdbcUrl, parse_jdbc_url
from stream_app.planning.sync.table_assignment import TableLimit
from stream_app.planning.sync.target_tables import RefusedTable, TargetTable, decide_target
from stream_app.table.file_store_table import FileStoreTable

LOAD_KEY = "source.snapshot-from"
_DEBEZIUM_FIX = f"let Debezium's own first read bring its rows: leave out {LOAD_KEY}"
_EXCLUSION_FIX = (
    "leave such tables out by sync.excluding-tables, name a key by sync.tables.NAME.primary-keys "
    "where one is missing"
)
_PASSWORD_VARIABLES = {"postgresql": "PGPASSWORD"}
_MESSAGE_COLUMNS = ("topic", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTables:
    """The source tables that a job loads.

    Attributes:
        of_tables: name of a table in the job → the source tables whose rows it gets.
        unsent_reasons: source table that the rules choose → the reason why no connector sends it.
    """

    of_tables: Mapping[str, Sequence[JdbcTable]]
    unsent_reasons: Mapping[str, str]

    def sources(
        self, url: JdbcUrl, *, lowers_names: bool
    ) -> Mapping[str, Mapping[Origin, SourceTable]]:
        """Return the description of each source table, as messages would describe it.

        Raises:
            WrongSourceError: two columns of a table differ only in case, and would become one
                column.
        """
        return {
            name: {
                relation_origin(url, definition.schema, definition.name): lower_case_table(
                    definition.table
                )
                if lowers_names
                else definition.table
                for definition in definitions
            }
            for name, definitions in self.of_tables.items()
        }


@dataclass(frozen=True, slots=True)
class LoadedDatabase:
    """The database of a first load, with an open connection."""

    connection: Any
    url: JdbcUrl
    job_tables: JobTables

    def choose_tables(self, followed_database: FollowedDatabase) -> ChosenTables:
        """Step 2: return the source tables that the job loads.

        Raises:
            UsageError: no table is chosen, or the job's rules refuse one.
            UnsupportedTableError: no connector sends the table of a job of one table.
        """
        job_tables = self.job_tables
        if job_tables.loaded_source_table is None:
            return self._choose_by_rules(followed_database)
        definition = self.definition(job_tables.loaded_source_table)
        if reason := followed_database.why_not_sent((definition.schema, definition.name)):
            raise _unloadable_error(
                job_tables.name, f"{definition.schema}.{definition.name} {reason}", _DEBEZIUM_FIX
            )
        return ChosenTables(of_tables={job_tables.name: [definition]}, unsent_reasons={})

    def definition(self, relation: str) -> JdbcTable:
        """Read the definition of a source table."""
        return read_table(self.connection, self.url, relation, self.job_tables.mapping_options)

    def relation(self, name: str, schema: TableSchema, definition: JdbcTable) -> LoadedRelation:
        """Step 3 for one source table: return what to read for a table of the job.

        Raises:
            UnsupportedTableError: the rows cannot be loaded exactly.
        """
        job_tables = self.job_tables
        source_config = job_tables.source_of(name)
        table_config = job_tables.table_config(name, schema.fields)
        if reason := why_incomparable(schema, table_config):
            raise self._refusal(
                name, f"changes that come again would not leave the same rows: {reason}"
            )
        for column in table_config.metadata_columns:
            if column in _MESSAGE_COLUMNS:
                raise self._refusal(
                    name, f"its rows have no message for metadata-columns: {column}"
                )
        setup = format_setup(source_config, table_config, schema)
        target_types = {field.name: field.data_type for field in setup.columns.fields}
        targets = {column: source_config.column_of(column) for column in definition.source_types}
        columns = {
            column: target_types[target_column]
            for column, target_column in targets.items()
            if target_column in target_types
        }
        relation = LoadedRelation(
            driver=self.url.driver,
            database=self.url.database,
            schema=definition.schema,
            name=definition.name,
            source_types=with_enums(self.connection, self.url, definition.source_types),
            columns=columns,
            keys=definition.table.primary_keys,
        )
        if missing_keys := [key for key in setup.primary_keys if key not in targets.values()]:
            raise self._refusal(name, f"{relation} has no column {missing_keys[0]!r} of the key")
        if relation.unloadable_columns:
            unloadable = ", ".join(relation.unloadable_columns)
            raise self._refusal(name, f"the database cannot write as Debezium would: {unloadable}")
        return relation

    def relations(
        self, chosen_tables: ChosenTables, schemas: Mapping[str, TableSchema]
    ) -> Mapping[str, Sequence[LoadedRelation]]:
        """Step 3 for all source tables: return what to read, by the table's name in the job.

        Raises:
            UnsupportedTableError: tables cannot be loaded exactly; the error lists them.
        """
        errors: list[UnsupportedTableError] = []
        relations: dict[str, list[LoadedRelation]] = {name: [] for name in chosen_tables.of_tables}
        for name, definitions in chosen_tables.of_tables.items():
            for definition in definitions:
                try:
                    relations[name].append(self.relation(name, schemas[name], definition))
                except UnsupportedTableError as error:
                    errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            lines = "\n".join(f"  - {error.problem}" for error in errors)
            raise UnsupportedTableError(
                f"{len(errors)} tables cannot be loaded:\n{lines}",
                where=str(self.url),
                fix=self._fix,
            )
        return relations

    def parts(
        self, name: str, table: FileStoreTable, relation: LoadedRelation, rows_per_part: int
    ) -> list[LoadPart]:
        """Step 4 for one source table: return its parts.

        Args:
            name: the name in the job of the table that gets the rows.
            rows_per_part: the maximum number of rows of a part.
        """
        query = relation.bounds_query(rows_per_part)
        bounds: list[KeyValues] = []
        if query is not None:
            bounds = [tuple(bound) for bound in query_rows(self.connection, query)]
        return [
            LoadPart(
                name=name,
                table=table.location,
                relation=str(relation),
                key_before=key_before,
                last_key=last_key,
            )
            for key_before, last_key in zip([None, *bounds], [*bounds, None], strict=True)
        ]

    def _choose_by_rules(self, followed_database: FollowedDatabase) -> ChosenTables:
        """Return the source tables that the rules choose, with the name of each one's target."""
        targets: dict[Origin, str] = {}
        of_tables: dict[str, list[JdbcTable]] = {}
        unsent_reasons: dict[str, str] = {}
        refusals: list[str] = []
        for schema, relation in sorted(followed_database.relations):
            origin = relation_origin(self.url, schema, relation)
            if origin.database != self.url.database:
                continue
            decision = decide_target(self.job_tables.rules, origin, targets)
            reason = followed_database.why_not_sent((schema, relation))
            if isinstance(decision, RefusedTable):
                refusals.append(f"{decision.reason}; to fix: {decision.fix}")
            elif isinstance(decision, TargetTable) and reason:
                unsent_reasons[f"{schema}.{relation}"] = reason
            elif isinstance(decision, TargetTable):
                targets[origin] = decision.name
                of_tables.setdefault(decision.name, []).append(
                    self.definition(f"{schema}.{relation}")
                )
        self._check_chosen(of_tables, refusals)
        return ChosenTables(of_tables=of_tables, unsent_reasons=unsent_reasons)

    def _check_chosen(self, of_tables: Mapping[str, object], refusals: Sequence[str]) -> None:
        """Refuse source tables that cannot be loaded, no table at all, and too many tables."""
        section = self.job_tables.section
        tables_max = section.max_tables if isinstance(section, SyncConfig) else 1
        if refusals:
            lines = "".join(f"\n  - {refusal}" for refusal in refusals)
            raise UsageError(
                f"source tables cannot be loaded:{lines}", where=str(self.url), fix=self._fix
            )
        if not of_tables:
            raise UsageError(
                "the job takes no table of the database",
                where=str(self.url),
                fix="see sync.including-tables and including-dbs, which must match whole names",
            )
        if len(of_tables) > tables_max:
            raise UsageError(
                f"the database has {len(of_tables)} tables for the job, more than sync.max-tables",
                where=str(self.url),
                fix=TableLimit.FIX,
            )

    def _refusal(self, name: str, reason: str) -> UnsupportedTableError:
        return _unloadable_error(self.job_tables.full_name(name), reason, self._fix)

    @property
    def _fix(self) -> str:
        chooses_by_rules = self.job_tables.loaded_source_table is None
        return f"{_EXCLUSION_FIX}, or {_DEBEZIUM_FIX}" if chooses_by_rules else _DEBEZIUM_FIX


def database_of(source_config: SourceConfig) -> JdbcUrl:
    """Return the database of a first load, with its login.

    Raises:
        UsageError: the URL does not name a supported database.
    """
    url = parse_jdbc_url(source_config.snapshot_from or "", LOAD_KEY, SERVERS)
    password = source_config.snapshot_password or os.environ.get(
        _PASSWORD_VARIABLES.get(url.driver.name, "MYSQL_PWD"), ""
    )
    return replace(url, password=password)


def first_load_pipeline(job_tables: JobTables, table: FileStoreTable) -> Pipeline:
    """Return the pipeline for messages that the database generates, with the job's steps."""
    settings = row_settings(job_tables, table)
    column_options = {option.key for option in SOURCE_COLUMN_OPTIONS}
    options = {
        key: text
        for key, text in settings.source_config.format_options.items()
        if key in column_options
    }
    source_config = replace(
        settings.source_config, format=LOAD_FORMAT, format_options={**options, **LOAD_OPTIONS}
    )
    omitted_steps = frozenset({StepPlace.NARROWED_COLUMNS, StepPlace.DESCRIBED_COLUMNS})
    return replace(settings, source_config=source_config, left_out_steps=omitted_steps).pipeline()


def _unloadable_error(name: str, reason: str, fix: str) -> UnsupportedTableError:
    return UnsupportedTableError(f"{name} cannot be loaded from its database: {reason}", fix=fix)
