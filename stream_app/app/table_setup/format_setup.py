"""Makes the setup of a message format from the configuration and the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.column_drift import (
    COLUMN_ALIASES,
    INEXACT,
    JSON_AS,
    NARROWED_COLUMNS,
    TYPE_MAPPING,
    DriftKind,
    DriftReaction,
)
from stream_app.cdc.computed.made_columns import MadeColumns
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.pipeline_steps.made_columns_step import source_setup
from stream_app.format.arrow_schema import arrow_schema
from stream_app.message_format_registry import format_named
from stream_app.model.options.merge_options import (
    IGNORE_DELETE,
    PRIMARY_KEY_NULLABLE,
    ROWKIND_FIELD,
)
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.mapping_options import InexactTimes, JsonColumns, parse_mapping_options
from stream_app.model.traits.merge_engine import OlderRowRule, traits_of
from stream_app.planning.key_index.index_rule import index_rule
from stream_app.planning.schema.column_renames import renamed_columns
from stream_app.predicate.parser import parse_predicate
from stream_app.predicate.predicate import column_names
from stream_app.table.schema.alter import EvolutionRules


def format_setup(
    source_config: SourceConfig,
    table_config: TableConfig,
    schema: TableSchema,
    *,
    conditions: Sequence[str] = (),
    restores_values: bool = False,
) -> FormatSetup:
    """Return the setup of the source's format, for the columns that messages contain.

    Args:
        table_config: the table's section of the configuration, which has its made columns.
        conditions: the conditions by which the job judges rows, in the language of filters.
        restores_values: whether the writer looks up values that a change leaves out.
    """
    setup = whole_setup(source_config, schema)
    if restores_values:
        traits = replace(setup.traits, restored_columns=restored_columns(schema, conditions))
        setup = replace(setup, traits=traits)
    return source_setup(setup, table_config.made_columns)


def restored_columns(schema: TableSchema, conditions: Sequence[str] = ()) -> frozenset[str]:
    """Return the columns whose unchanged values the writer can look up in the table.

    The writer looks values up after the conditions have read their columns. With sequence fields
    the table's newest row need not be the row before the change.
    """
    keeps_newest = traits_of(schema.core_options.merge_engine).keeps_newest
    if not schema.kind_traits.merges_by_key or not keeps_newest or schema.sequence_fields:
        return frozenset()
    columns_of_conditions = {schema.core_options[ROWKIND_FIELD]}
    for condition in conditions:
        columns_of_conditions.update(column_names(parse_predicate(condition, schema.fields)))
    return frozenset(schema.fields.names).difference(
        schema.primary_keys, schema.partition_keys, columns_of_conditions
    )


def whole_setup(source_config: SourceConfig, schema: TableSchema) -> FormatSetup:
    """Return the setup for all columns of the table, as if messages contained them all."""
    columns, primary_keys = _required_columns(schema)
    return FormatSetup(
        columns=columns,
        arrow_schema=arrow_schema(columns),
        primary_keys=primary_keys,
        options=source_config.format_options,
        # As in Paimon's Flink sink: if followers need the old row, or a sum needs it.
        # The writer of a history finds the old row itself.
        keeps_update_before=schema.history is None
        and (schema.core_options.flushes_changelog or bool(schema.merge_rules.aggregates)),
        traits=TableTraits(
            sequence_fields=schema.sequence_fields,
            ignores_deletes=schema.core_options[IGNORE_DELETE],
            merges_shards=source_config.merge_shards,
            lowers_names=source_config.lowers_names,
            accepts_null_keys=schema.core_options[PRIMARY_KEY_NULLABLE],
        ),
        earlier_names=earlier_column_names(source_config, schema),
    )


def earlier_column_names(source_config: SourceConfig, schema: TableSchema) -> Mapping[str, str]:
    """Return the source's earlier names of columns, as far as the format accepts aliases."""
    if not accepts_aliases(source_config):
        return {}
    column_of_name = renamed_columns(schema)
    return {
        name: column for name, column in column_of_name.items() if column not in schema.primary_keys
    }


def accepts_aliases(source_config: SourceConfig) -> bool:
    """Return whether the format can store values under other names in a column."""
    declared_options = {option.key for option in format_named(source_config.format).options}
    reaction = source_config.format_options.get(DriftKind.MISSING.option, DriftReaction.WARN.value)
    return COLUMN_ALIASES in declared_options and reaction in (
        DriftReaction.WARN.value,
        DriftReaction.IGNORE.value,
    )


def _required_columns(schema: TableSchema) -> tuple[RowType, tuple[str, ...]]:
    """Return the columns and the key that messages must contain.

    If a change finds its row by the rest of the key, a delete may omit the partition columns.
    `NamedPartitionStep` checks those.
    """
    rule = index_rule(schema)
    if rule is None or rule.older_row_rule is not OlderRowRule.MOVES:
        return schema.fields, schema.primary_keys
    columns = RowType(
        tuple(
            replace(column, data_type=column.data_type.as_nullable())
            if column.name in schema.partition_keys and column.name not in rule.keys
            else column
            for column in schema.fields
        )
    )
    return columns, rule.keys


def evolution_rules(
    source_config: SourceConfig, made_columns: MadeColumns
) -> EvolutionRules | None:
    """Return the rules by which a table follows its source, or None if it does not follow it.

    Args:
        source_config: the source's configuration for this table (`JobTables.source_of`).
        made_columns: the table's columns that do not come from the source.
    """
    options = source_config.format_options
    if options.get(DriftKind.UNKNOWN.option) != DriftReaction.EVOLVE.value:
        return None
    reaction = options.get(NARROWED_COLUMNS, DriftReaction.WARN.value)
    return EvolutionRules(
        options=parse_mapping_options(
            options.get(TYPE_MAPPING, "").split(","),
            inexact=InexactTimes(options.get(INEXACT, InexactTimes.NUMBER.value)),
            json_columns=JsonColumns(options.get(JSON_AS, JsonColumns.STRING.value)),
        ),
        stops_job=reaction == DriftReaction.STOP.value,
        quarantines_narrowed=reaction == DriftReaction.QUARANTINE.value,
        logs_warning=reaction != DriftReaction.IGNORE.value,
        made_columns={name: made_columns.origins_of([name]) for name in made_columns.names},
    )
