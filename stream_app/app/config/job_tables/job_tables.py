"""Declares the tables of a job: their folders, their settings and the choice of their messages.

A job has one table (section ``[table]``) or those of a whole database (section ``[sync]``). Both
are a `JobTables`, so little code distinguishes them. Checkpoint, quarantine and history identify
a table by its *name in the job*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from stream_app.app.config.expectations_config import ExpectationsConfig
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.cdc.pipeline_steps.expectations import Expectation
from stream_app.model.schema.data_type import RowType
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS, MappingOptions
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_renames import RenameReaction
from stream_app.planning.sync.table_assignment import Assignment
from stream_app.planning.sync.table_share import TableShare
from stream_app.planning.sync.target_tables import SyncRules


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTables(ABC):
    """The tables of a job.

    Attributes:
        source: the source of all messages.
        expectations: the conditions that rows must meet.
        checkpoint: the location of the job's state.
        file_system: options of file systems, such as ``s3.endpoint``.
        catalog: options of the tables' catalog; empty if tables are opened by their folders.
        share: the job's share of a database's tables, or None if the job has all of them.
    """

    section_name: ClassVar[str]
    """The name of the section with the warehouse, database and table options."""
    replaced_keys: ClassVar[tuple[str, ...]] = ()
    """The keys of ``[source]`` that this section has instead."""

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
        """The job's name: the database, followed by the table in a job of one table."""

    @property
    def location(self) -> str:
        """The folder of the table, or of the database."""
        return self.path("")

    @property
    @abstractmethod
    def may_lack_keys(self) -> bool:
        """Whether a table of the job may lack a primary key."""

    @abstractmethod
    def problems(self, given_keys: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield (key, problem) for the section, in combination with the other sections.

        Args:
            given_keys: the keys of the whole configuration.
        """

    @abstractmethod
    def format_problems(self) -> Iterator[tuple[str, str]]:
        """Yield (key, problem) for options of the format that do not fit these tables."""

    @property
    def rules(self) -> SyncRules:
        """The rules that select source tables and name their targets."""
        return SyncRules()

    @property
    def mapping_options(self) -> MappingOptions:
        """The options that map the source's types to types of new columns."""
        return NO_MAPPING_OPTIONS

    @property
    def lowers_names(self) -> bool:
        """Whether tables and columns have the source's names converted to lower case."""
        return not self.rules.case_sensitive

    @property
    def loaded_source_table(self) -> str | None:
        """The source table that a first load reads, or None if the rules choose source tables."""
        return None

    @property
    def declared_columns(self) -> RowType | None:
        """The configured columns of a table to create, or None if the source's columns decide."""
        return None

    @property
    def may_collide(self) -> bool:
        """Whether two unrelated source tables may get the same table."""
        return False

    @property
    def joins_sources(self) -> bool:
        """Whether a table accepts the messages of all source tables that are assigned to it."""
        return True

    @property
    def keeps_transactions(self) -> bool:
        """Whether epochs end only between the source's transactions."""
        return False

    @property
    def named_tables(self) -> Sequence[str]:
        """The tables that have a section of their own, ``[sync.tables.NAME]``."""
        return ()

    @abstractmethod
    def path(self, name_in_job: str) -> str:
        """Return the folder of a table, by its name in the job."""

    @abstractmethod
    def paths(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return name in the job → folder, for each table.

        Args:
            names: the names in the job of the tables that its checkpoint names.
        """

    def new_name(self, origin: Origin, targets: Mapping[Origin, str]) -> str | None:
        """Return the name of the table to create for a source table, or None to create none.

        Args:
            targets: source table → its existing table.
        """
        return None

    def assignment(self, names: Sequence[str], targets: Mapping[Origin, str]) -> Assignment | None:
        """Return the assignment of messages to tables, or None if all belong to one table.

        Args:
            names: the tables' names, in the order of their indices.
            targets: source table → its table, as far as the caller knows.
        """
        return None

    def renames_of(self, name_in_job: str) -> RenameReaction:
        """Return how a table reacts when its source renames a column."""
        return RenameReaction.NEW_COLUMN

    @abstractmethod
    def target_path(self, origin: Origin) -> str | None:
        """Return the folder of the table for a source table's messages, or None without one."""

    @abstractmethod
    def table_config(self, name_in_job: str, columns: RowType) -> TableConfig:
        """Return the made columns and the filter of a table, by its name in the job."""

    @abstractmethod
    def expectations_of(self, name_in_job: str, columns: RowType) -> Sequence[Expectation]:
        """Return the expectations of a table, by its name in the job.

        Raises:
            UsageError: an expectation does not fit the table's columns.
        """

    @abstractmethod
    def source_of(self, name_in_job: str) -> SourceConfig:
        """Return the source's settings for one table, by its name in the job."""

    def full_key(self, option: str) -> str:
        """Return the configuration key of a format's option."""
        return self.source.format_declaration.full_key(option)

    def quarantine_of(self, quarantine: str, name_in_job: str) -> str:
        """Return the folder of a table's bad records. An empty name means messages of no table."""
        state_key = self.state_key(name_in_job)
        return f"{quarantine}/{state_key}" if state_key else quarantine

    @property
    def separates_tables(self) -> bool:
        """Whether quarantine and history have a separate part for each table."""
        return True

    @abstractmethod
    def state_key(self, name_in_job: str) -> str:
        """Return a table's key in state, quarantine and history; empty in a job of one table."""

    @abstractmethod
    def full_name(self, name_in_job: str) -> str:
        """Return ``DATABASE.TABLE`` for a table's name in the job; empty for an empty name."""

    @abstractmethod
    def name_in_job(self, full_name: str) -> str | None:
        """Return a table's name in the job, or None for a table of another database."""
