"""Opens the tables of a whole database's job at the start, and creates more as they appear.

Implements `newcomer_creator.NewcomerCreator`. `planning.sync` decides which source tables the job
stores and where, and the format describes their columns. The job's state has the target of each
source table, so that a restarted job opens all its tables before it reads a message.

Source: Paimon `flink/sink/cdc/CdcDynamicTableParsingProcessFunction.java`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from stream_app.app.config.job_tables.applicable_rules import rules_of_new_table
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.opening.job_catalog import create_job_table, open_job_table
from stream_app.app.table_setup.database_schemas import (
    NoColumnsError,
    database_table_schema,
    described_sources,
)
from stream_app.app.table_setup.refused_tables import with_newly_refused
from stream_app.app.table_setup.single_table_setup import changes_that_fail, column_warnings
from stream_app.app.table_setup.statement_reader import renames_with
from stream_app.app.table_setup.table_pipeline import job_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.message_format import SourceExtractor
from stream_app.cdc.source_tables import messages_by_origin
from stream_app.checkpoint.job_state import JobStateFile, JobWarning
from stream_app.checkpoint.retry_policy import is_temporary
from stream_app.clock import Clock
from stream_app.epochs.rounds.newcomer_creator import NewcomerOutcome
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stages.origin_splitter import OriginSplitter
from stream_app.errors import NoAccessError, StreamAppError, TableNotFoundError
from stream_app.format.arrow_schema import arrow_type
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_only_options import is_tables_own, option_differences
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.origin import Origin, ghost_of
from stream_app.model.source.source_renames import NO_RENAMES, SourceRenames
from stream_app.model.source.source_table import SourceTable, merged_source_table
from stream_app.planning.schema.schema_changes import AddColumn
from stream_app.planning.sync.column_remarks import remarks_of_new
from stream_app.planning.sync.new_tables import options_for
from stream_app.planning.sync.shard_differences import shard_differences
from stream_app.planning.sync.table_assignment import Assignment, TableLimit
from stream_app.planning.sync.target_tables import (
    GhostTable,
    RefusedTable,
    TargetTable,
    decide_target,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import require_alterable, with_configuration
from stream_app.table.schema.alter import alter_table, next_schema

_LOG = logging.getLogger(__name__)


def is_storage_failure(error: BaseException) -> bool:
    """Return whether storage, rather than a table's messages, prevented its creation."""
    return is_temporary(error) or isinstance(error, NoAccessError)


@dataclass(slots=True, kw_only=True)
class DatabaseTables:
    """The tables of a database's job. This class opens, creates and remembers them.

    Implements `NewcomerCreator`.

    Attributes:
        state_file: the job's state in its checkpoint.
        make_feed: makes the feed of a table with a given name.
        write_unassigned_messages: stores an epoch's messages that belong to no table.
        first_messages: messages whose tables are created when the job starts; columns of
            `MESSAGE_SCHEMA`.
    """

    job_tables: WholeDatabase
    state_file: JobStateFile
    clock: Clock
    make_feed: Callable[[str, FileStoreTable], TableFeed]
    write_unassigned_messages: Callable[[int, pa.Table], None]
    first_messages: pa.Table = field(default_factory=MESSAGE_SCHEMA.empty_table)
    _targets: dict[Origin, str] = field(init=False)
    _refusal_reasons: dict[Origin, str] = field(init=False, default_factory=dict)
    _feeds: dict[str, TableFeed] = field(init=False, default_factory=dict)
    _compared_tables: set[str] = field(init=False, default_factory=set)
    _ghosts: set[Origin] = field(init=False, default_factory=set)
    # Tables whose messages `splitter` has left in the topic; they count towards `sync.max-tables`.
    _held_names: frozenset[str] = field(init=False, default=frozenset())
    _full_reason: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self._targets = dict(self.state_file.state.targets)

    @property
    def _source_extractor(self) -> SourceExtractor:
        return self.job_tables.source.source_extractor

    def known_feeds(self) -> list[TableFeed]:
        """Return the feeds of known tables. A missing one is created when messages come."""
        for name in dict.fromkeys(self._targets.values()):
            try:
                self._feeds[name] = self._feed(name, self._with_made_columns(name))
            except TableNotFoundError as error:
                _LOG.warning("the table %s was dropped: %s", name, error.problem)
            except (StreamAppError, OSError) as error:
                if not is_storage_failure(error):
                    raise
                _LOG.warning("the table %s cannot be opened: %s", name, error)
        return list(self._feeds.values())

    def create(self, messages: pa.Table, *, are_held: bool = False) -> NewcomerOutcome:
        """See `NewcomerCreator.create`."""
        feeds: list[TableFeed] = []
        errors: dict[str, BaseException] = {}
        creation_problems: dict[Origin, str] = {}
        ddl_of, known_renames = self._source_extractor.ddl_of, self.state_file.state.renames
        renames = renames_with(known_renames, ddl_of, messages, self.clock.now_ms())
        for name, batches in self._assign_messages(messages).items():
            try:
                if name not in self._feeds:
                    describe = partial(described_sources, self.job_tables, batches)
                    table = self._create(name, describe, renames)
                    job_pipeline(self.job_tables, table)  # refuses options that do not fit it
                    self._feeds[name] = self._feed(name, table)
            except (StreamAppError, OSError) as error:
                if are_held or is_storage_failure(error):
                    _LOG.error("the table %s cannot be created for now: %s", name, error)
                    errors[name] = error
                elif isinstance(error, NoColumnsError):
                    creation_problems.update(dict.fromkeys(batches, str(error)))
                else:
                    self._refuse(batches, f"the table {name} cannot be created: {error}")
                continue
            feeds.append(self._feeds[name])
            self._warn_of_differences(name, batches)
            if new_origins := [origin for origin in batches if origin not in self._targets]:
                self._targets.update(dict.fromkeys(new_origins, name))
                _LOG.info("the table %s takes %s", name, ", ".join(map(str, new_origins)))
        self._write_origins({})
        return NewcomerOutcome(feeds, errors, creation_problems)

    def schema_for(self, name: str, sources: Mapping[Origin, SourceTable]) -> TableSchema:
        """Return the schema of an existing table, or the one with which it would be created.

        Raises:
            UsageError: the source tables do not suffice for the table.
        """
        try:
            table = self._open(name)
        except TableNotFoundError:
            return database_table_schema(self.job_tables, name, sources, self.clock)
        missing_columns = _missing_columns(self.job_tables.sync, name, table.schema.fields)
        fields = next_schema(table, missing_columns).fields
        return replace(
            _with_configured_options(self.job_tables.sync, name, table).schema, fields=fields
        )

    def begin_with(
        self, sources_of: Mapping[str, Mapping[Origin, SourceTable]]
    ) -> Mapping[str, FileStoreTable]:
        """Create or open tables before their first message, and store them in the job's state.

        Args:
            sources_of: the table's name → its source tables.
        """
        tables_by_name = {}
        for name, sources in sources_of.items():
            tables_by_name[name] = self._create(name, partial(dict, sources), NO_RENAMES)
            self._targets.update(dict.fromkeys(sources, name))
        self._write_origins({})
        return tables_by_name

    def splitter(
        self,
        feeds: Sequence[TableFeed],
        held_names: frozenset[str] = frozenset(),
        creation_problems: Mapping[Origin, str] | None = None,
    ) -> OriginSplitter:
        """See `NewcomerCreator.splitter`."""
        self._held_names = held_names
        assignment = Assignment(
            rules=self.job_tables.rules,
            table_indices={feed.name: index for index, feed in enumerate(feeds)},
            targets=self._targets_for_tasks(),
            refusal_reasons={**self._refusal_reasons, **(creation_problems or {})},
            reported_ghosts=frozenset(self._ghosts),
            held_tables=held_names,
            full_reason=self._full_reason,
        )
        share = self.job_tables.share
        return OriginSplitter(
            self._source_extractor.find_origins,
            assignment,
            accepts_unassigned=not share or share.is_first,
            forwards_statements=self._source_extractor.ddl_of is not None,
        )

    def _targets_for_tasks(self) -> Mapping[Origin, str]:
        """Return the source tables and targets that the tasks must know.

        If source tables may collide, a task must know which came first. A stored source table is
        not a ghost, whatever its name is.
        """
        if self.job_tables.rules.may_collide or self._full_reason:
            return dict(self._targets)
        return {origin: name for origin, name in self._targets.items() if ghost_of(origin.table)}

    def quarantine_unassigned_messages(self, epoch: int, messages: pa.Table) -> None:
        """See `NewcomerCreator.quarantine_unassigned_messages`."""
        batches = messages_by_origin(self._source_extractor.find_origins, messages)
        self._write_origins(
            {origin: batch.column("reason")[0].as_py() for origin, batch in batches}
        )
        self.write_unassigned_messages(epoch, messages)

    def _assign_messages(self, messages: pa.Table) -> Mapping[str, dict[Origin, pa.RecordBatch]]:
        """Return the name of each new table → messages of each of its source tables."""
        batches: dict[str, dict[Origin, pa.RecordBatch]] = defaultdict(dict)
        for origin, batch in messages_by_origin(self._source_extractor.find_origins, messages):
            targets = {**self._targets, **_targets_in(batches)}
            decision = decide_target(self.job_tables.rules, origin, targets)
            if isinstance(decision, RefusedTable):
                self._refuse([origin], f"{decision.reason}; to fix: {decision.fix}")
            elif isinstance(decision, GhostTable):
                self._leave_out(origin)
            elif isinstance(decision, TargetTable) and self._has_room(decision.name, batches):
                batches[decision.name][origin] = batch
            elif isinstance(decision, TargetTable):
                self._warn_of_limit(origin)
        return batches

    def _leave_out(self, origin: Origin) -> None:
        self._ghosts.add(origin)
        text = f"{origin} is left out: an online schema change of {ghost_of(origin.table)} makes it"
        fix = f"if it is a table of its own, name it: sync.table-mapping.{origin.table!r} = '…'"
        self.state_file.write_warnings([JobWarning(problem=text, fix=fix, is_lasting=True)])

    def _has_room(self, name: str, new_names: Collection[str]) -> bool:
        """Return whether the limit allows the table."""
        names = {*self._targets.values(), *self._held_names, *new_names}
        table_limit = TableLimit(self.job_tables.sync.max_tables)
        return table_limit.has_room(name, names, len(self._refusal_reasons))

    def _warn_of_limit(self, origin: Origin) -> None:
        """Warn of the first source table beyond the limit, and remember that the job is full."""
        if not self._full_reason:
            table_limit = TableLimit(self.job_tables.sync.max_tables)
            self._full_reason = table_limit.reason
            text = f"messages of {origin} and of all further source tables go to quarantine: "
            warning = JobWarning(problem=text + table_limit.problem, fix=table_limit.FIX)
            self.state_file.write_warnings([warning])

    def _refuse(self, origins: Sequence[Origin] | Mapping[Origin, object], reason: str) -> None:
        _LOG.error("messages of %s go to quarantine: %s", ", ".join(map(str, origins)), reason)
        self._refusal_reasons.update(dict.fromkeys(origins, reason))

    def _warn_of_differences(self, name: str, batches: Mapping[Origin, pa.RecordBatch]) -> None:
        """Warn once in a run if the source tables of one table differ."""
        if len(batches) == 1 or name in self._compared_tables:
            return
        self._compared_tables.add(name)
        # A source table without a description becomes an error only with its rows.
        with contextlib.suppress(StreamAppError):
            source_of_origin = described_sources(self.job_tables, batches).items()
            sources = {str(origin): source for origin, source in source_of_origin}
            if differences := shard_differences(sources):
                _LOG.warning("the shards of the table %s differ: %s", name, differences)

    def _create(
        self,
        name: str,
        describe: Callable[[], Mapping[Origin, SourceTable]],
        renames: SourceRenames,
    ) -> FileStoreTable:
        """Create a table, or open the existing one."""
        try:
            return self._with_made_columns(name)
        except TableNotFoundError:
            sources = describe()
        schema = database_table_schema(self.job_tables, name, sources, self.clock, renames)
        table = create_job_table(self.job_tables, self.job_tables.path(name), schema, self.clock)
        full_name = self.job_tables.full_name(name)
        state = self.state_file.state
        # Older warnings with this name were about a table that was dropped.
        other_warnings = tuple(warning for warning in state.warnings if warning.table != full_name)
        self.state_file.note(replace(state, warnings=other_warnings))
        remarks = remarks_of_new(functools.reduce(merged_source_table, sources.values()).columns)
        warnings = column_warnings(full_name, remarks, self.job_tables.full_key, is_lasting=True)
        self.state_file.write_warnings(warnings)
        return table

    def _open(self, name: str) -> FileStoreTable:
        path = self.job_tables.path(name)
        return require_alterable(open_job_table(self.job_tables, path, self.clock))

    def _with_made_columns(self, name: str) -> FileStoreTable:
        """Open a table, and add the made columns that it lacks."""
        table = self._open(name)
        if missing_columns := _missing_columns(self.job_tables.sync, name, table.schema.fields):
            alter_table(table, missing_columns)
            table = self._open(name)
        return _with_configured_options(self.job_tables.sync, name, table)

    def _feed(self, name: str, table: FileStoreTable) -> TableFeed:
        for notice in changes_that_fail(self.job_tables.source.format, table.schema):
            _LOG.warning("the table %s: %s\n  to fix: %s", name, notice.problem, notice.fix)
        return self.make_feed(name, table)

    def _write_origins(self, new_reasons: Mapping[Origin, str]) -> None:
        state = self.state_file.state
        reasons = with_newly_refused(state.refused_tables, new_reasons, self._targets)
        self.state_file.update(replace(state, targets=dict(self._targets), refused_tables=reasons))


def _missing_columns(sync_config: SyncConfig, name: str, columns: RowType) -> list[AddColumn]:
    """Return the made columns that a table lacks, except those of a history."""
    table_config = rules_of_new_table(sync_config, name, columns).table_config
    history_names = () if table_config.history is None else table_config.history.names
    all_columns = table_config.made_columns.columns(columns, arrow_type)
    return [
        AddColumn(name=column.name, data_type=column.data_type.as_nullable())
        for column in all_columns.fields[len(columns.fields) :]
        if column.name not in history_names
    ]


def _with_configured_options(
    sync_config: SyncConfig, name: str, table: FileStoreTable
) -> FileStoreTable:
    """Return the table with the options of the configuration."""
    rules = sync_config.table_rules
    table_options = rules.table_overrides[name].options if name in rules.table_overrides else {}
    shared_options = options_for(table.schema.primary_keys, rules.options)
    options = {key: text for key, text in shared_options.items() if key not in table_options}
    # Some options belong to the table alone: the configuration sets them only for new tables.
    for difference in option_differences(table.schema, options):
        _LOG.warning(
            "the table %s keeps its value: %s, which holds for new tables", name, difference
        )
    options = {key: text for key, text in options.items() if not is_tables_own(key)}
    return with_configuration(table, {**options, **table_options})


def _targets_in(origins_by_table: Mapping[str, Mapping[Origin, object]]) -> dict[Origin, str]:
    return {origin: name for name, origins in origins_by_table.items() for origin in origins}
