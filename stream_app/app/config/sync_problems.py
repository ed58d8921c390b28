"""Checks ``[sync]`` before a message is read, and reports each problem with its key.

Problems that depend on columns are reported when a table is created (`applicable_rules`,
`planning.sync.new_tables`). This module finds all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from stream_app.app.config.source_config import SourceConfig, SourceKind, TopicReader
from stream_app.app.config.sync_config import SyncConfig
from stream_app.cdc.column_drift import (
    COLUMN_ALIASES,
    INEXACT,
    JSON_AS,
    NARROWED_COLUMNS,
    TYPE_MAPPING,
    DriftKind,
    parse_aliases,
)
from stream_app.cdc.json_records.json_options import TRUNCATE_KEY
from stream_app.cdc.message_format import FormatDeclaration
from stream_app.errors import UsageError
from stream_app.model.options.bucket_options import BUCKET_KEY, PARTITION_LOOKUP
from stream_app.model.options.core_options import option_problems
from stream_app.model.schema.data_type import DataField, DataType, RowType, TypeRoot
from stream_app.model.schema.history_columns import history_columns, keys_of_versions
from stream_app.model.schema.table_schema import schema_problems
from stream_app.model.source.mapping_options import parse_mapping_options
from stream_app.planning.sync.named_tables import unreachable_reason
from stream_app.planning.sync.new_tables import Names, options_for
from stream_app.planning.sync.target_tables import name_problem

_Problems = Iterator[tuple[str, str]]
_SAMPLE_TYPES = (
    DataType(root=TypeRoot.BIGINT),
    DataType(root=TypeRoot.VARCHAR, length=9),
    DataType(root=TypeRoot.TIMESTAMP, precision=3),
    DataType(root=TypeRoot.BOOLEAN),
)
_SOURCE_KEY = "the key of the source"
_TRANSACTION_TOPIC_SUFFIX = ".transaction"
"""The suffix of the name of Debezium's topic of transactions."""


def first_load_problems(source_config: SourceConfig, declaration: FormatDeclaration) -> _Problems:
    """Yield (key, problem) for a first load of a whole database."""
    if source_config.snapshot_from is None:
        return
    if source_config.snapshot_table is not None:
        yield (
            "source.snapshot-table",
            "belongs to a job of one table: the rules of [sync] choose tables",
        )
    if not declaration.has_times:  # messages are rows alone
        key, reason = "source.snapshot-from", "whose messages name no table of the database"
        yield key, f"is not for source.format = {declaration.name} beside [sync], {reason}"


def sync_problems(
    sync_config: SyncConfig, source_kind: SourceKind, given_keys: Collection[str]
) -> _Problems:
    """Yield (key, problem) for the section, in combination with the other sections."""
    if table_key := next((key for key in given_keys if key.startswith("table.")), None):
        yield table_key, "a job takes one table, [table], or a whole database, [sync], not both"
    if source_kind is not SourceKind.KAFKA:
        yield "source.kind", "must be 'kafka' for a whole database"
    if "source.merge-shards" in given_keys:
        yield "source.merge-shards", "belongs to a job of one table; use sync.merge-shards"
    if not sync_config.warehouse:
        yield "sync.warehouse", "is missing: the folder of all databases"
    try:
        parse_mapping_options(sync_config.type_mapping)
    except UsageError as error:
        yield "sync.type-mapping", f"{error.problem} ({error.fix})"
    yield from _name_problems(sync_config)
    yield from _key_problems(sync_config)
    yield from _option_problems(sync_config)


def transaction_problems(source_config: SourceConfig, declaration: FormatDeclaration) -> _Problems:
    """Yield (key, problem) for ``transactions = whole``."""
    if not declaration.has_transactions:
        yield "sync.transactions", f"'whole' needs transactions, and {declaration.name} names none"
    if source_config.reader is TopicReader.SPARK:
        yield "source.reader", "must be 'native' for sync.transactions = 'whole'"
    if source_config.snapshot_from is not None:
        yield (
            "source.snapshot-from",
            "reads rows of different moments, which sync.transactions = 'whole' forbids",
        )
    if source_config.topics and not any(
        name.endswith(_TRANSACTION_TOPIC_SUFFIX) for name in source_config.topics
    ):
        yield (
            "source.topics",
            "lacks the connector's topic of transactions, such as shop.transaction, for "
            "sync.transactions = 'whole'",
        )


def drift_problems(
    sync_config: SyncConfig, declaration: FormatDeclaration, options: Mapping[str, str]
) -> _Problems:
    """Yield (key, problem) for the format's options of single tables.

    Args:
        options: the format's options for all tables.
    """
    unknown_option = DriftKind.UNKNOWN.option
    for key in {TYPE_MAPPING, INEXACT, JSON_AS} & options.keys():
        yield declaration.full_key(key), f"is sync.{key} in a job of a whole database"
    for key, problem in excluding_options({unknown_option: "evolve", **options}):
        yield declaration.full_key(key), problem
    yield from _table_problems(sync_config, declaration, options)
    reactions = {declaration.full_key(unknown_option): options.get(unknown_option)} | {
        f"sync.tables.{name}.{unknown_option}": sync_config.format_options_of(name).get(
            unknown_option
        )
        for name in sync_config.named_tables()
    }
    for key, value in reactions.items():
        if not sync_config.case_sensitive and value in ("stop", "quarantine"):
            yield key, f"{value!r} needs sync.case-sensitive = true"


def _table_problems(
    sync_config: SyncConfig, declaration: FormatDeclaration, options: Mapping[str, str]
) -> _Problems:
    """Yield (key, problem) for ``[sync.tables.NAME]``."""
    option_keys = {option.key for option in declaration.options}
    for name in sync_config.named_tables():
        table_options = sync_config.format_options_of(name)
        for key in table_options.keys() - option_keys - {TRUNCATE_KEY}:
            yield (
                f"sync.tables.{name}.{key}",
                f"source.format = {declaration.name!r} has no such option",
            )
        try:
            parse_aliases(table_options.get(COLUMN_ALIASES, ""))
        except UsageError as error:
            yield f"sync.tables.{name}.{COLUMN_ALIASES}", f"{error.problem} ({error.fix})"
        for key, problem in excluding_options(
            {DriftKind.UNKNOWN.option: "evolve", **options, **table_options}
        ):
            if key in table_options:
                yield f"sync.tables.{name}.{key}", problem


def excluding_options(options: Mapping[str, str]) -> _Problems:
    """Yield (key, problem) for the format's options that others contradict or make ineffective."""
    unknown_option, missing_option = DriftKind.UNKNOWN.option, DriftKind.MISSING.option
    if options.get(unknown_option) != "evolve":
        for key in (NARROWED_COLUMNS, TYPE_MAPPING):
            if options.get(key, "warn") != "warn":
                yield (
                    key,
                    f"needs {unknown_option} = evolve: else the table does not follow its source",
                )
    if options.get(COLUMN_ALIASES) and options.get(missing_option, "warn") not in (
        "warn",
        "ignore",
    ):
        yield COLUMN_ALIASES, f"needs {missing_option} = warn or ignore"


def _name_problems(sync_config: SyncConfig) -> _Problems:
    """Yield (key, problem) for names that no table can have, or that the rules leave out."""
    name_counts = Counter(name.lower() for name in sync_config.table_mapping)
    for source_name, name in sync_config.table_mapping.items():
        if name_counts[source_name.lower()] > 1:
            yield f"sync.table-mapping.{source_name}", "is given twice: names are read in any case"
        if problem := name_problem(name):
            yield f"sync.table-mapping.{source_name}", f"{name!r}: {problem}"
    for name in sync_config.named_tables():
        if not sync_config.case_sensitive and name != name.lower():
            yield (
                f"sync.tables.{name}",
                f"the table is {name.lower()!r} where sync.case-sensitive = false: write "
                f"[sync.tables.{name.lower()}]",
            )
        elif reason := unreachable_reason(sync_config.rules, name):
            yield f"sync.tables.{name}", f"no table gets this name: {reason}"


def _key_problems(sync_config: SyncConfig) -> _Problems:
    keys: dict[str, Sequence[str]] = {
        "sync.primary-keys": sync_config.primary_keys,
        "sync.partition-keys": sync_config.partition_keys,
    }
    for name, partition_keys in sync_config.multiple_table_partition_keys.items():
        keys[f"sync.multiple-table-partition-keys.{name}"] = partition_keys
    for name, rule in sync_config.table_rules.table_overrides.items():
        keys[f"sync.tables.{name}.primary-keys"] = rule.primary_keys or ()
        keys[f"sync.tables.{name}.partition-keys"] = rule.partition_keys or ()
    for key, columns in keys.items():
        for column, count in Counter(columns).items():
            if count > 1:
                yield key, f"names {column!r} twice"


def _option_problems(sync_config: SyncConfig) -> _Problems:
    """Yield (key, problem) for tables' options, alone and in combination."""
    rules = sync_config.table_rules
    wrong_options = list(_single_option_problems("sync.options", sync_config.options))
    yield from wrong_options
    lacks_key = not (rules.primary_keys or rules.copies_source_keys)
    shared_keys = rules.primary_keys or (() if lacks_key else (_SOURCE_KEY,))
    shared_problems = (
        set() if wrong_options else set(_certain_problems(shared_keys, (), sync_config.options, {}))
    )
    for problem in sorted(shared_problems):
        yield "sync.options", problem
    for name, rule in rules.table_overrides.items():
        table_problems = list(_single_option_problems(f"sync.tables.{name}.options", rule.options))
        yield from table_problems
        if wrong_options or table_problems:
            continue
        primary_keys = shared_keys if rule.primary_keys is None else rule.primary_keys
        # Partition keys for all tables apply only to tables that have these columns.
        partition_keys = rule.partition_keys or () if rule.primary_keys else ()
        for problem in _certain_problems(
            primary_keys, partition_keys, sync_config.options, rule.options
        ):
            if problem not in shared_problems:
                yield f"sync.tables.{name}", problem


def _single_option_problems(section: str, options: Mapping[str, str]) -> _Problems:
    for key, value in options.items():
        for problem in option_problems({key: value}):
            yield f"{section}.{key}", problem


def _certain_problems(
    primary_keys: Names,
    partition_keys: Names,
    shared_options: Mapping[str, str],
    table_options: Mapping[str, str],
) -> list[str]:
    """Return the problems that these options have for every table with such keys.

    It checks a table for each possible type of its columns, with a column for every name in an
    option.

    Args:
        primary_keys: the primary key, or `_SOURCE_KEY` alone if only messages show it.
        shared_options, table_options: the options of all tables, and those of one table.
    """
    options: Mapping[str, str] = {**options_for(primary_keys, shared_options), **table_options}
    if not partition_keys:  # the table may still have this option
        options = {key: text for key, text in options.items() if key != PARTITION_LOOKUP.key}
    option_columns = dict.fromkeys(
        name.strip() for value in options.values() for name in value.split(",") if name.strip()
    )
    for key in options:
        if key.startswith("fields."):
            option_columns |= dict.fromkeys(
                key.removeprefix("fields.").rpartition(".")[0].split(",")
            )
    keys = tuple(dict.fromkeys(primary_keys))
    if keys == (_SOURCE_KEY,):
        bucket_keys = options.get(BUCKET_KEY.key, "").split(",")
        keys = tuple(filter(None, dict.fromkeys((_SOURCE_KEY, *map(str.strip, bucket_keys)))))
    history = history_columns(options)
    keys, options = keys_of_versions(keys, partition_keys, options)
    history_names = () if history is None else history.names
    names = dict.fromkeys((*keys, *partition_keys, *history_names, *option_columns))
    problems_by_type = [
        schema_problems(
            RowType(
                tuple(
                    DataField(
                        field_id=index,
                        name=name,
                        data_type=data_type.not_null() if name in keys else data_type,
                    )
                    for index, name in enumerate(names)
                )
            ),
            keys,
            tuple(dict.fromkeys(partition_keys)),
            options,
        )
        for data_type in _SAMPLE_TYPES
    ]
    common_problems = set.intersection(*map(set, problems_by_type))
    return [problem for problem in problems_by_type[0] if problem in common_problems]
