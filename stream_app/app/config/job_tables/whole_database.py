"""The tables of a job of a whole database, which section ``[sync]`` describes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stream_app.app.config.job_tables.applicable_rules import (
    made_column_problems,
    rules_of_existing_table,
)
from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_config import SourceTransactions, SyncConfig
from stream_app.app.config.sync_problems import (
    drift_problems,
    first_load_problems,
    sync_problems,
    transaction_problems,
)
from stream_app.app.config.table_config import TableConfig
from stream_app.catalog.catalog_options import names_folder
from stream_app.cdc.column_drift import INEXACT, JSON_AS, TYPE_MAPPING, DriftKind, DriftReaction
from stream_app.cdc.json_records.json_options import TRUNCATE_KEY
from stream_app.cdc.pipeline_steps.expectations import Expectation
from stream_app.message_format_registry import format_named
from stream_app.model.schema.data_type import RowType
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_renames import RenameReaction
from stream_app.planning.sync.table_assignment import Assignment
from stream_app.planning.sync.target_tables import SyncRules, TargetTable, decide_target


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDatabase(JobTables):
    """The tables of a whole database. The name in the job is the table's own name."""

    section_name = "sync"
    replaced_keys = ("merge-shards",)

    sync: SyncConfig

    @property
    def may_lack_keys(self) -> bool:
        """Always True, because a source table may have no primary key."""
        return True

    def problems(self, given_keys: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield problems of ``[sync]``, alone and together with keys of other sections."""
        declaration = self.source.format_declaration
        yield from sync_problems(self.sync, self.source.kind, given_keys)
        yield from first_load_problems(self.source, declaration)
        yield from made_column_problems(self.sync, declaration)
        yield from drift_problems(self.sync, declaration, self.source.format_options)
        if self.keeps_transactions:
            yield from transaction_problems(self.source, declaration)
            if self.share is not None:
                yield (
                    "stream.share",
                    "is not for sync.transactions = 'whole': jobs have no common end of an epoch",
                )
            if not names_folder(self.catalog):
                yield "sync.transactions", "'whole' needs a catalog whose warehouse is a folder"

    def format_problems(self) -> Iterator[tuple[str, str]]:
        """Yield each table's ``truncate`` if the format has none, and problems of its options."""
        if TRUNCATE_KEY not in {option.key for option in self.source.format_declaration.options}:
            for key in self.sync.tables:
                if key.endswith(f".{TRUNCATE_KEY}"):
                    yield f"sync.tables.{key}", f"{self.source.format} has no message of a TRUNCATE"
        yield from self.source.format_problems(RowType(()))

    @property
    def section(self) -> SyncConfig:
        """See `JobTables.section`."""
        return self.sync

    @property
    def name(self) -> str:
        """The database's name, with the job's share if several jobs share the tables."""
        share, database = self.share, self.sync.database
        return f"{database} (share {share.job_number} of {share.job_count})" if share else database

    @property
    def rules(self) -> SyncRules:
        """The rules of ``[sync]``, limited to the job's share."""
        return replace(self.sync.rules, share=self.share)

    @property
    def mapping_options(self) -> MappingOptions:
        """See `JobTables.mapping_options`."""
        return self.sync.mapping_options

    @property
    def keeps_transactions(self) -> bool:
        """Whether ``sync.transactions`` is ``whole``."""
        return self.sync.transactions is SourceTransactions.WHOLE

    @property
    def named_tables(self) -> Sequence[str]:
        """The tables that have a section of their own, without those of other jobs' shares."""
        names = self.sync.named_tables()
        return [name for name in names if self.share is None or self.share.accepts(name)]

    def path(self, name_in_job: str) -> str:
        """See `JobTables.path`."""
        return self.sync.path(name_in_job)

    def paths(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the folder of each table in the checkpoint, sorted by name."""
        return {name: self.sync.path(name) for name in sorted(set(names))}

    @property
    def may_collide(self) -> bool:
        """See `JobTables.may_collide`."""
        return self.rules.may_collide

    def new_name(self, origin: Origin, targets: Mapping[Origin, str]) -> str | None:
        """Return the name by the rules; None if they leave the source table out or refuse it."""
        decision = decide_target(self.rules, origin, targets)
        return decision.name if isinstance(decision, TargetTable) else None

    def assignment(self, names: Sequence[str], targets: Mapping[Origin, str]) -> Assignment:
        """See `JobTables.assignment`."""
        table_indices = {name: index for index, name in enumerate(names)}
        return Assignment(rules=self.rules, table_indices=table_indices, targets=targets)

    def renames_of(self, name_in_job: str) -> RenameReaction:
        """Return the table's own setting, or that of all tables."""
        return self.sync.renames_of(name_in_job)

    def target_path(self, origin: Origin) -> str | None:
        """Return the folder by the rules alone, whatever tables exist; None without one."""
        name = self.new_name(origin, {})
        return None if name is None else self.sync.path(name)

    def table_config(self, name_in_job: str, columns: RowType) -> TableConfig:
        """Return the made columns and the filter, unless the table has dropped their columns."""
        return rules_of_existing_table(self.sync, name_in_job, columns)

    def expectations_of(self, name_in_job: str, columns: RowType) -> Sequence[Expectation]:
        """Return the expectations that apply to the table, by its name and its columns."""
        return self.expectations.of_table(name_in_job, columns)

    def source_of(self, name_in_job: str) -> SourceConfig:
        """Return the source with the format's options for one table.

        Those of the table precede those of ``[source]``, and these precede those of ``[sync]``.
        """
        declared_options = {option.key for option in format_named(self.source.format).options}
        database_options = {
            DriftKind.UNKNOWN.option: DriftReaction.EVOLVE.value,
            INEXACT: self.sync.inexact.value,
            JSON_AS: self.sync.json_as.value,
        }
        if self.sync.type_mapping:
            database_options[TYPE_MAPPING] = ",".join(self.sync.type_mapping)
        defaults = {
            key: value for key, value in database_options.items() if key in declared_options
        }
        table_options = self.sync.format_options_of(name_in_job)
        return replace(
            self.source,
            merge_shards=True,  # the splitter has chosen the table by then
            lowers_names=self.lowers_names,
            format_options={**defaults, **self.source.format_options, **table_options},
        )

    def full_key(self, option: str) -> str:
        """Return the key of the format's section, or ``sync.inexact``, which is in ``[sync]``."""
        return f"sync.{option}" if option == INEXACT else JobTables.full_key(self, option)

    def state_key(self, name_in_job: str) -> str:
        """Return the name in the job, so that each table has a part of its own."""
        return name_in_job

    def full_name(self, name_in_job: str) -> str:
        """See `JobTables.full_name`."""
        return name_in_job and f"{self.sync.database}.{name_in_job}"

    def name_in_job(self, full_name: str) -> str | None:
        """See `JobTables.name_in_job`."""
        database = f"{self.sync.database}."
        return full_name.removeprefix(database) if full_name.startswith(database) else None
