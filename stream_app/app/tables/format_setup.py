"""Configuration and table → the message format, with all that the table asks of its rows."""

from __future__ import annotations

from dataclasses import replace

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.made_columns import rules_of_table
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.cdc.aliased_decode import parse_aliases
from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.column_drift import (
    COLUMN_ALIASES,
    INEXACT,
    NARROWED_COLUMNS,
    TYPE_MAPPING,
    DriftKind,
    Reaction,
)
from stream_app.cdc.computed.definition import DefinitionError
from stream_app.cdc.computed.generated_columns import generated_columns, source_setup
from stream_app.cdc.computed.generation import Generation
from stream_app.cdc.computed.row_filter import FilteredMessages, Knowledge
from stream_app.cdc.formats import format_named, message_format, source_reader
from stream_app.cdc.isolated_decode import IsolatedDecode
from stream_app.cdc.message_format import FormatSetup, MessageFormat
from stream_app.clock import SystemClock
from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_schema, arrow_type
from stream_app.model.merge_engine import Existing, traits_of
from stream_app.model.options.table_options import IGNORE_DELETE, ROWKIND_FIELD
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.mapping_options import Inexact, parse_mapping_options
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.key_index.index_rule import index_rule
from stream_app.predicate.parser import parse_predicate
from stream_app.predicate.predicate import And, Predicate, column_names, to_expression
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.schema.evolve import EvolutionRules
from stream_app.table.schema.narrowed_columns import NarrowedColumns, column_times
from stream_app.table.write.column_defaults import with_defaults
from stream_app.table.write.located_rows import (
    LookupHints,
    NamedPartitions,
    could_look_up,
    required_partition_keys,
)
from stream_app.table.write.mergeable_values import with_mergeable_values
from stream_app.table.write.refused_partitions import DatedPartitions, NameablePartitions
from stream_app.table.write.strict_partitions import strict_partitions


def rules_of(config: AppConfig, location: str, schema: TableSchema) -> TableConfig:
    """The made columns and the filter of a job's table.

    Args:
        location: of the table.
    """
    if config.sync is None:
        return config.table
    return rules_of_table(config.sync, config.sync.name_of(location), schema.fields)


def source_of(config: AppConfig, location: str) -> SourceConfig:
    """The source as a table of the job sees it.

    Args:
        location: of the table.
    """
    sync = config.sync
    if sync is None:
        return config.source
    declared = {option.key for option in format_named(config.source.format).options}
    of_database = {DriftKind.UNKNOWN.option: Reaction.EVOLVE.value, INEXACT: sync.inexact}
    if sync.type_mapping:
        of_database[TYPE_MAPPING] = ",".join(sync.type_mapping)
    defaults = {key: value for key, value in of_database.items() if key in declared}
    own = sync.format_options_of(sync.name_of(location))
    return replace(
        config.source,
        merge_shards=True,  # the splitter has found the source table already
        lowers_names=not sync.case_sensitive,
        format_options={**defaults, **config.source.format_options, **own},
    )


def full_key(config: AppConfig, option: str) -> str:
    """The key of an option of the format as it stands in this configuration."""
    if config.sync is not None and option == INEXACT:
        return f"sync.{option}"
    return format_named(config.source.format).full_key(option)


def format_setup(
    source: SourceConfig,
    table: TableConfig,
    schema: TableSchema,
    rules: EvolutionRules | None = None,
    *,
    restores: bool = False,
) -> FormatSetup:
    """The setup of the source's format: of the columns that its messages have.

    Args:
        table: has the made columns.
        rules: how the table follows its source; None: it does not.
        restores: whether the rows' writer finds values that a change has left out.
    """
    setup = _whole_setup(source, schema, rules)
    if restores:
        traits = replace(setup.traits, restored=restored_columns(table, schema))
        setup = replace(setup, traits=traits)
    return source_setup(setup, table.made)


def restored_columns(table: TableConfig, schema: TableSchema) -> frozenset[str]:
    """The columns whose unchanged value can be taken from the table.

    With sequence fields the newest row so far need not be the one before the change.
    """
    keeps_newest = traits_of(schema.core_options.merge_engine).keeps_newest
    if not schema.kind.merges_by_key or not keeps_newest or schema.sequence_fields:
        return frozenset()
    read_before = {schema.core_options[ROWKIND_FIELD]}
    if table.filter is not None:
        read_before.update(column_names(parse_predicate(table.filter, schema.fields)))
    return frozenset(schema.fields.names).difference(
        schema.primary_keys, schema.partition_keys, read_before
    )


def table_format(
    source: SourceConfig, table: TableConfig, schema: TableSchema, setup: FormatSetup
) -> MessageFormat:
    """The format, whose rows are whole and pass the filter, and whose partitions can be written.

    Args:
        setup: `format_setup`.

    Raises:
        UsageError: the options, the made columns or the filter do not fit the table.
    """
    decode = message_format(source.format, setup)
    if table.made:
        decode = IsolatedDecode(_with_made_columns(decode, source, table.made, schema))
    decode = with_defaults(decode, schema.fields)
    if table.filter is not None:
        decode = _with_filter(decode, source, table, schema)
    decode = with_mergeable_values(decode, schema)
    if schema.partition_keys:
        decode = NameablePartitions(messages=decode, partition_keys=schema.partition_keys)
    if finds_rows(schema):
        decode = NamedPartitions(messages=decode, required=required_partition_keys(schema))
    elif could_look_up(schema):
        decode = LookupHints(messages=decode, partition_keys=frozenset(schema.partition_keys))
    if (strict := strict_partitions(schema)) is not None:
        decode = DatedPartitions(messages=decode, partitions=strict)
    return decode


def _whole_setup(
    source: SourceConfig, schema: TableSchema, rules: EvolutionRules | None = None
) -> FormatSetup:
    evolving = {} if rules is None else {DriftKind.UNKNOWN.option: Reaction.EVOLVE.value}
    columns, primary_keys = _told_columns(schema)
    return FormatSetup(
        columns=columns,
        arrow_schema=arrow_schema(columns),
        primary_keys=primary_keys,
        options={**source.format_options, **evolving},
        # As Paimon's Flink sink has it: where followers need the old row, or a sum does.
        keep_update_before=schema.core_options.flushes_changelog
        or bool(schema.merge_rules.aggregates),
        traits=TableTraits(
            sequence_fields=schema.sequence_fields,
            ignores_deletes=schema.core_options[IGNORE_DELETE],
            merges_shards=source.merge_shards,
            lowers_names=source.lowers_names,
        ),
        mapping=None if rules is None else rules.options,
    )


def finds_rows(schema: TableSchema) -> bool:
    """Whether a change finds its older row without the partition that it names."""
    rule = index_rule(schema)
    return rule is not None and rule.existing is Existing.MOVES


def _told_columns(schema: TableSchema) -> tuple[RowType, tuple[str, ...]]:
    """The columns and the key of which messages have to tell.

    Where a change finds its row by the rest of the key, a delete may leave out the partition. What
    `NamedPartitions` then demands is not checked here.
    """
    rule = index_rule(schema)
    if rule is None or rule.existing is not Existing.MOVES:
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


def evolution_rules(source: SourceConfig, made: Generation) -> EvolutionRules | None:
    """How a table follows its source; None: it does not.

    Args:
        source: as the table sees it (`source_of`).
        made: the table's columns that do not come from the source.
    """
    given = source.format_options
    if given.get(DriftKind.UNKNOWN.option) != Reaction.EVOLVE.value:
        return None
    narrowed = given.get(NARROWED_COLUMNS, Reaction.WARN.value)
    return EvolutionRules(
        options=parse_mapping_options(
            given.get(TYPE_MAPPING, "").split(","),
            inexact=given.get(INEXACT, Inexact.NUMBER.value),
        ),
        stops=narrowed == Reaction.STOP.value,
        sets_aside=narrowed == Reaction.QUARANTINE.value,
        tells=narrowed != Reaction.IGNORE.value,
        made={name: made.origins_of([name]) for name in made.names},
    )


def without_narrowed(
    decode: MessageFormat, source: SourceConfig, table: FileStoreTable, made: Generation
) -> MessageFormat:
    """The format, which sets narrowed columns aside where the source's options say so.

    Args:
        source, made: as for `evolution_rules`.
    """
    rules = evolution_rules(source, made)
    if rules is None or not rules.sets_aside:
        return decode
    return NarrowedColumns(
        messages=decode,
        reader=source_reader(source.format, source.format_options),
        schema=table.schema,
        rules=rules,
        since=column_times(table),
        aliases=parse_aliases(source.format_options.get(COLUMN_ALIASES, "")),
        lowers=source.lowers_names,
    )


def _with_made_columns(
    decode: MessageFormat, source: SourceConfig, made: Generation, schema: TableSchema
) -> MessageFormat:
    reader = source_reader(source.format, source.format_options)
    whole = _whole_setup(source, schema)
    try:
        made.columns(schema.fields, arrow_type)
        return generated_columns(decode, made, whole, reader, arrow_type, SystemClock().now_ms)
    except DefinitionError as error:
        raise UsageError(
            str(error),
            where="computed-columns of the configuration",
            fix="the table has other columns than when it was made: correct the definition, or "
            "the column by ALTER TABLE",
        ) from None


def _with_filter(
    decode: MessageFormat, source: SourceConfig, table: TableConfig, schema: TableSchema
) -> MessageFormat:
    """Conditions on what all changes of a row share come first: they choose among messages."""
    assert table.filter is not None, "it was asked before"
    predicate = parse_predicate(table.filter, schema.fields)
    parts = predicate.parts if isinstance(predicate, And) else (predicate,)
    shared = {
        *schema.primary_keys,
        *(name for name in table.made.names if table.made.is_shared(name, schema.primary_keys)),
    }
    is_whole = format_named(source.format).has_whole_before(source.format_options)
    certain: list[Predicate] = []
    others: list[Predicate] = []
    for part in parts:
        (certain if shared.issuperset(column_names(part)) else others).append(part)
    last = Knowledge.IMAGES if is_whole else Knowledge.NEWEST
    for chosen, known in ((certain, Knowledge.CERTAIN), (others, last)):
        if chosen:
            decode = FilteredMessages(
                messages=decode,
                condition=to_expression(And(tuple(chosen))),
                merges_by_key=schema.kind.merges_by_key,
                known=known,
            )
    return decode
