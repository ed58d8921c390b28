"""Configuration and table → the message format, with all that the table asks of its rows."""

from __future__ import annotations

from stream_app.app.config.app_config import AppConfig, SourceConfig
from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.column_drift import NARROWED_COLUMNS, TYPE_MAPPING, DriftKind, Reaction
from stream_app.cdc.formats import format_named, message_format
from stream_app.cdc.message_format import FormatSetup, MessageFormat
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.options.table_options import IGNORE_DELETE
from stream_app.model.schema.mapping_options import parse_mapping_options
from stream_app.model.schema.table_schema import TableSchema
from stream_app.table.schema.evolve import EvolutionRules
from stream_app.table.write.column_defaults import with_defaults
from stream_app.table.write.refused_partitions import DatedPartitions, NameablePartitions
from stream_app.table.write.strict_partitions import strict_partitions


def format_setup(
    source: SourceConfig, schema: TableSchema, rules: EvolutionRules | None = None
) -> FormatSetup:
    """The setup of the source's format for a table.

    Args:
        rules: how the table follows its source; None: it does not.
    """
    evolving = {} if rules is None else {DriftKind.UNKNOWN.option: Reaction.EVOLVE.value}
    return FormatSetup(
        columns=schema.fields,
        arrow_schema=arrow_schema(schema.fields),
        primary_keys=schema.primary_keys,
        options={**source.format_options, **evolving},
        keep_update_before=schema.core_options.writes_changelog,
        traits=TableTraits(
            sequence_fields=schema.sequence_fields,
            ignores_deletes=schema.core_options[IGNORE_DELETE],
            merges_shards=source.merge_shards,
        ),
        mapping=None if rules is None else rules.options,
    )


def evolution_rules(config: AppConfig) -> EvolutionRules | None:
    """How the job's tables follow their source; None: they do not.

    Tables of a whole database do, unless the configuration says otherwise.
    """
    given = config.source.format_options
    declared = {option.key for option in format_named(config.source.format).options}
    follows = config.sync is not None and DriftKind.UNKNOWN.option in declared
    default = Reaction.EVOLVE if follows else Reaction.WARN
    if given.get(DriftKind.UNKNOWN.option, default.value) != Reaction.EVOLVE.value:
        return None
    narrowed = given.get(NARROWED_COLUMNS, Reaction.WARN.value)
    mapping = parse_mapping_options(given.get(TYPE_MAPPING, "").split(","))
    return EvolutionRules(
        options=mapping if config.sync is None else config.sync.mapping_options,
        stops=narrowed == Reaction.STOP.value,
        tells=narrowed != Reaction.IGNORE.value,
    )


def table_format(name: str, schema: TableSchema, setup: FormatSetup) -> MessageFormat:
    """The format, whose rows get column defaults and whose partitions can be written."""
    decode = with_defaults(message_format(name, setup), schema.fields)
    if schema.partition_keys:
        decode = NameablePartitions(messages=decode, partition_keys=schema.partition_keys)
    if (strict := strict_partitions(schema)) is not None:
        decode = DatedPartitions(messages=decode, partitions=strict)
    return decode
