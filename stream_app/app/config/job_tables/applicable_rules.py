"""Decides the made columns and the filter of each table of a job.

In a job of one table ``[table]`` has them. In a job of a whole database, a rule for all tables
applies to each table that has its columns, and ``[sync.tables.NAME]`` overrides it.

Source: Paimon `flink/action/cdc/ComputedColumnUtils.java`, `SyncDatabaseActionBase.java`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.config.table_config import TableConfig, missing_metadata
from stream_app.cdc.computed.column_definition import DefinitionError, parse_definition
from stream_app.cdc.computed.column_functions import function_of
from stream_app.cdc.computed.made_columns import (
    MetadataError,
    argument_problem,
    key_problems,
    referenced_column,
)
from stream_app.cdc.message_format import FormatDeclaration
from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_type
from stream_app.model.schema.data_type import RowType
from stream_app.planning.sync.new_tables import Names, TableOverrides
from stream_app.predicate.parser import check_grammar, named_columns, parse_predicate


class ApplicableRules(NamedTuple):
    """The rules that apply to one table.

    Attributes:
        table_config: the configuration with the table's made columns and filter.
        inapplicable_rules: the rules for all tables that do not fit this table, as texts.
    """

    table_config: TableConfig
    inapplicable_rules: tuple[str, ...]


def rules_of_existing_table(sync_config: SyncConfig, name: str, columns: RowType) -> TableConfig:
    """Return the made columns and the filter of an existing table.

    It omits definitions whose columns the table has dropped.
    """
    return _applicable_rules(
        sync_config, name, columns.names, existing_names=columns.names
    ).table_config


def rules_of_new_table(sync_config: SyncConfig, name: str, columns: RowType) -> ApplicableRules:
    """Return the made columns and the filter of a new table.

    Args:
        columns: the source's columns; made columns may be among them if the table exists.

    Raises:
        UsageError: a setting of this table does not fit its columns.
    """
    applicable_rules = _applicable_rules(sync_config, name, columns.names, existing_names=None)
    try:
        all_columns = applicable_rules.table_config.made_columns.columns(columns, arrow_type)
    except DefinitionError as error:
        raise UsageError(
            str(error),
            where=f"sync.computed-column, for the table {name}",
            fix=f"correct the definition, or set sync.tables.{name}.computed-column",
        ) from None
    if applicable_rules.table_config.filter is not None:
        parse_predicate(applicable_rules.table_config.filter, all_columns)
    return applicable_rules


def columns_with_made(
    sync_config: SyncConfig, name: str, columns: RowType
) -> tuple[RowType, tuple[str, ...]]:
    """Return a new table's columns with the made ones, and the texts of rules that do not fit."""
    made_columns = _applicable_rules(
        sync_config, name, columns.names, existing_names=None
    ).table_config.made_columns
    if clashing_names := sorted(made_columns.names.intersection(columns.names)):
        raise UsageError(
            f"the source has a column {clashing_names[0]!r}, and the job would make another one of "
            "that name",
            where=f"the table {name}",
            fix="give the made column another name (sync.metadata-column-prefix, or the name in "
            "sync.computed-column)",
        )
    table_config, inapplicable_rules = rules_of_new_table(sync_config, name, columns)
    return table_config.made_columns.columns(columns, arrow_type), inapplicable_rules


def check_made_keys(
    sync_config: SyncConfig, name: str, columns: RowType, keys: tuple[str, ...]
) -> None:
    """Refuse a primary key with a made column that could differ between changes of one row.

    Raises:
        UsageError: the primary key has such a column.
    """
    made_columns = rules_of_new_table(sync_config, name, columns).table_config.made_columns
    problems = list(key_problems(made_columns, keys)) if made_columns and keys else []
    if problems:
        raise UsageError(problems[0], where=f"the table {name}", fix="choose other primary-keys")


def made_column_problems(
    sync_config: SyncConfig, declaration: FormatDeclaration
) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for made columns and filters, as far as they do not depend on tables."""
    tables = sync_config.table_rules.table_overrides
    shared_problems = set()
    for key, problem in _text_problems(
        _configured_rules(sync_config, TableOverrides()), declaration
    ):
        shared_problems.add(problem)
        yield f"sync.{key}", problem
    for name, rule in tables.items():
        for key, problem in _text_problems(_configured_rules(sync_config, rule), declaration):
            if problem not in shared_problems:
                yield f"sync.tables.{name}.{key}", problem
    takes_metadata = sync_config.metadata_column or any(
        rule.metadata_column for rule in tables.values()
    )
    if sync_config.metadata_column_prefix and not takes_metadata:
        yield "sync.metadata-column-prefix", "needs sync.metadata-column"
    for name, rule in tables.items():
        if rule.metadata_column_prefix and not _own_or_shared(
            rule.metadata_column, sync_config.metadata_column
        ):
            key = f"sync.tables.{name}.metadata-column"
            yield f"{key}-prefix", f"needs {key} or sync.metadata-column"


def _text_problems(
    table_config: TableConfig, declaration: FormatDeclaration
) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for definitions and filters, whatever columns a table has."""
    yield from missing_metadata("metadata-column", table_config.metadata_columns, declaration)
    for text in table_config.computed_columns:
        with contextlib.suppress(DefinitionError):  # reported below
            definition = parse_definition(text)
            function_of(definition)
            if problem := argument_problem(definition, arrow_type):
                yield "computed-column", problem
    try:
        _ = table_config.made_columns
    except MetadataError as error:
        yield "metadata-column", str(error)
    except DefinitionError as error:
        yield "computed-column", str(error)
    try:
        if table_config.filter is not None:
            check_grammar(table_config.filter)
    except UsageError as error:
        yield "filter", f"{error.problem} ({error.fix})"


def _configured_rules(sync_config: SyncConfig, table_overrides: TableOverrides) -> TableConfig:
    """Return the configured rules for a table, whether they fit or not."""
    prefix = table_overrides.metadata_column_prefix
    prefix = sync_config.metadata_column_prefix if prefix is None else prefix
    return TableConfig(
        computed_columns=tuple(
            text if sync_config.case_sensitive else _in_lower_case(text)
            for text in _own_or_shared(table_overrides.computed_column, sync_config.computed_column)
        ),
        metadata_columns=_own_or_shared(
            table_overrides.metadata_column, sync_config.metadata_column
        ),
        metadata_column_prefix=sync_config.cased([prefix])[0],
        options={**sync_config.options, **table_overrides.options},
        filter=sync_config.filter if table_overrides.filter is None else table_overrides.filter,
    )


def _in_lower_case(text: str) -> str:
    """Return a definition with column names in lower case, or an invalid definition unchanged."""
    try:
        definition = parse_definition(text)
        reads_column = function_of(definition).reads_column
    except DefinitionError:
        return text
    first_argument, *other_arguments = definition.arguments or ("",)
    argument = first_argument.lower() if reads_column else first_argument
    arguments = ", ".join([argument, *other_arguments])
    return f"{definition.name.lower()}={definition.function}({arguments})"


def _own_or_shared(table_names: Names | None, shared_names: Names) -> Names:
    return shared_names if table_names is None else table_names


def _applicable_rules(
    sync_config: SyncConfig,
    name: str,
    columns: Collection[str],
    *,
    existing_names: Collection[str] | None,
) -> ApplicableRules:
    """Return the rules that apply to a table.

    Args:
        columns: the names of the columns that a rule may read.
        existing_names: the columns of an existing table, of which it keeps the made ones; None for
            a new table, which gets all made columns.
    """
    table_overrides = sync_config.table_rules.table_overrides.get(name, TableOverrides())
    configured_rules = _configured_rules(sync_config, table_overrides)
    names = {*columns, *configured_rules.made_columns.metadata}
    computed_columns, inapplicable_rules = _applicable_definitions(
        configured_rules,
        names,
        existing_names=existing_names,
        applies_to_all=table_overrides.computed_column is None,
    )
    missing_names = set(named_columns(configured_rules.filter or "")) - names
    omits_filter = bool(missing_names) and table_overrides.filter is None
    if omits_filter:
        inapplicable_rules.append(
            f"filter does not apply: there is no column {', '.join(sorted(missing_names))}"
        )
    table_config = replace(
        configured_rules,
        # `TableConfig.history` reads the options, and would make columns that the table lacks.
        options=configured_rules.options
        if _keeps_history(configured_rules, existing_names)
        else {},
        computed_columns=tuple(computed_columns),
        metadata_columns=_existing_metadata(configured_rules, existing_names),
        filter=None if omits_filter else configured_rules.filter,
    )
    return ApplicableRules(table_config, tuple(inapplicable_rules))


def _applicable_definitions(
    table_config: TableConfig,
    names: set[str],
    *,
    existing_names: Collection[str] | None,
    applies_to_all: bool,
) -> tuple[list[str], list[str]]:
    """Return the definitions that a table gets, and the texts of those that do not fit.

    Args:
        names: the columns that a definition may read, to which this adds the computed ones.
        existing_names: the columns of an existing table, of which it keeps the made ones; None for
            a new table.
        applies_to_all: whether the definitions are those for all tables, which a new table omits if
            they do not fit.
    """
    definition_texts = {parse_definition(text).name: text for text in table_config.computed_columns}
    computed_columns, inapplicable_rules = list[str](), list[str]()
    for definition in table_config.made_columns.definitions:
        if existing_names is not None and definition.name not in existing_names:
            continue
        argument = referenced_column(definition)
        has_column = argument is None or argument in names
        # `rules_of_new_table` reports a new table's own definition that does not fit.
        must_fit = existing_names is None and not applies_to_all
        if has_column or must_fit:
            computed_columns.append(definition_texts[definition.name])
            names.add(definition.name)
        else:
            inapplicable_rules.append(
                f"computed-column {definition.name} does not apply: there is no column {argument}"
            )
    return computed_columns, inapplicable_rules


def _existing_metadata(
    table_config: TableConfig, existing_names: Collection[str] | None
) -> tuple[str, ...]:
    """Return the metadata whose columns the table has, or all for a new table."""
    prefix = table_config.metadata_column_prefix
    return tuple(
        key
        for key in table_config.metadata_columns
        if existing_names is None or f"{prefix}{key}" in existing_names
    )


def _keeps_history(table_config: TableConfig, existing_names: Collection[str] | None) -> bool:
    """Return whether the table has, or as a new table gets, the columns of its history."""
    history = table_config.history
    return history is not None and (existing_names is None or {*history.names} <= {*existing_names})
