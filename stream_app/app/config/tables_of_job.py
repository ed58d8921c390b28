"""The tables of a job: their folders, and the messages that each of them takes.

A job has one table, section ``[table]``, or those of a whole database, section ``[sync]``. Both are
a `TablesOfJob`, so little code distinguishes them. A table has a *name in the job*, under which
checkpoint, quarantine and history know it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from stream_app.app.config.applicable_rules import made_problems, rules_of_table
from stream_app.app.config.expectations_config import TABLES, ExpectationsConfig, check_columns
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.config.sync_problems import drift_problems, excluding_options, sync_problems
from stream_app.app.config.table_config import TableConfig, table_problems
from stream_app.cdc.column_drift import INEXACT, TYPE_MAPPING, DriftKind, DriftReaction
from stream_app.cdc.json_records.options import TRUNCATE
from stream_app.cdc.message_format import Format, SourceReader
from stream_app.cdc.steps.expectations import Expectation
from stream_app.errors import UsageError
from stream_app.message_format_registry import FORMATS, format_named, source_reader
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.mapping_options import NO_MAPPING_OPTIONS, MappingOptions
from stream_app.model.schema.origin import Origin
from stream_app.planning.sync.table_share import TableShare
from stream_app.planning.sync.target_tables import SyncRules, TargetTable, decide_target


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesOfJob(ABC):
    """The tables of a job.

    Attributes:
        source: the source of all their messages.
        expectations: the conditions that rows must meet.
        checkpoint: the location of the job's state.
        file_system: options of file systems, such as ``s3.endpoint``.
        catalog: options of the tables' catalog; empty: a table is its folder.
        share: the job's share of a database's tables; None: it has all of them.
    """

    section_name: ClassVar[str]
    """The name of the section with the warehouse, database and table options."""
    replaced_keys: ClassVar[tuple[str, ...]] = ()
    """The keys of ``[source]`` that the section has itself."""

    source: SourceConfig
    expectations: ExpectationsConfig = field(default_factory=ExpectationsConfig)
    checkpoint: str = ""
    file_system: Mapping[str, str] = field(default_factory=dict, repr=False)
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    share: TableShare | None = None

    @property
    @abstractmethod
    def section(self) -> TableConfig | SyncConfig:
        """The section of the configuration with the warehouse, database and table options."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The job's name: the database, followed by the table if there is one."""

    @property
    def location(self) -> str:
        """The folder of the table, or of the database."""
        return self.path("")

    @property
    @abstractmethod
    def may_lack_keys(self) -> bool:
        """Whether the tables may be without a primary key."""

    @abstractmethod
    def problems(self, given: Collection[str]) -> Iterator[tuple[str, str]]:
        """Problems of the section, beside the other sections: (key, problem).

        Args:
            given: the keys of the whole configuration.
        """

    @abstractmethod
    def format_problems(self) -> Iterator[tuple[str, str]]:
        """Problems of the format's options with these tables: (key, problem)."""

    @property
    def _format(self) -> Format:
        return FORMATS[self.source.format]

    def _check_problems(self, columns: RowType) -> Iterator[tuple[str, str]]:
        """Problems of the format's options, if there are any, for a table with these columns."""
        if self.source.format_options:
            try:
                self._format.check(self.source.format_options, columns)
            except UsageError as error:
                yield f"source.{self._format.section}", error.what

    @property
    def reader(self) -> SourceReader:
        """Tells the source tables of messages, and their columns."""
        return source_reader(self.source.format, self.source.format_options)

    @property
    def rules(self) -> SyncRules:
        """The rules that select and name tables of the source."""
        return SyncRules()

    @property
    def mapping_options(self) -> MappingOptions:
        """The mapping of the source's types to types of new columns."""
        return NO_MAPPING_OPTIONS

    @property
    def lowers_names(self) -> bool:
        """Whether tables and columns have the source's names in lower case."""
        return not self.rules.case_sensitive

    @property
    def named_tables(self) -> Sequence[str]:
        """The tables with settings of their own, ``[sync.tables.NAME]``."""
        return ()

    @abstractmethod
    def path(self, name: str) -> str:
        """The folder of a table, by its name in the job."""

    @abstractmethod
    def paths(self, met: Iterable[str]) -> Mapping[str, str]:
        """The folder of each table, by its name in the job.

        Args:
            met: the tables that the job's checkpoint names.
        """

    @abstractmethod
    def target(self, origin: Origin) -> str | None:
        """The folder of the table that takes a source table's messages; None: none takes them."""

    @abstractmethod
    def table_config(self, name: str, columns: RowType) -> TableConfig:
        """The made columns and the filter of a table, by its own name."""

    @abstractmethod
    def expectations_of(self, name: str, columns: RowType) -> Sequence[Expectation]:
        """The expectations of a table, by its own name.

        Raises:
            UsageError: an expectation of the table does not fit its columns.
        """

    @abstractmethod
    def source_of(self, name: str) -> SourceConfig:
        """The source with the settings of a table, by its own name."""

    def full_key(self, option: str) -> str:
        """The key of a format's option, as in this configuration."""
        return format_named(self.source.format).full_key(option)

    def quarantine_of(self, quarantine: str, name: str) -> str:
        """The folder of a table's bad records in the quarantine; no name: messages of no table."""
        part = self.part(name)
        return f"{quarantine}/{part}" if part else quarantine

    @property
    def is_of_many(self) -> bool:
        """Whether it is a job of many tables, which quarantine and history keep apart."""
        return True

    @abstractmethod
    def part(self, name: str) -> str:
        """The name by which quarantine and history separate the table; empty for a job of one
        table.
        """

    @abstractmethod
    def full_name(self, name: str) -> str:
        """``DATABASE.TABLE``, by the table's name in the job; empty for no name."""

    @abstractmethod
    def own_name(self, full_name: str) -> str | None:
        """The name in the job; None: the table is of another database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTable(TablesOfJob):
    """The table of a job of one table; its name in the job is ``DATABASE.TABLE``.

    Its methods ignore the name or folder that they get.
    """

    section_name = "table"

    table: TableConfig

    @property
    def may_lack_keys(self) -> bool:
        """See `TablesOfJob.may_lack_keys`."""
        return not self.table.primary_keys

    def problems(self, given: Collection[str]) -> Iterator[tuple[str, str]]:
        """See `TablesOfJob.problems`."""
        yield from table_problems(self.table, self._format, given)
        if self.share is not None:
            yield "stream.share", "is of a job of a whole database, [sync]: this job has one table"
        for key in given:
            if key.startswith("expectations.") and key.endswith(f".{TABLES}"):
                yield key, "is for a job of a whole database: leave it out"

    def format_problems(self) -> Iterator[tuple[str, str]]:
        """See `TablesOfJob.format_problems`."""
        for key, problem in excluding_options(self.source.format_options):
            yield self._format.full_key(key), problem
        if self.table.columns.fields:
            yield from self._check_problems(self.table.columns)

    @property
    def section(self) -> TableConfig:
        """See `TablesOfJob.section`."""
        return self.table

    @property
    def name(self) -> str:
        """See `TablesOfJob.name`."""
        return f"{self.table.database}.{self.table.name}"

    def path(self, _name: str) -> str:
        """See `TablesOfJob.path`."""
        return self.table.path

    def paths(self, _met: Iterable[str]) -> Mapping[str, str]:
        """See `TablesOfJob.paths`."""
        return {self.name: self.table.path}

    def target(self, _origin: Origin) -> str:
        """See `TablesOfJob.target`."""
        return self.table.path

    def table_config(self, _name: str, _columns: RowType) -> TableConfig:
        """See `TablesOfJob.table_config`."""
        return self.table

    def expectations_of(self, _name: str, columns: RowType) -> Sequence[Expectation]:
        """See `TablesOfJob.expectations_of`."""
        for expectation in self.expectations.all:
            check_columns(expectation, self.table.name, columns)
        return self.expectations.all

    def source_of(self, _name: str) -> SourceConfig:
        """See `TablesOfJob.source_of`."""
        return self.source

    @property
    def is_of_many(self) -> bool:
        """See `TablesOfJob.is_of_many`."""
        return False

    def part(self, _name: str) -> str:
        """See `TablesOfJob.part`."""
        return ""

    def full_name(self, _name: str) -> str:
        """See `TablesOfJob.full_name`."""
        return self.name

    def own_name(self, full_name: str) -> str:
        """See `TablesOfJob.own_name`."""
        return full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDatabase(TablesOfJob):
    """The tables of a whole database; the name in the job is the table's own."""

    section_name = "sync"
    replaced_keys = ("merge-shards",)

    sync: SyncConfig

    @property
    def may_lack_keys(self) -> bool:
        """See `TablesOfJob.may_lack_keys`."""
        return True

    def problems(self, given: Collection[str]) -> Iterator[tuple[str, str]]:
        """See `TablesOfJob.problems`."""
        yield from sync_problems(self.sync, self.source.kind, given)
        yield from made_problems(self.sync, self._format)
        yield from drift_problems(self.sync, self._format, self.source.format_options)

    def format_problems(self) -> Iterator[tuple[str, str]]:
        """See `TablesOfJob.format_problems`."""
        if TRUNCATE not in {option.key for option in self._format.options}:
            for key in self.sync.tables:
                if key.endswith(f".{TRUNCATE}"):
                    yield f"sync.tables.{key}", f"{self.source.format} has no message of a TRUNCATE"
        yield from self._check_problems(RowType(()))

    @property
    def section(self) -> SyncConfig:
        """See `TablesOfJob.section`."""
        return self.sync

    @property
    def name(self) -> str:
        """See `TablesOfJob.name`."""
        share, database = self.share, self.sync.database
        return f"{database} (share {share.number} of {share.jobs})" if share else database

    @property
    def rules(self) -> SyncRules:
        """See `TablesOfJob.rules`."""
        return replace(self.sync.rules, share=self.share)

    @property
    def mapping_options(self) -> MappingOptions:
        """See `TablesOfJob.mapping_options`."""
        return self.sync.mapping_options

    @property
    def named_tables(self) -> Sequence[str]:
        """See `TablesOfJob.named_tables`; those of other jobs' shares are left out."""
        named = self.sync.named_tables()
        return [name for name in named if self.share is None or self.share.takes(name)]

    def path(self, name: str) -> str:
        """See `TablesOfJob.path`."""
        return self.sync.path(name)

    def paths(self, met: Iterable[str]) -> Mapping[str, str]:
        """See `TablesOfJob.paths`."""
        return {name: self.sync.path(name) for name in sorted(set(met))}

    def target(self, origin: Origin) -> str | None:
        """See `TablesOfJob.target`."""
        decision = decide_target(self.rules, origin, {})
        return self.sync.path(decision.name) if isinstance(decision, TargetTable) else None

    def table_config(self, name: str, columns: RowType) -> TableConfig:
        """See `TablesOfJob.table_config`."""
        return rules_of_table(self.sync, name, columns)

    def expectations_of(self, name: str, columns: RowType) -> Sequence[Expectation]:
        """See `TablesOfJob.expectations_of`."""
        return self.expectations.of_table(name, columns)

    def source_of(self, name: str) -> SourceConfig:
        """See `TablesOfJob.source_of`."""
        declared = {option.key for option in format_named(self.source.format).options}
        of_database = {
            DriftKind.UNKNOWN.option: DriftReaction.EVOLVE.value,
            INEXACT: self.sync.inexact.value,
        }
        if self.sync.type_mapping:
            of_database[TYPE_MAPPING] = ",".join(self.sync.type_mapping)
        defaults = {key: value for key, value in of_database.items() if key in declared}
        own = self.sync.format_options_of(name)
        return replace(
            self.source,
            merge_shards=True,  # the splitter has found the source table already
            lowers_names=self.lowers_names,
            format_options={**defaults, **self.source.format_options, **own},
        )

    def full_key(self, option: str) -> str:
        """See `TablesOfJob.full_key`."""
        return f"sync.{option}" if option == INEXACT else TablesOfJob.full_key(self, option)

    def part(self, name: str) -> str:
        """See `TablesOfJob.part`."""
        return name

    def full_name(self, name: str) -> str:
        """See `TablesOfJob.full_name`."""
        return name and f"{self.sync.database}.{name}"

    def own_name(self, full_name: str) -> str | None:
        """See `TablesOfJob.own_name`."""
        database = f"{self.sync.database}."
        return full_name.removeprefix(database) if full_name.startswith(database) else None


JobTables = SingleTable | WholeDatabase
"""The tables of a job, of either kind."""
