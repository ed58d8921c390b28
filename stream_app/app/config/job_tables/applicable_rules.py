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
from stream_app.cdc.computed.definition import DefinitionError, parse_definition
from stream_app.cdc.computed.functions import function_of
from stream_app.cdc.computed.made_columns import MetadataError, argument_problem, key_problems
from stream_app.cdc.message_format import FormatDeclaration
from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_type
from stream_app.model.schema.data_type import RowType
from stream_app.planning.sync.new_tables import Names, OneTable
from stream_app.predicate.parser import check_grammar, named_columns, parse_predicate


class ApplicableRules(NamedTuple):
    """The rules that apply to one table.

    Attributes:
        rules: the configuration with the table's made columns and filter.
        lacking: the rules for all tables that do not fit this table, as texts.
    """

    rules: TableConfig
    lacking: tuple[str, ...]


def rules_of_table(sync: SyncConfig, name: str, columns: RowType) -> TableConfig:
    """Return the made columns and the filter of an existing table.

    It omits definitions whose columns the table has dropped.
    """
    return _holding(sync, name, columns.names, there=columns.names).rules


def rules_for(sync: SyncConfig, name: str, columns: RowType) -> ApplicableRules:
    """Return the made columns and the filter of a new table.

    Args:
        columns: the source's columns; made columns may be among them if the table exists.

    Raises:
        UsageError: a setting of this table does not fit its columns.
    """
    holding = _holding(sync, name, columns.names, there=None)
    try:
        whole = holding.rules.made_columns.columns(columns, arrow_type)
    except DefinitionError as error:
        raise UsageError(
            str(error),
            where=f"sync.computed-column, for the table {name}",
            fix=f"correct it, or give sync.tables.{name}.computed-column",
        ) from None
    if holding.rules.filter is not None:
        parse_predicate(holding.rules.filter, whole)
    return holding


def columns_with_made(
    sync: SyncConfig, name: str, columns: RowType
) -> tuple[RowType, tuple[str, ...]]:
    """Return a new table's columns with the made ones, and the texts of rules that do not fit."""
    asked = _holding(sync, name, columns.names, there=None).rules.made_columns
    if both := sorted(asked.names.intersection(columns.names)):
        raise UsageError(
            f"the source has a column {both[0]!r}, and the job would make another one of that name",
            where=f"the table {name}",
            fix="give the made column another name (sync.metadata-column-prefix, or the name in "
            "sync.computed-column)",
        )
    rules, lacking = rules_for(sync, name, columns)
    return rules.made_columns.columns(columns, arrow_type), lacking


def check_made_keys(sync: SyncConfig, name: str, columns: RowType, keys: tuple[str, ...]) -> None:
    """Refuse a primary key with a made column that could differ between changes of one row.

    Raises:
        UsageError: the primary key has such a column.
    """
    made = rules_for(sync, name, columns).rules.made_columns
    for problem in key_problems(made, keys) if made and keys else ():
        raise UsageError(problem, where=f"the table {name}", fix="choose other primary-keys")


def made_problems(sync: SyncConfig, source: FormatDeclaration) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for made columns and filters, as far as they do not depend on tables."""
    tables = sync.table_rules.tables
    of_all = set()
    for key, problem in _text_problems(_asked(sync, OneTable()), source):
        of_all.add(problem)
        yield f"sync.{key}", problem
    for name, rule in tables.items():
        for key, problem in _text_problems(_asked(sync, rule), source):
            if problem not in of_all:
                yield f"sync.tables.{name}.{key}", problem
    takes_metadata = sync.metadata_column or any(rule.metadata_column for rule in tables.values())
    if sync.metadata_column_prefix and not takes_metadata:
        yield "sync.metadata-column-prefix", "needs sync.metadata-column"
    for name, rule in tables.items():
        if rule.metadata_column_prefix and not _chosen(rule.metadata_column, sync.metadata_column):
            key = f"sync.tables.{name}.metadata-column"
            yield f"{key}-prefix", f"needs {key} or sync.metadata-column"


def _text_problems(rules: TableConfig, source: FormatDeclaration) -> Iterator[tuple[str, str]]:
    yield from missing_metadata("metadata-column", rules.metadata_columns, source)
    for text in rules.computed_columns:
        with contextlib.suppress(DefinitionError):  # reported below
            definition = parse_definition(text)
            function_of(definition)
            if problem := argument_problem(definition, arrow_type):
                yield "computed-column", problem
    try:
        _ = rules.made_columns
    except MetadataError as error:
        yield "metadata-column", str(error)
    except DefinitionError as error:
        yield "computed-column", str(error)
    try:
        if rules.filter is not None:
            check_grammar(rules.filter)
    except UsageError as error:
        yield "filter", f"{error.problem} ({error.fix})"


def _asked(sync: SyncConfig, own: OneTable) -> TableConfig:
    """Return the configured rules for a table, whether they fit or not."""
    prefix = own.metadata_column_prefix
    prefix = sync.metadata_column_prefix if prefix is None else prefix
    return TableConfig(
        computed_columns=tuple(
            text if sync.case_sensitive else _lowered(text)
            for text in _chosen(own.computed_column, sync.computed_column)
        ),
        metadata_columns=_chosen(own.metadata_column, sync.metadata_column),
        metadata_column_prefix=sync.cased([prefix])[0],
        options={**sync.options, **own.options},
        filter=sync.filter if own.filter is None else own.filter,
    )


def _lowered(text: str) -> str:
    """Return a definition with column names in lower case, or an invalid definition unchanged."""
    try:
        definition = parse_definition(text)
        takes_column = function_of(definition).takes_column
    except DefinitionError:
        return text
    first, *others = definition.arguments or ("",)
    taken = first.lower() if takes_column else first
    return f"{definition.name.lower()}={definition.function}({', '.join([taken, *others])})"


def _chosen(of_table: Names | None, of_all: Names) -> Names:
    return of_all if of_table is None else of_table


def _holding(
    sync: SyncConfig, name: str, columns: Collection[str], *, there: Collection[str] | None
) -> ApplicableRules:
    """Return the rules that apply to a table.

    If `there` is given, the table keeps only made columns among these.
    """
    own = sync.table_rules.tables.get(name, OneTable())
    asked, lacking = _asked(sync, own), list[str]()
    made = asked.made_columns
    prefix = asked.metadata_column_prefix
    metadata = [key for key in asked.metadata_columns if there is None or f"{prefix}{key}" in there]
    known = {*columns, *made.metadata}
    texts = {parse_definition(text).name: text for text in asked.computed_columns}
    computed = []
    for definition in made.computed:
        taken = made.reference(definition)
        is_there = there is None or definition.name in there
        has_column = taken is None or taken in known
        if is_there and (has_column or (there is None and own.computed_column is not None)):
            computed.append(texts[definition.name])
            known.add(definition.name)
        elif is_there:
            lacking.append(f"computed-column {definition.name} does not hold: no column {taken}")
    missing = set(named_columns(asked.filter or "")) - known
    leaves_filter = bool(missing) and own.filter is None
    if leaves_filter:
        lacking.append(f"filter does not hold: no column {', '.join(sorted(missing))}")
    history = asked.history
    keeps_history = history is not None and (there is None or set(history.names) <= set(there))
    rules = replace(
        asked,
        options=asked.options if keeps_history else {},
        computed_columns=tuple(computed),
        metadata_columns=tuple(metadata),
        filter=None if leaves_filter else asked.filter,
    )
    return ApplicableRules(rules, tuple(lacking))
