"""Makes the pipeline that turns messages into a table's rows, from the configuration and the table.

`cdc.pipeline.StepPlace` has the order of all steps; this module decides which of them a table
needs. The job, and the proposal of a table's schema, use all of them. Other callers name the steps
that they leave out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.app.table_setup.format_setup import (
    earlier_column_names,
    evolution_rules,
    format_setup,
    whole_setup,
)
from stream_app.cdc.column_drift import COLUMN_ALIASES, parse_aliases
from stream_app.cdc.computed.column_definition import DefinitionError
from stream_app.cdc.json_records.json_options import TRUNCATE_KEY, OnTruncate
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.pipeline import Pipeline, Step, StepPlace
from stream_app.cdc.pipeline_steps.change_filter import FilterStep, KnownColumns
from stream_app.cdc.pipeline_steps.expectations import Expectation, ExpectationStep
from stream_app.cdc.pipeline_steps.insert_only_step import InsertOnlyStep
from stream_app.cdc.pipeline_steps.made_columns_step import made_columns_step
from stream_app.cdc.pipeline_steps.own_message_decoder import OwnMessageDecoder, SourceFilter
from stream_app.clock import Clock, SystemClock
from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_type
from stream_app.message_format_registry import format_named, make_source_extractor, origins_in
from stream_app.model.options.merge_options import HISTORY, IGNORE_DELETE
from stream_app.model.schema.table_schema import TableSchema
from stream_app.predicate.parser import parse_predicate
from stream_app.predicate.predicate import And, column_names, to_expression
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.pipeline_steps.column_defaults import defaults_step
from stream_app.table.pipeline_steps.located_rows import lookup_hint_step, named_partition_step
from stream_app.table.pipeline_steps.mergeable_values import mergeable_value_step
from stream_app.table.pipeline_steps.narrowed_columns import NarrowedColumnStep, column_times
from stream_app.table.pipeline_steps.refused_partitions import (
    dated_partition_step,
    nameable_partition_step,
)
from stream_app.table.schema.alter import EvolutionRules

LEFT_OUT_BY_JOB: frozenset[StepPlace] = frozenset()
FILTERS = frozenset({StepPlace.FILTER_OF_MESSAGES, StepPlace.FILTER_OF_ROWS})
LEFT_OUT_BY_REPLAY = frozenset({StepPlace.NARROWED_COLUMNS})
"""The steps that a replay omits: it consents to storing values that a type change has narrowed."""
LEFT_OUT_OF_LATER_CHANGES = LEFT_OUT_BY_REPLAY | FILTERS
"""The steps that a replay omits for later changes: it compares also those that a filter drops."""
LEFT_OUT_BY_CHECK = frozenset({StepPlace.DESCRIBED_COLUMNS, StepPlace.INSERTS_ONLY})
"""The steps that a check omits: it adds no columns, and compares only tables with a primary key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSettings:
    """The settings that decide which rows a table gets from messages.

    Attributes:
        source_config: the source's configuration for this table (`JobTables.source_of`).
        table_config: the table's configuration, with its made columns and its filter.
        expectations: the conditions that rows must meet.
        schema: the schema of the table.
        left_out_steps: the steps that the pipeline leaves out.
        source_filter: the source tables that the job's only table accepts; None accepts all.
        restores_values: whether the writer looks up values that a change leaves out.
        keeps_update_before: whether the writer uses -U rows.
        quarantines_non_inserts: whether other changes than inserts are quarantined in a table
            without a key, rather than stopping the job.
        read_column_times: returns the time since which each column has its type, in ms.
        clock: gives decoding tasks the current time for made columns.
    """

    source_config: SourceConfig
    table_config: TableConfig
    schema: TableSchema
    expectations: Sequence[Expectation] = ()
    left_out_steps: frozenset[StepPlace] = LEFT_OUT_BY_JOB
    source_filter: SourceFilter | None = None
    restores_values: bool = False
    keeps_update_before: bool = True
    quarantines_non_inserts: bool = False
    read_column_times: Callable[[], Mapping[str, int]] = dict
    clock: Clock = field(default_factory=SystemClock)

    def pipeline(self) -> Pipeline:
        """Return the format with the steps that the table needs.

        Raises:
            UsageError: the options, the made columns or the filter do not fit the table.
        """
        schema = self.schema
        if schema.history is not None or self.table_config.history is not None:
            self._check_history()
        makers: Mapping[StepPlace, Callable[[], Step | None]] = {
            StepPlace.MADE_COLUMNS: self._made_columns,
            StepPlace.DEFAULTS: lambda: defaults_step(schema.fields),
            StepPlace.FILTER_OF_MESSAGES: lambda: self._filter(is_of_messages=True),
            StepPlace.FILTER_OF_ROWS: lambda: self._filter(is_of_messages=False),
            StepPlace.EXPECTATIONS: self._expectations,
            StepPlace.MERGEABLE_VALUES: lambda: mergeable_value_step(schema),
            StepPlace.NAMEABLE_PARTITIONS: lambda: nameable_partition_step(schema),
            StepPlace.NAMED_PARTITIONS: lambda: named_partition_step(schema),
            StepPlace.LOOKUP_HINTS: lambda: lookup_hint_step(schema),
            StepPlace.DATED_PARTITIONS: lambda: dated_partition_step(schema),
            StepPlace.NARROWED_COLUMNS: self._narrowed_columns,
            StepPlace.INSERTS_ONLY: self._inserts_only,
        }
        pipeline = format_pipeline(self.source_config.format, self._setup())
        steps = {step: make() for step, make in makers.items() if step not in self.left_out_steps}
        return replace(pipeline.with_steps(steps), own_message_decoder=self._own_message_decoder())

    @property
    def evolution_rules(self) -> EvolutionRules | None:
        """The rules by which the table follows its source, or None if it does not follow it."""
        return evolution_rules(self.source_config, self.table_config.made_columns)

    def _check_history(self) -> None:
        """Refuse settings that would make the versions in a history table inexact."""
        where = f"the options '{HISTORY.key}' and '{HISTORY.key}.…'"
        if self.schema.history != self.table_config.history:
            raise UsageError(
                "the configuration and the table's schema have different values of these options",
                where=where,
                fix="configure the values that 'stream-app inspect TABLE options' prints",
            )
        if self.source_config.format_options.get(TRUNCATE_KEY) == OnTruncate.APPLY.value:
            raise UsageError(
                f"{TRUNCATE_KEY} = 'apply' would delete all versions of a history",
                where=where,
                fix=f"set {TRUNCATE_KEY} = 'ignore' or 'error'",
            )
        writer_columns = self.table_config.made_columns.writer_columns.keys()
        conditions = (expectation.condition for expectation in self.expectations)
        for condition in filter(None, (self.table_config.filter, *conditions)):
            columns = column_names(parse_predicate(condition, self.schema.fields))
            if late_columns := sorted(writer_columns & set(columns)):
                raise UsageError(
                    f"the condition {condition!r} names {late_columns[0]!r}, which the writer "
                    "fills later",
                    where=where,
                    fix="leave the column out, and filter the versions when you read them",
                )

    def _setup(self) -> FormatSetup:
        """Return the setup of the format, without what only omitted steps need."""
        is_filtered = FILTERS.isdisjoint(self.left_out_steps)
        table_config = self.table_config if is_filtered else replace(self.table_config, filter=None)
        conditions = [expectation.condition for expectation in self.expectations]
        if table_config.filter is not None:
            conditions.append(table_config.filter)
        setup = format_setup(
            self.source_config,
            table_config,
            self.schema,
            conditions=conditions,
            restores_values=self.restores_values,
        )
        is_described = StepPlace.DESCRIBED_COLUMNS not in self.left_out_steps
        rules = self.evolution_rules if is_described else None
        return replace(
            setup,
            keeps_update_before=setup.keeps_update_before and self.keeps_update_before,
            mapping_options=None if rules is None else rules.options,
        )

    def _own_message_decoder(self) -> OwnMessageDecoder | None:
        if self.source_filter is None:
            return None
        find_origins = functools.partial(
            origins_in, self.source_config.format, self.source_config.format_options
        )
        return OwnMessageDecoder(find_origins=find_origins, source_filter=self.source_filter)

    def _made_columns(self) -> Step | None:
        """Return the step that computes the made columns, or None without such columns."""
        made_columns = self.table_config.made_columns
        if not made_columns:
            return None
        source_extractor = make_source_extractor(
            self.source_config.format, self.source_config.format_options
        )
        table_setup = whole_setup(self.source_config, self.schema)
        try:
            made_columns.columns(self.schema.fields, arrow_type)  # raises if one cannot be made
            return made_columns_step(
                made_columns, table_setup, source_extractor, arrow_type, self.clock.now_ms
            )
        except DefinitionError as error:
            raise UsageError(
                str(error),
                where="computed-columns of the configuration",
                fix="the table's columns have changed: correct the definition, or change the "
                "columns back by ALTER TABLE",
            ) from None

    def _filter(self, *, is_of_messages: bool) -> Step | None:
        """Return the filter step of one place, or None.

        Conditions on values that all changes of a row share filter messages; the others filter
        rows.
        """
        if self.table_config.filter is None:
            return None
        source_config, made_columns = self.source_config, self.table_config.made_columns
        keys = self.schema.primary_keys
        shared_columns = {
            *keys,
            *(name for name in made_columns.names if made_columns.is_shared(name, keys)),
        }
        predicate = parse_predicate(self.table_config.filter, self.schema.fields)
        children = predicate.children if isinstance(predicate, And) else (predicate,)
        terms = [
            child
            for child in children
            if shared_columns.issuperset(column_names(child)) is is_of_messages
        ]
        if not terms:
            return None
        has_whole_before = format_named(source_config.format).has_whole_before(
            source_config.format_options
        )
        row_columns = KnownColumns.IMAGES if has_whole_before else KnownColumns.NEWEST
        return FilterStep(
            condition=to_expression(And(tuple(terms))),
            merges_by_key=self.schema.kind_traits.merges_by_key,
            known_columns=KnownColumns.CERTAIN if is_of_messages else row_columns,
        )

    def _expectations(self) -> Step | None:
        conditions = [
            (expectation, to_expression(parse_predicate(expectation.condition, self.schema.fields)))
            for expectation in self.expectations
        ]
        return ExpectationStep(conditions=conditions) if conditions else None

    def _narrowed_columns(self) -> Step | None:
        """Return the step that quarantines values which a type change has cut, or None."""
        rules = self.evolution_rules
        if rules is None or not rules.quarantines_narrowed:
            return None
        options = self.source_config.format_options
        return NarrowedColumnStep(
            source_extractor=make_source_extractor(self.source_config.format, options),
            schema=self.schema,
            rules=rules,
            type_times_ms=self.read_column_times(),
            aliases={
                **earlier_column_names(self.source_config, self.schema),
                **parse_aliases(options.get(COLUMN_ALIASES, "")),
            },
            lowers_names=self.source_config.lowers_names,
        )

    def _inserts_only(self) -> Step | None:
        if self.schema.kind_traits.merges_by_key:
            return None
        return InsertOnlyStep(
            quarantines_non_inserts=self.quarantines_non_inserts,
            ignores_deletes=self.schema.core_options[IGNORE_DELETE],
        )


def row_settings(
    job_tables: JobTables, table: FileStoreTable, *, quarantines_non_inserts: bool = False
) -> RowSettings:
    """Return the settings of a job's configuration for the rows of a table."""
    return RowSettings(
        source_config=job_tables.source_of(table.name),
        table_config=job_tables.table_config(table.name, table.schema.fields),
        schema=table.schema,
        expectations=job_tables.expectations_of(table.name, table.schema.fields),
        quarantines_non_inserts=quarantines_non_inserts,
        read_column_times=functools.partial(column_times, table),
    )


def job_pipeline(
    job_tables: JobTables,
    table: FileStoreTable,
    *,
    left_out_steps: frozenset[StepPlace] = LEFT_OUT_BY_JOB,
    source_filter: SourceFilter | None = None,
    restores_values: bool = False,
    quarantines_non_inserts: bool = False,
) -> Pipeline:
    """Return the pipeline that fills a table of a job.

    Args:
        left_out_steps, source_filter, restores_values, quarantines_non_inserts: see `RowSettings`.
    """
    settings = row_settings(job_tables, table, quarantines_non_inserts=quarantines_non_inserts)
    return replace(
        settings,
        left_out_steps=left_out_steps,
        source_filter=source_filter,
        restores_values=restores_values,
    ).pipeline()
