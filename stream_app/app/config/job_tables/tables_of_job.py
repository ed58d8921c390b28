"""The tables of a job: their folders, and the messages that each of them takes.

A job has one table, section ``[table]``, or those of a whole database, section ``[sync]``. Both are
a `TablesOfJob`, so little code distinguishes them. A table has a *name in the job*, under which
checkpoint, quarantine and history know it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from stream_app.app.config.expectations_config import ExpectationsConfig
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.cdc.message_format import FormatDeclaration, SourceFacts
from stream_app.cdc.source_tables import in_their_clusters
from stream_app.cdc.steps.expectations import Expectation
from stream_app.errors import UsageError
from stream_app.message_format_registry import FORMATS, format_named, source_facts
from stream_app.model.renames.source_renames import RenameReaction
from stream_app.model.schema.data_type import RowType
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS, MappingOptions
from stream_app.model.source.origin import Origin
from stream_app.planning.sync.assignment import Assignment
from stream_app.planning.sync.table_share import TableShare
from stream_app.planning.sync.target_tables import SyncRules


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
    gone_fix: ClassVar[str]
    """The remedy for a table that is gone."""
    exclusion_fix: ClassVar[str] = ""
    """The first remedy, if there is one, for a source table that cannot be loaded."""

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
    def problems(self, given_keys: Collection[str]) -> Iterator[tuple[str, str]]:
        """Problems of the section, beside the other sections: (key, problem).

        Args:
            given_keys: the keys of the whole configuration.
        """

    @abstractmethod
    def format_problems(self) -> Iterator[tuple[str, str]]:
        """Problems of the format's options with these tables: (key, problem)."""

    @property
    def _format(self) -> FormatDeclaration:
        return FORMATS[self.source.format]

    def _check_problems(self, columns: RowType) -> Iterator[tuple[str, str]]:
        """Problems of the format's options, if there are any, for a table with these columns."""
        if self.source.format_options:
            try:
                self._format.check(self.source.format_options, columns)
            except UsageError as error:
                yield f"source.{self._format.section}", error.what

    @property
    def source_facts(self) -> SourceFacts:
        """The facts that the job's messages show about their source."""
        facts = source_facts(self.source.format, self.source.format_options)
        if not self.source.clusters:
            return facts
        return replace(facts, origins=partial(in_their_clusters, facts.origins))

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
    def own_relation(self) -> str | None:
        """The source table that a first load reads; None: the rules choose source tables."""
        return None

    @property
    def declared_columns(self) -> RowType | None:
        """The columns of a table that is missing; None: the source's columns decide."""
        return None

    @property
    def may_collide(self) -> bool:
        """Whether two unrelated source tables may get the same table."""
        return False

    @property
    def joins_sources(self) -> bool:
        """Whether a table's job takes the messages of all source tables that reach it."""
        return True

    @property
    def keeps_transactions(self) -> bool:
        """Whether epochs end between the transactions of the source."""
        return False

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

    def new_name(self, _origin: Origin, _taken: Mapping[Origin, str]) -> str | None:
        """The name of the table that the job makes for a source table; None: it makes none.

        Args:
            _taken: the tables that source tables have already.
        """
        return None

    def assignment(self, _names: Sequence[str], _taken: Mapping[Origin, str]) -> Assignment | None:
        """Which messages belong to which table; None: all belong to one.

        Args:
            _names: the tables; a table's place here is its index.
            _taken: the tables that source tables have, as far as known.
        """
        return None

    def renames_of(self, _name: str) -> RenameReaction:
        """The reaction of a table when its source has renamed a column."""
        return RenameReaction.NEW_COLUMN

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
    def separates_tables(self) -> bool:
        """Whether quarantine and history keep tables apart."""
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
