"""The table of a job of one table, which section ``[table]`` describes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stream_app.app.config.expectations_config import TABLES, check_columns
from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_problems import excluding_options
from stream_app.app.config.table_config import TableConfig, table_problems
from stream_app.cdc.pipeline_steps.expectations import Expectation
from stream_app.model.schema.data_type import RowType
from stream_app.model.source.origin import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTable(JobTables):
    """The table of a job of one table, whose name in the job is ``DATABASE.TABLE``.

    Its methods ignore the name, and the source table, that a job of a database needs.
    """

    section_name = "table"

    table: TableConfig

    @property
    def may_lack_keys(self) -> bool:
        """Whether the section has no primary keys."""
        return not self.table.primary_keys

    def problems(self, given_keys: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield problems of ``[table]``, and keys that only a job of a whole database may have."""
        yield from table_problems(self.table, self.source.format_declaration, given_keys)
        if self.share is not None:
            yield "stream.share", "is for a job of a whole database, [sync]: this job has one table"
        for key in given_keys:
            if key.startswith("expectations.") and key.endswith(f".{TABLES}"):
                yield key, "is for a job of a whole database: leave it out"

    def format_problems(self) -> Iterator[tuple[str, str]]:
        """Yield options that contradict each other, or that do not fit the configured columns."""
        for key, problem in excluding_options(self.source.format_options):
            yield self.source.format_declaration.full_key(key), problem
        if self.table.columns.fields:
            yield from self.source.format_problems(self.table.columns)

    @property
    def section(self) -> TableConfig:
        """See `JobTables.section`."""
        return self.table

    @property
    def name(self) -> str:
        """See `JobTables.name`."""
        return f"{self.table.database}.{self.table.name}"

    def path(self, name_in_job: str) -> str:
        """Return the only table's folder, for any name."""
        return self.table.path

    def paths(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the folder of the only table, whatever the names are."""
        return {self.name: self.table.path}

    def target_path(self, origin: Origin) -> str:
        """Return the only table's folder, for any source table."""
        return self.table.path

    def table_config(self, name_in_job: str, columns: RowType) -> TableConfig:
        """Return the section itself, whatever columns the table has."""
        return self.table

    def expectations_of(self, name_in_job: str, columns: RowType) -> Sequence[Expectation]:
        """Return all expectations of the job, after a check of their columns."""
        for expectation in self.expectations.all:
            check_columns(expectation, self.table.name, columns)
        return self.expectations.all

    def source_of(self, name_in_job: str) -> SourceConfig:
        """Return the job's source: the table has no settings of its own."""
        return self.source

    @property
    def loaded_source_table(self) -> str:
        """The source table that a first load reads; by default it has the table's name."""
        return self.source.snapshot_table or self.table.name

    @property
    def declared_columns(self) -> RowType:
        """See `JobTables.declared_columns`."""
        return self.table.columns

    @property
    def joins_sources(self) -> bool:
        """Whether ``source.merge-shards`` is on."""
        return self.source.merge_shards

    @property
    def separates_tables(self) -> bool:
        """Always False, because the job has one table."""
        return False

    def state_key(self, name_in_job: str) -> str:
        """Return an empty key, because the state has one table."""
        return ""

    def full_name(self, name_in_job: str) -> str:
        """Return the job's name, which is the table's full name."""
        return self.name

    def name_in_job(self, full_name: str) -> str:
        """Return the full name, which is also the name in the job."""
        return full_name
